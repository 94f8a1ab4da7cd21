//! Errors of a node, for the operator: what failed, why, and what to do.

use std::error::Error;
use std::io;

/// A node did not start or did not stop as it should.
#[derive(Debug, thiserror::Error)]
#[error("{what}")]
pub struct NodeError {
    pub what: String,
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
        Self { cause: Some(cause.into()), ..Self::new(what, fix) }
    }
}

/// Adds the failed action and the remedy to an error.
pub(crate) trait Explain<T> {
    fn explain(self, what: impl Into<String>, fix: impl Into<String>) -> Result<T, NodeError>;
}

impl<T, E: Into<Box<dyn Error + Send + Sync>>> Explain<T> for Result<T, E> {
    fn explain(self, what: impl Into<String>, fix: impl Into<String>) -> Result<T, NodeError> {
        self.map_err(|error| NodeError::with_cause(error, what, fix))
    }
}

/// The first I/O error in the chain of sources.
pub(crate) fn io_error<'a>(error: &'a (dyn Error + 'static)) -> Option<&'a io::Error> {
    let mut next = Some(error);
    while let Some(error) = next {
        if let Some(error) = error.downcast_ref() {
            return Some(error);
        }
        next = error.source();
    }
    None
}
