//! A violation of a rule.

use std::fmt;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Violation {
    pub rule: &'static str,
    pub what: String,
}

/// The error of a violated rule; the message is formatted.
macro_rules! violated {
    ($rule:expr, $($what:tt)+) => {
        Err($crate::violation::Violation { rule: $rule, what: format!($($what)+) })
    };
}
pub(crate) use violated;

impl fmt::Display for Violation {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "[{}] {}", self.rule, self.what)
    }
}

pub type Checked = Result<(), Violation>;
