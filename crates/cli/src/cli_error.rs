//! Errors for the user: what failed, why, and what to do.

use std::fmt;
use std::io::Write;

use jeton_server::node::NodeError;

/// What failed and what to do. The cause is the next error of the chain.
#[derive(Debug)]
pub struct CliError {
    /// The action that failed.
    what: String,
    /// What the user can do.
    fix: String,
}

impl CliError {
    /// An error without a cause.
    pub fn without_cause(what: impl Into<String>, fix: impl Into<String>) -> anyhow::Error {
        Self { what: what.into(), fix: fix.into() }.into()
    }

    /// Wraps a cause.
    pub fn of(
        cause: impl Into<anyhow::Error>,
        what: impl Into<String>,
        fix: impl Into<String>,
    ) -> anyhow::Error {
        cause.into().context(Self { what: what.into(), fix: fix.into() })
    }
}

impl fmt::Display for CliError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.what)
    }
}

impl std::error::Error for CliError {}

/// What the user can do about an error.
pub fn fix_of(error: &anyhow::Error) -> Option<&str> {
    let of_node = || error.downcast_ref::<NodeError>().map(|error| error.fix.as_str());
    error.downcast_ref::<CliError>().map(|error| error.fix.as_str()).or_else(of_node)
}

/// Prints an error on standard error.
pub fn report(error: &anyhow::Error) {
    let mut text = format!("error: {error}\n");
    let causes: Vec<String> = error.chain().skip(1).map(ToString::to_string).collect();
    if !causes.is_empty() {
        text += &format!("  why: {}\n", causes.join(": "));
    }
    if let Some(fix) = fix_of(error) {
        text += &format!("  fix: {fix}\n");
    }
    // Nothing can be done if standard error is closed.
    let _ = std::io::stderr().write_all(text.as_bytes());
}
