//! Options of the engine.

use std::time::Duration;

/// Options of the engine.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Options {
    /// How long opening waits for a node.
    pub connect_timeout: Duration,
    /// The timeout of a request to a node. Its outcome is then unknown. It should be above the timeouts of
    /// the servers (`cas_contention_timeout`, `write_request_timeout`), which give a better reason.
    pub request_timeout: Duration,
    /// How long a node that did not respond is used only if there is no other.
    pub avoid_for: Duration,
    /// The interval at which the settings of the nodes are checked.
    pub check_interval: Duration,
    /// Uses nodes with `commitlog_sync: periodic`: a power failure of two nodes within its period loses
    /// acknowledged writes, and promises of Paxos, so that a register may get two values.
    pub accept_periodic_sync: bool,
    /// The most writes in flight. Above it writes fail as busy.
    pub in_flight_writes_max: usize,
    /// The most bytes of values in flight.
    pub in_flight_bytes_max: usize,
    /// The most other requests in flight.
    pub in_flight_requests_max: usize,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            connect_timeout: Duration::from_secs(5),
            request_timeout: Duration::from_secs(3),
            avoid_for: Duration::from_secs(10),
            check_interval: Duration::from_secs(10),
            accept_periodic_sync: false,
            in_flight_writes_max: 65_536,
            in_flight_bytes_max: 64 << 20,
            in_flight_requests_max: 4096,
        }
    }
}
