//! A failure as its reader needs it: what happened, why, and what to do about it.

use std::fmt;
use std::io::Write;

/// What happened and what to do about it; why it happened is the error below it.
#[derive(Debug)]
pub struct CliError {
    /// What did not work, in the words of the user.
    pub what: String,
    /// What the user can do now.
    pub fix: String,
}

impl CliError {
    /// Puts what happened and what to do on top of why it happened.
    pub fn of(
        why: impl Into<anyhow::Error>,
        what: impl Into<String>,
        fix: impl Into<String>,
    ) -> anyhow::Error {
        why.into().context(Self { what: what.into(), fix: fix.into() })
    }
}

impl fmt::Display for CliError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.what)
    }
}

impl std::error::Error for CliError {}

/// Tells the user on standard error.
pub fn report(error: &anyhow::Error) {
    let mut text = format!("error: {error}\n");
    let why: Vec<String> = error.chain().skip(1).map(ToString::to_string).collect();
    if !why.is_empty() {
        text += &format!("  why: {}\n", why.join(": "));
    }
    if let Some(failure) = error.downcast_ref::<CliError>() {
        text += &format!("  fix: {}\n", failure.fix);
    }
    // If standard error is closed too, there is nobody left to tell.
    let _ = std::io::stderr().write_all(text.as_bytes());
}
