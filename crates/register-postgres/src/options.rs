//! What can be chosen about the engine.

use std::time::Duration;

/// What can be chosen about the engine.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Options {
    /// How long a request may wait for a connection. Then it is told that the database is out of reach.
    pub connect_patience: Duration,
    /// How long a statement may take. Then its connection is given up, and its outcome is unknown.
    pub answer_patience: Duration,
    /// How many writes may wait or be on their way. Beyond that callers are told that the engine is busy.
    pub waiting_writes_max: usize,
    /// The same for the bytes of their values.
    pub waiting_bytes_max: usize,
    /// How many other requests may wait or be on their way.
    pub waiting_requests_max: usize,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            connect_patience: Duration::from_secs(5),
            answer_patience: Duration::from_secs(10),
            waiting_writes_max: 65_536,
            waiting_bytes_max: 64 << 20,
            waiting_requests_max: 4096,
        }
    }
}
