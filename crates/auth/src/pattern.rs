//! A pattern of table names: a name, a prefix followed by `*`, or `*` for all.

use std::fmt;
use std::str::FromStr;

use crate::limits::PATTERN_BYTES_MAX;
use crate::token::looks_secret;

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Pattern(Box<str>);

/// A malformed pattern. The message does not repeat the text, which may be a token.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error(
    "a pattern is the name of a table, or a prefix and \"*\": up to 64 of a-z, 0-9, '.', '_', '-', the first a letter \
     or a digit, and \"*\" only at the end"
)]
pub struct PatternError;

impl Pattern {
    pub fn matches(&self, table: &str) -> bool {
        self.0.strip_suffix('*').map_or(table == &*self.0, |prefix| table.starts_with(prefix))
    }
}

impl FromStr for Pattern {
    type Err = PatternError;

    fn from_str(pattern: &str) -> Result<Self, PatternError> {
        let text = pattern.strip_suffix('*').unwrap_or(pattern);
        let plain = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || b"._-".contains(&byte);
        let good = match text.bytes().next() {
            // "*" matches every table. The empty pattern is invalid.
            None => !pattern.is_empty(),
            Some(first) => {
                first.is_ascii_alphanumeric()
                    && text.bytes().all(plain)
                    && text.len() <= PATTERN_BYTES_MAX
                    && !looks_secret(text)
            }
        };
        if good { Ok(Self(pattern.into())) } else { Err(PatternError) }
    }
}

impl fmt::Display for Pattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}
