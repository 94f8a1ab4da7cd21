//! A pattern of table names: a name, a prefix followed by `*`, or `*` for all.

use std::fmt;
use std::str::FromStr;

use crate::limits::PATTERN_BYTES_MAX;
use crate::token::looks_secret;

/// A pattern of table names.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Pattern {
    /// The name or prefix.
    text: Box<str>,
    is_prefix: bool,
}

/// A malformed pattern. The message does not repeat the text, which may be a token.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error(
    "a pattern is the name of a table, or a prefix and \"*\": up to 64 of a-z, 0-9, '.', '_', '-', the first a letter \
     or a digit, and \"*\" only at the end"
)]
pub struct PatternError;

impl Pattern {
    /// Whether the pattern matches a table name.
    pub fn matches(&self, table: &str) -> bool {
        if self.is_prefix { table.starts_with(&*self.text) } else { table == &*self.text }
    }
}

impl FromStr for Pattern {
    type Err = PatternError;

    fn from_str(pattern: &str) -> Result<Self, PatternError> {
        let (text, is_prefix) = match pattern.strip_suffix('*') {
            Some(beginning) => (beginning, true),
            None => (pattern, false),
        };
        let plain = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || b"._-".contains(&byte);
        let good = match text.bytes().next() {
            // "*" matches every table. The empty pattern is invalid.
            None => is_prefix,
            Some(first) => {
                first.is_ascii_alphanumeric()
                    && text.bytes().all(plain)
                    && text.len() <= PATTERN_BYTES_MAX
                    && !looks_secret(text)
            }
        };
        if good { Ok(Self { text: text.into(), is_prefix }) } else { Err(PatternError) }
    }
}

impl fmt::Display for Pattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{}", self.text, if self.is_prefix { "*" } else { "" })
    }
}
