//! Options of the engine.

use std::time::Duration;

/// Options of the engine.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Options {
    /// How long a request waits for a connection. Then it fails as unavailable.
    pub connect_timeout: Duration,
    /// The timeout of a statement. Its connection is then closed, and its outcome is unknown.
    pub statement_timeout: Duration,
    /// The most writes in flight. Above it writes fail as busy.
    pub in_flight_writes_max: usize,
    /// The most bytes of values in flight.
    pub in_flight_bytes_max: usize,
    /// Refuse a server whose standbys are all asynchronous: a failover to one loses acknowledged writes.
    pub refuse_asynchronous_standbys: bool,
    /// The most other requests in flight.
    pub in_flight_requests_max: usize,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            connect_timeout: Duration::from_secs(5),
            statement_timeout: Duration::from_secs(10),
            in_flight_writes_max: 65_536,
            in_flight_bytes_max: 64 << 20,
            refuse_asynchronous_standbys: false,
            in_flight_requests_max: 4096,
        }
    }
}
