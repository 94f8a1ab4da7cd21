//! What a server says about an operation, read.

use jeton_resp::reply_parser::Value;

use crate::id::Id;

/// Whether an operation changed something.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Status {
    /// It did.
    Applied,
    /// A bound refused it; and that is remembered under its id.
    Refused,
    /// The filter of a probabilistic table takes its id for known: it did not, now.
    ProbablySeen,
}

/// What became of a write.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Outcome {
    /// The id that it was sent with.
    pub id: Id,
    /// The counter after it. Nothing after a delete, of bytes, and of what is probably seen.
    pub value: Option<i64>,
    /// Whether it changed something.
    pub status: Status,
    /// Whether this is the answer to an earlier attempt, repeated.
    pub replayed: bool,
    /// Whether a crash of the server may still take it back, as the table allows.
    pub relaxed: bool,
}

impl Outcome {
    /// Whether it was counted: now, or by an earlier attempt.
    pub fn is_applied(&self) -> bool {
        self.status == Status::Applied
    }
}

/// What became of a write to several counters: all of them changed, or none.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ManyOutcome {
    /// The id that it was sent with.
    pub id: Id,
    /// The counters after it, in the order in which they were named.
    pub values: Vec<Option<i64>>,
    /// Whether it changed something.
    pub status: Status,
    /// Whether this is the answer to an earlier attempt, repeated.
    pub replayed: bool,
    /// Whether a crash of the server may still take it back, as the table allows.
    pub relaxed: bool,
}

/// What a key holds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum StoredValue {
    /// A counter.
    Counter(i64),
    /// Bytes.
    Bytes(Vec<u8>),
}

impl StoredValue {
    /// The counter, if it is one.
    pub fn counter(&self) -> Option<i64> {
        match self {
            Self::Counter(value) => Some(*value),
            Self::Bytes(_) => None,
        }
    }
}

/// What a server knows of an id.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum OperationStatus {
    /// Nothing: it did not come, or it carries no time and came long ago.
    Unknown,
    /// It is older than what is remembered.
    Forgotten,
    /// The filter of a probabilistic table takes it for known.
    ProbablySeen,
    /// It came, and this was its answer.
    Known {
        /// Whether it changed something, or a bound refused it.
        applied: bool,
        /// The counters after it.
        values: Vec<Option<i64>>,
        /// When it was done, by the server's time in milliseconds since 1970.
        millis: u64,
    },
    /// It was used for rows of several partitions, and counted once in each.
    Several(Vec<OperationStatus>),
}

/// An answer that is none to what was asked.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct UnexpectedReply(pub String);

fn nonsense<T>(value: &Value) -> Result<T, UnexpectedReply> {
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

/// The value, status, whether replayed, and whether relaxed.
fn parts(value: &Value) -> Option<(&Value, Status, bool, bool)> {
    let Value::Array(parts) = value else { return None };
    let (held, word, more) = match &parts[..] {
        [held, word] => (held, word, None),
        [held, word, more] => (held, word, Some(more)),
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
    let relaxed = match more {
        None => false,
        Some(word) if word.as_bytes()? == b"relaxed" => true,
        Some(_) => return None,
    };
    Some((held, status, replayed, relaxed))
}

/// The answer to a write.
pub(crate) fn outcome(value: &Value, id: Id) -> Result<Outcome, UnexpectedReply> {
    if let Some((held, status, replayed, relaxed)) = parts(value)
        && let Some(value) = optional(held)
    {
        return Ok(Outcome { id, value, status, replayed, relaxed });
    }
    nonsense(value)
}

/// The answer to a write to several counters.
pub(crate) fn many(value: &Value, id: Id) -> Result<ManyOutcome, UnexpectedReply> {
    if let Some((held, status, replayed, relaxed)) = parts(value) {
        let values = match held {
            Value::Array(values) => values.iter().map(optional).collect(),
            Value::Null => Some(Vec::new()),
            _ => None,
        };
        if let Some(values) = values {
            return Ok(ManyOutcome { id, values, status, replayed, relaxed });
        }
    }
    nonsense(value)
}

/// The answer to a write to one counter or several.
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

/// The answer to a read.
pub(crate) fn held(value: Value) -> Result<Option<StoredValue>, UnexpectedReply> {
    match value {
        Value::Null => Ok(None),
        Value::Integer(value) => Ok(Some(StoredValue::Counter(value))),
        Value::Bulk(bytes) => Ok(Some(StoredValue::Bytes(bytes))),
        other => nonsense(&other),
    }
}

/// The answer to the question what became of an id.
pub(crate) fn fate(value: &Value) -> Result<OperationStatus, UnexpectedReply> {
    fate_of(value).map_or_else(|| nonsense(value), Ok)
}

fn fate_of(value: &Value) -> Option<OperationStatus> {
    let Value::Array(parts) = value else { return None };
    if let [Value::Array(_), ..] = &parts[..] {
        return parts.iter().map(fate_of).collect::<Option<_>>().map(OperationStatus::Several);
    }
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
    fn every_word_about_a_write_is_read() {
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
    fn what_makes_no_sense_is_told() {
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
            assert!(fate(&value).is_err(), "{value:?}");
        }
        assert!(held(simple("x")).is_err());
    }

    #[test]
    fn fates_are_read() {
        let known = || {
            let values = Value::Array(vec![Value::Integer(3), Value::Null]);
            Value::Array(vec![simple("applied"), values, Value::Integer(9)])
        };
        let read = OperationStatus::Known { applied: true, values: vec![Some(3), None], millis: 9 };
        assert_eq!(fate(&known()), Ok(read.clone()));
        assert_eq!(
            fate(&Value::Array(vec![known(), known()])),
            Ok(OperationStatus::Several(vec![read.clone(), read]))
        );
        assert_eq!(fate(&Value::Array(vec![simple("unknown")])), Ok(OperationStatus::Unknown));
        assert_eq!(fate(&Value::Array(vec![simple("forgotten")])), Ok(OperationStatus::Forgotten));
    }
}
