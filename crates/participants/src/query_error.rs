//! Results and errors of queries, and polling for conditions that cannot be awaited.

use std::time::{Duration, Instant};

use jeton_etx::ResourceError;

const POLL_INTERVAL: Duration = Duration::from_millis(3);

/// The end of a polling loop.
pub struct PollDeadline {
    started: Instant,
    timeout: Duration,
}

impl PollDeadline {
    pub fn new(timeout: Duration) -> Self {
        Self { started: Instant::now(), timeout }
    }

    /// Waits for the next poll; `false` after the timeout.
    pub async fn again(&self) -> bool {
        if self.started.elapsed() >= self.timeout {
            return false;
        }
        tokio::time::sleep(POLL_INTERVAL).await;
        true
    }
}

#[derive(Debug)]
pub struct QueryError {
    /// The error code of the database; empty if the database did not report the error.
    pub code: String,
    /// Whether the connection is unusable. The statement may have been executed all the same.
    pub is_lost: bool,
    /// The same error for callers of the resource.
    pub error: ResourceError,
    /// The table of a violated constraint, if the database reports it.
    pub table: String,
}

impl From<QueryError> for ResourceError {
    fn from(error: QueryError) -> Self {
        error.error
    }
}

impl From<ResourceError> for QueryError {
    fn from(error: ResourceError) -> Self {
        Self { code: String::new(), is_lost: true, error, table: String::new() }
    }
}

/// The rows of a query without parameters, as text.
pub type TextRows = Vec<Vec<Option<String>>>;

/// The first column of the first row.
pub fn first(rows: &TextRows) -> Option<&str> {
    rows.first()?.first()?.as_deref()
}
