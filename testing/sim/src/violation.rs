//! A violation: a promise that was not kept.

use std::fmt;

/// A promise that was not kept.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Violation {
    /// The rule: the name of the checker that noticed.
    pub rule: &'static str,
    /// What was seen.
    pub what: String,
}

impl Violation {
    /// What a checker saw.
    pub fn new(rule: &'static str, what: impl Into<String>) -> Self {
        Self { rule, what: what.into() }
    }
}

impl fmt::Display for Violation {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "[{}] {}", self.rule, self.what)
    }
}

/// Nothing, or what was seen.
pub type Checked = Result<(), Violation>;
