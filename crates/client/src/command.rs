//! Commands to the server. A command is encoded once; all attempts send the same bytes.

use std::fmt;

use bytes::Bytes;
use jeton_core::limits::{CELL_BYTES_MAX, CHANGES_MAX, ROW_BYTES_MAX, TABLE_NAME_BYTES_MAX};
use jeton_resp::{command_argument, command_header};

use crate::error::Error;
use crate::id::Id;

/// Longest key: a table, a slash, a row.
const KEY_BYTES_MAX: usize = TABLE_NAME_BYTES_MAX + 1 + ROW_BYTES_MAX;

/// Checks the length of a key. The server checks the rest.
pub(crate) fn check_key(key: &[u8]) -> Result<(), Error> {
    if key.is_empty() || key.len() > KEY_BYTES_MAX {
        return Err(Error::Invalid(format!("a key has 1 to {KEY_BYTES_MAX} bytes")));
    }
    Ok(())
}

/// A write without its id.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Write {
    Add { key: Vec<u8>, delta: i64, min: Option<i64>, max: Option<i64> },
    AddMany { changes: Vec<(Vec<u8>, i64)> },
    Set { key: Vec<u8>, value: Vec<u8> },
    Reset { key: Vec<u8> },
    Delete { key: Vec<u8> },
}

impl Write {
    pub fn add(key: impl AsRef<[u8]>, delta: i64) -> Self {
        Self::Add { key: key.as_ref().into(), delta, min: None, max: None }
    }

    pub fn add_many<K: AsRef<[u8]>>(changes: impl IntoIterator<Item = (K, i64)>) -> Self {
        let changes = changes.into_iter().map(|(key, delta)| (key.as_ref().into(), delta)).collect();
        Self::AddMany { changes }
    }

    pub fn set(key: impl AsRef<[u8]>, value: impl AsRef<[u8]>) -> Self {
        Self::Set { key: key.as_ref().into(), value: value.as_ref().into() }
    }

    /// Sets the lower bound of an addition. Without effect on other writes.
    pub fn set_min(&mut self, bound: i64) {
        if let Self::Add { min, .. } = self {
            *min = Some(bound);
        }
    }

    /// Sets the upper bound of an addition. Without effect on other writes.
    pub fn set_max(&mut self, bound: i64) {
        if let Self::Add { max, .. } = self {
            *max = Some(bound);
        }
    }

    /// Checks the limits on keys, values and the number of changes.
    pub fn check(&self) -> Result<(), Error> {
        match self {
            Self::Add { key, .. } | Self::Reset { key } | Self::Delete { key } => check_key(key),
            Self::Set { key, value } => {
                if value.len() > CELL_BYTES_MAX {
                    return Err(Error::Invalid(format!("a value has at most {CELL_BYTES_MAX} bytes")));
                }
                check_key(key)
            }
            Self::AddMany { changes } => {
                if changes.is_empty() || changes.len() > CHANGES_MAX {
                    return Err(Error::Invalid(format!("one operation changes 1 to {CHANGES_MAX} counters")));
                }
                changes.iter().try_for_each(|(key, _)| check_key(key))
            }
        }
    }

    /// Encodes the command with its id.
    pub fn command(&self, id: &Id) -> Bytes {
        let id = id.as_str().as_bytes();
        let mut words: Vec<Vec<u8>> = Vec::with_capacity(9);
        let mut push = |word: &[u8]| words.push(word.to_vec());
        let number = |number: i64| number.to_string().into_bytes();
        match self {
            Self::Add { key, delta, min, max } => {
                [b"JADD", &key[..], &number(*delta), b"ID", id].into_iter().for_each(&mut push);
                for (name, bound) in [(b"MIN", min), (b"MAX", max)] {
                    if let Some(bound) = bound {
                        push(name);
                        push(&number(*bound));
                    }
                }
            }
            Self::AddMany { changes } => {
                [b"JMADD", &b"ID"[..], id].into_iter().for_each(&mut push);
                for (key, delta) in changes {
                    push(key);
                    push(&number(*delta));
                }
            }
            Self::Set { key, value } => {
                [b"JSET", &key[..], value, b"ID", id].into_iter().for_each(&mut push);
            }
            Self::Reset { key } => [b"JRESET", &key[..], b"ID", id].into_iter().for_each(&mut push),
            Self::Delete { key } => [b"JDEL", &key[..], b"ID", id].into_iter().for_each(&mut push),
        }
        encode(words.iter().map(Vec::as_slice))
    }
}

impl fmt::Display for Write {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Add { key, delta, min, max } => {
                write!(out, "add {delta} to {}", key.escape_ascii())?;
                let mut bound = |word, bound: &Option<i64>| match bound {
                    Some(bound) => write!(out, ", at {word} {bound}"),
                    None => Ok(()),
                };
                bound("least", min)?;
                bound("most", max)
            }
            Self::AddMany { changes } => {
                for (at, (key, delta)) in changes.iter().enumerate() {
                    let word = if at == 0 { "add" } else { " and" };
                    write!(out, "{word} {delta} to {}", key.escape_ascii())?;
                }
                Ok(())
            }
            Self::Set { key, value } => write!(out, "set {} to {}", key.escape_ascii(), value.escape_ascii()),
            Self::Reset { key } => write!(out, "reset {}", key.escape_ascii()),
            Self::Delete { key } => write!(out, "delete {}", key.escape_ascii()),
        }
    }
}

/// `JGET key`.
pub(crate) fn get(key: &[u8]) -> Bytes {
    encode([b"JGET", key].into_iter())
}

/// `JOP key id`.
pub(crate) fn operation(key: &[u8], id: &Id) -> Bytes {
    encode([b"JOP", key, id.as_str().as_bytes()].into_iter())
}

fn encode<'a>(words: impl ExactSizeIterator<Item = &'a [u8]>) -> Bytes {
    let mut out = Vec::new();
    command_header(&mut out, words.len());
    words.for_each(|word| command_argument(&mut out, word));
    out.into()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn encoded(write: &Write) -> String {
        let command = write.command(&Id::new("7").unwrap());
        let lines: Vec<&str> = std::str::from_utf8(&command).unwrap().split("\r\n").collect();
        lines.into_iter().filter(|line| !line.starts_with(['*', '$'])).collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn every_write_is_encoded() {
        let key = || b"k".to_vec();
        for (write, text) in [
            (Write::Add { key: key(), delta: -1, min: None, max: None }, "JADD k -1 ID 7 "),
            (Write::Add { key: key(), delta: 1, min: Some(0), max: Some(9) }, "JADD k 1 ID 7 MIN 0 MAX 9 "),
            (Write::AddMany { changes: vec![(key(), 1), (b"l".to_vec(), 2)] }, "JMADD ID 7 k 1 l 2 "),
            (Write::Set { key: key(), value: b"v".to_vec() }, "JSET k v ID 7 "),
            (Write::Reset { key: key() }, "JRESET k ID 7 "),
            (Write::Delete { key: key() }, "JDEL k ID 7 "),
        ] {
            assert_eq!(encoded(&write), text);
        }
    }

    #[test]
    fn writes_beyond_the_limits_are_rejected() {
        assert!(Write::Reset { key: vec![] }.check().is_err());
        assert!(Write::Reset { key: vec![b'x'; KEY_BYTES_MAX + 1] }.check().is_err());
        assert!(Write::AddMany { changes: vec![] }.check().is_err());
        assert!(Write::AddMany { changes: vec![(b"k".to_vec(), 1); CHANGES_MAX + 1] }.check().is_err());
        assert!(Write::Set { key: b"k".to_vec(), value: vec![0; CELL_BYTES_MAX + 1] }.check().is_err());
    }
}
