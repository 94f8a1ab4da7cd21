//! A pattern: the name of a table, the beginning of names followed by `*`, or `*` for all.

use std::fmt;
use std::str::FromStr;

use crate::limits::PATTERN_BYTES_MAX;
use crate::token::looks_secret;

/// Which tables a rule is about.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Pattern {
    /// The name, or its beginning.
    text: Box<str>,
    open_ended: bool,
}

/// A text that is no pattern. It is not repeated: somebody may have pasted a token.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error(
    "a pattern is the name of a table, or the beginning of names and \"*\": up to 64 of a-z, 0-9, '.', '_', '-', the \
     first a letter or a digit, and \"*\" only at the end"
)]
pub struct PatternError;

impl Pattern {
    /// Whether a table with this name is meant.
    pub fn matches(&self, table: &str) -> bool {
        if self.open_ended { table.starts_with(&*self.text) } else { table == &*self.text }
    }
}

impl FromStr for Pattern {
    type Err = PatternError;

    fn from_str(pattern: &str) -> Result<Self, PatternError> {
        let (text, open_ended) = match pattern.strip_suffix('*') {
            Some(beginning) => (beginning, true),
            None => (pattern, false),
        };
        let plain = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || b"._-".contains(&byte);
        let good = match text.bytes().next() {
            // Nothing and "*" is every table. Nothing alone is no table.
            None => open_ended,
            Some(first) => {
                first.is_ascii_alphanumeric()
                    && text.bytes().all(plain)
                    && text.len() <= PATTERN_BYTES_MAX
                    && !looks_secret(text)
            }
        };
        if good { Ok(Self { text: text.into(), open_ended }) } else { Err(PatternError) }
    }
}

impl fmt::Display for Pattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{}", self.text, if self.open_ended { "*" } else { "" })
    }
}
