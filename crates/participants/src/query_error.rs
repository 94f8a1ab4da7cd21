//! How databases are asked for something, and how long and how often a condition is looked at that cannot be awaited.

use std::time::{Duration, Instant};

use jeton_etx::ResourceError;

/// Between two looks.
const LOOK: Duration = Duration::from_millis(3);

/// Looks at something again and again, within a limit.
pub struct PollDeadline {
    since: Instant,
    limit: Duration,
}

impl PollDeadline {
    pub fn new(limit: Duration) -> Self {
        Self { since: Instant::now(), limit }
    }

    /// Waits for the next look; `false` when the limit is reached.
    pub async fn again(&self) -> bool {
        if self.since.elapsed() >= self.limit {
            return false;
        }
        tokio::time::sleep(LOOK).await;
        true
    }
}

/// Why a database did not do what it was asked.
#[derive(Debug)]
pub struct QueryError {
    /// Its code for the error; empty if the error is not its own.
    pub code: String,
    /// Whether the connection is of no more use, and what was asked may have been done all the same.
    pub is_lost: bool,
    /// The error in general terms.
    pub failure: ResourceError,
    /// The table that it is about, where the database says so.
    pub table: String,
}

impl From<QueryError> for ResourceError {
    fn from(trouble: QueryError) -> Self {
        trouble.failure
    }
}

impl From<ResourceError> for QueryError {
    fn from(failure: ResourceError) -> Self {
        Self { code: String::new(), is_lost: true, failure, table: String::new() }
    }
}

/// What a plain query returns: rows of text.
pub type TextRows = Vec<Vec<Option<String>>>;

/// The first column of the first row.
pub fn first(texts: &TextRows) -> Option<&str> {
    texts.first()?.first()?.as_deref()
}
