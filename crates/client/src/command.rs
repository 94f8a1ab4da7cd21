//! What is said to a server: a command, written down once and sent as often as need be.

use std::fmt;

use bytes::Bytes;
use jeton_core::limits::{CELL_BYTES_MAX, CHANGES_MAX, ROW_BYTES_MAX, TABLE_NAME_BYTES_MAX};
use jeton_resp::{command_argument, command_header};

use crate::error::Error;
use crate::id::Id;

/// The longest key: a table, a slash, a row.
const KEY_BYTES_MAX: usize = TABLE_NAME_BYTES_MAX + 1 + ROW_BYTES_MAX;

/// Whether a server can take this key. It may have more to say about it.
pub(crate) fn check_key(key: &[u8]) -> Result<(), Error> {
    if key.is_empty() || key.len() > KEY_BYTES_MAX {
        return Err(Error::Invalid(format!("a key has 1 to {KEY_BYTES_MAX} bytes")));
    }
    Ok(())
}

/// A write: everything about it but its id.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Write {
    Add { key: Vec<u8>, delta: i64, min: Option<i64>, max: Option<i64> },
    AddMany { changes: Vec<(Vec<u8>, i64)> },
    Set { key: Vec<u8>, value: Vec<u8> },
    Reset { key: Vec<u8> },
    Delete { key: Vec<u8> },
}

impl Write {
    /// Whether it can be sent.
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
                    return Err(Error::Invalid(format!("1 to {CHANGES_MAX} counters are changed together")));
                }
                changes.iter().try_for_each(|(key, _)| check_key(key))
            }
        }
    }

    /// The command, with the only id that it will ever have.
    pub fn command(&self, id: &Id) -> Bytes {
        let id = id.as_str().as_bytes();
        let mut words: Vec<Vec<u8>> = Vec::with_capacity(9);
        let mut say = |word: &[u8]| words.push(word.to_vec());
        let number = |number: i64| number.to_string().into_bytes();
        match self {
            Self::Add { key, delta, min, max } => {
                [b"JADD", &key[..], &number(*delta), b"ID", id].into_iter().for_each(&mut say);
                for (name, bound) in [(b"MIN", min), (b"MAX", max)] {
                    if let Some(bound) = bound {
                        say(name);
                        say(&number(*bound));
                    }
                }
            }
            Self::AddMany { changes } => {
                [b"JMADD", &b"ID"[..], id].into_iter().for_each(&mut say);
                for (key, delta) in changes {
                    say(key);
                    say(&number(*delta));
                }
            }
            Self::Set { key, value } => {
                [b"JSET", &key[..], value, b"ID", id].into_iter().for_each(&mut say);
            }
            Self::Reset { key } => [b"JRESET", &key[..], b"ID", id].into_iter().for_each(&mut say),
            Self::Delete { key } => [b"JDEL", &key[..], b"ID", id].into_iter().for_each(&mut say),
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

/// `JOP id [TABLE name]`.
pub(crate) fn operation(id: &Id, table: Option<&str>) -> Bytes {
    let id = id.as_str().as_bytes();
    match table {
        None => encode([b"JOP", id].into_iter()),
        Some(table) => encode([b"JOP", id, b"TABLE", table.as_bytes()].into_iter()),
    }
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

    fn said(write: &Write) -> String {
        let command = write.command(&Id::new("7").unwrap());
        let lines: Vec<&str> = std::str::from_utf8(&command).unwrap().split("\r\n").collect();
        lines.into_iter().filter(|line| !line.starts_with(['*', '$'])).collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn writes_are_said_as_a_server_reads_them() {
        let key = || b"k".to_vec();
        for (write, text) in [
            (Write::Add { key: key(), delta: -1, min: None, max: None }, "JADD k -1 ID 7 "),
            (Write::Add { key: key(), delta: 1, min: Some(0), max: Some(9) }, "JADD k 1 ID 7 MIN 0 MAX 9 "),
            (Write::AddMany { changes: vec![(key(), 1), (b"l".to_vec(), 2)] }, "JMADD ID 7 k 1 l 2 "),
            (Write::Set { key: key(), value: b"v".to_vec() }, "JSET k v ID 7 "),
            (Write::Reset { key: key() }, "JRESET k ID 7 "),
            (Write::Delete { key: key() }, "JDEL k ID 7 "),
        ] {
            assert_eq!(said(&write), text);
        }
    }

    #[test]
    fn what_no_server_takes_is_not_sent() {
        assert!(Write::Reset { key: vec![] }.check().is_err());
        assert!(Write::Reset { key: vec![b'x'; KEY_BYTES_MAX + 1] }.check().is_err());
        assert!(Write::AddMany { changes: vec![] }.check().is_err());
        assert!(Write::AddMany { changes: vec![(b"k".to_vec(), 1); CHANGES_MAX + 1] }.check().is_err());
        assert!(Write::Set { key: b"k".to_vec(), value: vec![0; CELL_BYTES_MAX + 1] }.check().is_err());
    }
}
