//! The id of an operation.

use std::fmt;
use std::sync::Arc;

use jeton_core::{Format, OpId};

/// Longest id: a tag and the longest id of any format.
const BYTES_MAX: usize = 640;

/// The id of an operation: text in a format that the table accepts.
///
/// A client generates UUIDs of version 7 ([`Client::new_id`](crate::Client::new_id)). If the counted event
/// already has an id, use that one: it also covers retries between the source of the event and this client.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct Id(Arc<str>);

/// Text that no table accepts as an id.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("invalid id: {0}")]
pub struct IdError(&'static str);

impl Id {
    /// An id from text. The table defines which formats it accepts; if it accepts several, the id starts with
    /// the name of its format: `ulid:01J...`.
    pub fn new(text: impl AsRef<str>) -> Result<Self, IdError> {
        let text = text.as_ref();
        if text.is_empty() {
            return Err(IdError("it is empty"));
        }
        if text.len() > BYTES_MAX {
            return Err(IdError("it is longer than 640 bytes"));
        }
        Ok(Self(text.into()))
    }

    /// A UUID of version 7 from its bits; `tagged` puts the name of its format in front.
    pub(crate) fn uuid7(bits: u128, tagged: bool) -> Self {
        let uuid = OpId::Uuid7(bits);
        Self(if tagged { format!("uuid7:{uuid}").into() } else { uuid.to_string().into() })
    }

    /// The id of a numbered request of a session.
    #[cfg(feature = "transactions")]
    pub(crate) fn numbered(session: u128, number: u32) -> Self {
        Self(format!("{}:{number}", OpId::Uuid7(session)).into())
    }

    /// The id as it is sent.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The time of a UUID of version 7, in milliseconds since 1970; `None` for other formats.
    pub fn millis(&self) -> Option<u64> {
        let text = self.0.strip_prefix("uuid7:").unwrap_or(&self.0);
        match Format::Uuid7.parse(text) {
            Ok(OpId::Uuid7(bits)) => Some((bits >> 80) as u64),
            _ => None,
        }
    }
}

impl fmt::Display for Id {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(&self.0)
    }
}

impl fmt::Debug for Id {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "Id({})", &self.0)
    }
}

impl std::str::FromStr for Id {
    type Err = IdError;

    fn from_str(text: &str) -> Result<Self, IdError> {
        Self::new(text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_uuid7_has_a_time() {
        let bits = 1_700_000_000_000u128 << 80 | 7 << 76 | 0b10 << 62;
        let (plain, tagged) = (Id::uuid7(bits, false), Id::uuid7(bits, true));
        assert_eq!(plain.as_str(), "018bcfe5-6800-7000-8000-000000000000");
        assert_eq!(tagged.as_str(), "uuid7:018bcfe5-6800-7000-8000-000000000000");
        assert_eq!((plain.millis(), tagged.millis()), (Some(1_700_000_000_000), Some(1_700_000_000_000)));
        let uuid4: Id = "7f9c24e8-3b12-4fef-91e0-5d7a0c7b6e1f".parse().unwrap();
        assert_eq!(uuid4.millis(), None);
    }

    #[test]
    fn empty_and_long_ids_are_rejected() {
        assert!(Id::new("").is_err());
        assert!(Id::new("x".repeat(BYTES_MAX)).is_ok());
        assert!(Id::new("x".repeat(BYTES_MAX + 1)).is_err());
    }
}
