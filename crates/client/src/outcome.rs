//! Parses the server's replies.

use jeton_resp::reply_parser::Value;

use crate::id::Id;

/// Whether an operation took effect.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Status {
    /// It took effect.
    Applied,
    /// A bound refused it; the server stores the refusal under its id.
    Refused,
    /// The filter of a probabilistic table contains its id: it did not take effect now. Not final: a later
    /// retry may be [`Applied`](Self::Applied).
    ProbablySeen,
}

/// The result of a write.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Outcome {
    /// The id of the operation.
    pub id: Id,
    /// The counter afterwards. `None` after a delete, for bytes, and for [`Status::ProbablySeen`].
    pub value: Option<i64>,
    /// Whether it took effect.
    pub status: Status,
    /// Whether this is the stored result of an earlier attempt.
    pub replayed: bool,
    /// Whether a crash of the server may still undo it: the table has relaxed durability.
    pub relaxed: bool,
}

impl Outcome {
    /// Whether it was counted, by this attempt or an earlier one.
    pub fn is_applied(&self) -> bool {
        self.status == Status::Applied
    }
}

/// The result of a write to several counters.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ManyOutcome {
    /// The id of the operation.
    pub id: Id,
    /// The counters afterwards, in the order of the request.
    pub values: Vec<Option<i64>>,
    /// Whether it took effect.
    pub status: Status,
    /// Whether this is the stored result of an earlier attempt.
    pub replayed: bool,
    /// Whether a crash of the server may still undo it: the table has relaxed durability.
    pub relaxed: bool,
}

/// The value of a key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum StoredValue {
    /// A counter, see [`Client::add`](crate::Client::add).
    Counter(i64),
    /// Bytes, see [`Client::put`](crate::Client::put).
    Bytes(Vec<u8>),
}

impl StoredValue {
    /// The counter, or `None` for bytes.
    pub fn counter(&self) -> Option<i64> {
        match self {
            Self::Counter(value) => Some(*value),
            Self::Bytes(_) => None,
        }
    }
}

/// What a server knows about an id.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum OperationStatus {
    /// No dedup record: the operation did not arrive, or its id has no time and the record was dropped.
    Unknown,
    /// The id is older than the window.
    Forgotten,
    /// The filter of a probabilistic table contains the id.
    ProbablySeen,
    /// The operation arrived; this is its result.
    Known {
        /// Whether it took effect; otherwise a bound refused it.
        applied: bool,
        /// The counters afterwards.
        values: Vec<Option<i64>>,
        /// When it was decided: the server's time in milliseconds since 1970.
        millis: u64,
    },
}

/// A reply that does not fit the request.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct UnexpectedReply(pub String);

fn unexpected<T>(value: &Value) -> Result<T, UnexpectedReply> {
    let mut text = format!("{value:?}");
    if let Some((cut, _)) = text.char_indices().nth(200) {
        text.truncate(cut);
    }
    Err(UnexpectedReply(text))
}

fn optional(value: &Value) -> Option<Option<i64>> {
    match value {
        Value::Null => Some(None),
        Value::Integer(value) => Some(Some(*value)),
        _ => None,
    }
}

/// Splits a reply into value, status, `replayed` and `relaxed`.
fn parts(value: &Value) -> Option<(&Value, Status, bool, bool)> {
    let Value::Array(parts) = value else { return None };
    let (stored, word, flag) = match &parts[..] {
        [stored, word] => (stored, word, None),
        [stored, word, flag] => (stored, word, Some(flag)),
        _ => return None,
    };
    let (status, replayed) = match word.as_bytes()? {
        b"applied" => (Status::Applied, false),
        b"replayed" => (Status::Applied, true),
        b"refused" => (Status::Refused, false),
        b"refused-replayed" => (Status::Refused, true),
        b"probably-seen" => (Status::ProbablySeen, true),
        _ => return None,
    };
    let relaxed = match flag {
        None => false,
        Some(word) if word.as_bytes()? == b"relaxed" => true,
        Some(_) => return None,
    };
    Some((stored, status, replayed, relaxed))
}

/// Parses the reply to a write.
pub(crate) fn outcome(value: &Value, id: Id) -> Result<Outcome, UnexpectedReply> {
    if let Some((stored, status, replayed, relaxed)) = parts(value)
        && let Some(value) = optional(stored)
    {
        return Ok(Outcome { id, value, status, replayed, relaxed });
    }
    unexpected(value)
}

/// Parses the reply to a write to several counters.
pub(crate) fn many(value: &Value, id: Id) -> Result<ManyOutcome, UnexpectedReply> {
    if let Some((stored, status, replayed, relaxed)) = parts(value) {
        let values = match stored {
            Value::Array(values) => values.iter().map(optional).collect(),
            Value::Null => Some(Vec::new()),
            _ => None,
        };
        if let Some(values) = values {
            return Ok(ManyOutcome { id, values, status, replayed, relaxed });
        }
    }
    unexpected(value)
}

/// Parses the reply to a write to one or several counters.
pub(crate) fn any(value: &Value, id: Id) -> Result<ManyOutcome, UnexpectedReply> {
    match outcome(value, id.clone()) {
        Ok(one) => Ok(ManyOutcome {
            id,
            values: vec![one.value],
            status: one.status,
            replayed: one.replayed,
            relaxed: one.relaxed,
        }),
        Err(_) => many(value, id),
    }
}

/// Parses the reply to a read.
pub(crate) fn stored_value(value: Value) -> Result<Option<StoredValue>, UnexpectedReply> {
    match value {
        Value::Null => Ok(None),
        Value::Integer(value) => Ok(Some(StoredValue::Counter(value))),
        Value::Bulk(bytes) => Ok(Some(StoredValue::Bytes(bytes))),
        other => unexpected(&other),
    }
}

/// Parses the reply to a status request.
pub(crate) fn operation_status(value: &Value) -> Result<OperationStatus, UnexpectedReply> {
    parse_status(value).map_or_else(|| unexpected(value), Ok)
}

fn parse_status(value: &Value) -> Option<OperationStatus> {
    let Value::Array(parts) = value else { return None };
    match &parts[..] {
        [word] => Some(match word.as_bytes()? {
            b"unknown" => OperationStatus::Unknown,
            b"forgotten" => OperationStatus::Forgotten,
            b"probably-seen" => OperationStatus::ProbablySeen,
            _ => return None,
        }),
        [word, Value::Array(values), Value::Integer(millis)] => {
            let applied = match word.as_bytes()? {
                b"applied" => true,
                b"refused" => false,
                _ => return None,
            };
            let values = values.iter().map(optional).collect::<Option<_>>()?;
            Some(OperationStatus::Known { applied, values, millis: u64::try_from(*millis).ok()? })
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn simple(text: &str) -> Value {
        Value::Simple(text.into())
    }

    #[test]
    fn every_status_of_a_write_is_parsed() {
        let id = || Id::new("7").unwrap();
        for (word, status, replayed) in [
            ("applied", Status::Applied, false),
            ("replayed", Status::Applied, true),
            ("refused", Status::Refused, false),
            ("refused-replayed", Status::Refused, true),
        ] {
            for relaxed in [false, true] {
                let mut parts = vec![Value::Integer(5), simple(word)];
                parts.extend(relaxed.then(|| simple("relaxed")));
                let expected = Outcome { id: id(), value: Some(5), status, replayed, relaxed };
                assert_eq!(outcome(&Value::Array(parts), id()), Ok(expected));
            }
        }
        let seen = outcome(&Value::Array(vec![Value::Null, simple("probably-seen")]), id()).unwrap();
        assert_eq!((seen.value, seen.status), (None, Status::ProbablySeen));
        let list = Value::Array(vec![Value::Integer(1), Value::Null]);
        let all = many(&Value::Array(vec![list, simple("applied")]), id()).unwrap();
        assert_eq!(all.values, [Some(1), None]);
    }

    #[test]
    fn malformed_replies_are_rejected() {
        let id = || Id::new("7").unwrap();
        for value in [
            Value::Null,
            Value::Integer(1),
            Value::Array(vec![Value::Integer(1)]),
            Value::Array(vec![Value::Integer(1), simple("perhaps")]),
            Value::Array(vec![simple("x"), simple("applied")]),
            Value::Array(vec![Value::Integer(1), simple("applied"), simple("tense")]),
        ] {
            assert!(outcome(&value, id()).is_err(), "{value:?}");
            assert!(many(&value, id()).is_err(), "{value:?}");
            assert!(operation_status(&value).is_err(), "{value:?}");
        }
        assert!(stored_value(simple("x")).is_err());
    }

    #[test]
    fn every_operation_status_is_parsed() {
        let known = || {
            let values = Value::Array(vec![Value::Integer(3), Value::Null]);
            Value::Array(vec![simple("applied"), values, Value::Integer(9)])
        };
        let read = OperationStatus::Known { applied: true, values: vec![Some(3), None], millis: 9 };
        assert_eq!(operation_status(&known()), Ok(read));
        assert!(operation_status(&Value::Array(vec![known(), known()])).is_err());
        assert_eq!(operation_status(&Value::Array(vec![simple("unknown")])), Ok(OperationStatus::Unknown));
        assert_eq!(
            operation_status(&Value::Array(vec![simple("forgotten")])),
            Ok(OperationStatus::Forgotten)
        );
    }
}
