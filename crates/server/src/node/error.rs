//! Errors of a node, for the operator: what failed, why, and what to do.

use std::error::Error;

/// A node did not start or did not stop as it should.
#[derive(Debug, thiserror::Error)]
#[error("{what}")]
pub struct NodeError {
    /// The action that failed.
    pub what: String,
    /// What the operator can do.
    pub fix: String,
    /// Why it failed, if `what` does not say it.
    #[source]
    pub cause: Option<Box<dyn Error + Send + Sync>>,
}

impl NodeError {
    pub(crate) fn new(what: impl Into<String>, fix: impl Into<String>) -> Self {
        Self { what: what.into(), fix: fix.into(), cause: None }
    }

    pub(crate) fn with_cause(
        cause: impl Into<Box<dyn Error + Send + Sync>>,
        what: impl Into<String>,
        fix: impl Into<String>,
    ) -> Self {
        Self { what: what.into(), fix: fix.into(), cause: Some(cause.into()) }
    }
}
