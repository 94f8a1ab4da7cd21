//! The record format of the outbox file: length, checksum, payload.
//!
//! Invariant: after a crash, incomplete records are detected and never read.

use xxhash_rust::xxh3::xxh3_64;

use crate::command::Write;
use crate::id::Id;

/// Bytes of length and checksum.
pub(super) const HEAD: usize = 12;

/// Longest record: an addition to the maximum number of counters with the longest keys fits.
pub(super) const BYTES_MAX: usize = 1 << 20;

/// A change of the outbox. Operations are numbered in the order in which they were stored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Record {
    /// An operation was stored.
    Stored { number: u64, id: Id, write: Write },
    /// It was delivered, or the program has forgotten it.
    Removed { number: u64 },
    /// It cannot be delivered.
    Failed { number: u64, expired: bool, reason: String },
}

impl Record {
    /// Appends the encoded record.
    pub fn encode(&self, out: &mut Vec<u8>) {
        let start = out.len();
        out.extend_from_slice(&[0; HEAD]);
        match self {
            Self::Stored { number, id, write } => {
                out.push(1);
                put_u64(out, *number);
                put_bytes(out, id.as_str().as_bytes());
                put_write(out, write);
            }
            Self::Removed { number } => {
                out.push(2);
                put_u64(out, *number);
            }
            Self::Failed { number, expired, reason } => {
                out.push(3);
                put_u64(out, *number);
                out.push(u8::from(*expired));
                put_bytes(out, reason.as_bytes());
            }
        }
        let payload = start + HEAD;
        let len = u32::try_from(out.len() - payload).expect("a record is far smaller than 4 GiB");
        let check = xxh3_64(&out[payload..]);
        out[start..start + 4].copy_from_slice(&len.to_le_bytes());
        out[start + 4..payload].copy_from_slice(&check.to_le_bytes());
    }

    /// Decodes the first record, and returns its length in bytes. `None` if it is incomplete or damaged.
    pub fn decode(bytes: &[u8]) -> Option<(Self, usize)> {
        let len = u32::from_le_bytes(bytes.get(..4)?.try_into().ok()?) as usize;
        let check = u64::from_le_bytes(bytes.get(4..HEAD)?.try_into().ok()?);
        if len > BYTES_MAX {
            return None;
        }
        let payload = bytes.get(HEAD..HEAD + len)?;
        if xxh3_64(payload) != check {
            return None;
        }
        let mut input = Input(payload);
        let record = match input.u8()? {
            1 => {
                Self::Stored { number: input.u64()?, id: Id::new(input.text()?).ok()?, write: input.write()? }
            }
            2 => Self::Removed { number: input.u64()? },
            3 => {
                Self::Failed { number: input.u64()?, expired: input.u8()? != 0, reason: input.text()?.into() }
            }
            _ => return None,
        };
        input.0.is_empty().then_some((record, HEAD + len))
    }
}

fn put_u64(out: &mut Vec<u8>, number: u64) {
    out.extend_from_slice(&number.to_le_bytes());
}

fn put_bytes(out: &mut Vec<u8>, bytes: &[u8]) {
    let len = u32::try_from(bytes.len()).expect("keys and values are far smaller than 4 GiB");
    out.extend_from_slice(&len.to_le_bytes());
    out.extend_from_slice(bytes);
}

fn put_bound(out: &mut Vec<u8>, bound: Option<i64>) {
    out.push(u8::from(bound.is_some()));
    put_u64(out, bound.unwrap_or_default() as u64);
}

fn put_write(out: &mut Vec<u8>, write: &Write) {
    match write {
        Write::Add { key, delta, min, max } => {
            out.push(1);
            put_bytes(out, key);
            put_u64(out, *delta as u64);
            put_bound(out, *min);
            put_bound(out, *max);
        }
        Write::AddMany { changes } => {
            out.push(2);
            put_u64(out, changes.len() as u64);
            for (key, delta) in changes {
                put_bytes(out, key);
                put_u64(out, *delta as u64);
            }
        }
        Write::Set { key, value } => {
            out.push(3);
            put_bytes(out, key);
            put_bytes(out, value);
        }
        Write::Reset { key } => {
            out.push(4);
            put_bytes(out, key);
        }
        Write::Delete { key } => {
            out.push(5);
            put_bytes(out, key);
        }
    }
}

/// Undecoded bytes.
struct Input<'a>(&'a [u8]);

impl<'a> Input<'a> {
    fn take(&mut self, len: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(len)?;
        self.0 = rest;
        Some(taken)
    }

    fn u8(&mut self) -> Option<u8> {
        self.take(1)?.first().copied()
    }

    fn u64(&mut self) -> Option<u64> {
        Some(u64::from_le_bytes(self.take(8)?.try_into().ok()?))
    }

    fn bytes(&mut self) -> Option<&'a [u8]> {
        let len = u32::from_le_bytes(self.take(4)?.try_into().ok()?);
        self.take(len as usize)
    }

    fn text(&mut self) -> Option<&'a str> {
        std::str::from_utf8(self.bytes()?).ok()
    }

    fn bound(&mut self) -> Option<Option<i64>> {
        let is_some = self.u8()? != 0;
        let bound = self.u64()? as i64;
        Some(is_some.then_some(bound))
    }

    fn write(&mut self) -> Option<Write> {
        Some(match self.u8()? {
            1 => Write::Add {
                key: self.bytes()?.into(),
                delta: self.u64()? as i64,
                min: self.bound()?,
                max: self.bound()?,
            },
            2 => {
                let count = self.u64()?;
                let mut changes = Vec::new();
                for _ in 0..count {
                    changes.push((self.bytes()?.to_vec(), self.u64()? as i64));
                }
                Write::AddMany { changes }
            }
            3 => Write::Set { key: self.bytes()?.into(), value: self.bytes()?.into() },
            4 => Write::Reset { key: self.bytes()?.into() },
            5 => Write::Delete { key: self.bytes()?.into() },
            _ => return None,
        })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn write() -> impl Strategy<Value = Write> {
        let key = || prop::collection::vec(any::<u8>(), 0..20);
        prop_oneof![
            (key(), any::<i64>(), any::<Option<i64>>(), any::<Option<i64>>())
                .prop_map(|(key, delta, min, max)| Write::Add { key, delta, min, max }),
            prop::collection::vec((key(), any::<i64>()), 0..5).prop_map(|changes| Write::AddMany { changes }),
            (key(), key()).prop_map(|(key, value)| Write::Set { key, value }),
            key().prop_map(|key| Write::Reset { key }),
            key().prop_map(|key| Write::Delete { key }),
        ]
    }

    fn record() -> impl Strategy<Value = Record> {
        prop_oneof![
            (any::<u64>(), "[a-z0-9-]{1,40}", write()).prop_map(|(number, id, write)| Record::Stored {
                number,
                id: Id::new(id).unwrap(),
                write
            }),
            any::<u64>().prop_map(|number| Record::Removed { number }),
            (any::<u64>(), any::<bool>(), ".{0,20}").prop_map(|(number, expired, reason)| Record::Failed {
                number,
                expired,
                reason
            }),
        ]
    }

    proptest! {
        #[test]
        fn complete_records_round_trip(records in prop::collection::vec(record(), 1..8), cut: u16) {
            let mut bytes = Vec::new();
            records.iter().for_each(|record| record.encode(&mut bytes));
            let cut = usize::from(cut) % (bytes.len() + 1);
            let (mut at, mut read) = (0, Vec::new());
            while let Some((record, len)) = Record::decode(&bytes[at..cut]) {
                at += len;
                read.push(record);
            }
            prop_assert!(at <= cut);
            prop_assert_eq!(&read[..], &records[..read.len()]);
            prop_assert_eq!(cut == bytes.len(), read.len() == records.len());
        }

        #[test]
        fn a_flipped_bit_is_detected(record in record(), at: u16, bit in 0..8u8) {
            let mut bytes = Vec::new();
            record.encode(&mut bytes);
            let at = usize::from(at) % bytes.len();
            bytes[at] ^= 1u8 << bit;
            prop_assert!(Record::decode(&bytes).is_none());
        }
    }
}
