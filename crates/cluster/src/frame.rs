//! The frame: the value of a register of a stripe.
//!
//! ```text
//! format u8 · kind u8 · term u64 · catalogue version u64 · milliseconds u64 · hash of the frame before u128
//!     · body
//! ```
//!
//! | kind | body |
//! |---|---|
//! | 1 entries | partition varint · slot varint · length varint · bytes, for each entry |
//! | 2 claim | node u128 · incarnation u128 |
//! | 3 yield | node u128 |
//! | 4 proof | |

use jeton_core::codec::{DecodeError, Reader, Write};
use jeton_core::{PartitionId, limits};
use jeton_wal::Slot;
use xxhash_rust::xxh3::xxh3_128;

const FORMAT: u8 = 1;

/// Bytes before the body.
pub(crate) const HEAD_BYTES: usize = 2 + 3 * 8 + 16;

/// Where the time is in the head.
pub(crate) const MILLIS_AT: usize = 2 + 2 * 8;

/// Upper bound of what an entry takes besides its bytes.
pub(crate) const ENTRY_OVERHEAD_MAX: usize = 3 + 10 + 5;

/// The id of a node, which it keeps permanently.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NodeId(pub u128);

/// A node since its last start. The incarnation is random, so that two claims never have the same bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Owner {
    pub node: NodeId,
    pub incarnation: u128,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Head {
    /// The slot of the claim of the owner that wrote the frame.
    pub term: Slot,
    /// The version of the catalogue under which the entries were decided.
    pub catalog: u64,
    /// The wall clock of the owner. For display only.
    pub millis: u64,
    /// The hash of the frame before.
    pub before: u128,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Body<'a> {
    /// What the partitions decided.
    Entries(Entries<'a>),
    /// The node is the owner from this slot on.
    Claim(Owner),
    /// The owner writes nothing more; it proposes this node as the next owner.
    Yield { to: NodeId },
    /// The owner was still the owner.
    Proof,
}

/// A decoded frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Frame<'a> {
    pub head: Head,
    pub body: Body<'a>,
}

/// The hash of a frame, which the next frame contains.
pub(crate) fn hash(frame: &[u8]) -> u128 {
    xxh3_128(frame)
}

/// What the first frame of a stripe has in place of the hash of a frame before it.
pub(crate) fn origin(deployment: u128, stripe: u16) -> u128 {
    hash(&[&deployment.to_le_bytes()[..], &stripe.to_le_bytes()].concat())
}

/// Appends an entry to the body of a frame.
pub fn encode_entry(partition: PartitionId, slot: Slot, bytes: &[u8], out: &mut Vec<u8>) {
    out.put_varint(partition.0.into());
    out.put_varint(slot.0);
    out.put_bytes(bytes);
}

impl<'a> Frame<'a> {
    pub fn encode(&self) -> Vec<u8> {
        let (kind, entries) = match self.body {
            Body::Entries(Entries(bytes)) => (1, bytes),
            Body::Claim(_) => (2, &[][..]),
            Body::Yield { .. } => (3, &[][..]),
            Body::Proof => (4, &[][..]),
        };
        let mut out = Vec::with_capacity(HEAD_BYTES + entries.len().max(32));
        out.put_u8(FORMAT);
        out.put_u8(kind);
        out.put_u64(self.head.term.0);
        out.put_u64(self.head.catalog);
        out.put_u64(self.head.millis);
        out.put_u128(self.head.before);
        out.extend_from_slice(entries);
        match self.body {
            Body::Claim(Owner { node, incarnation }) => {
                out.put_u128(node.0);
                out.put_u128(incarnation);
            }
            Body::Yield { to } => out.put_u128(to.0),
            Body::Entries(_) | Body::Proof => {}
        }
        out
    }

    /// The encoded size.
    pub(crate) fn size(&self) -> usize {
        HEAD_BYTES
            + match self.body {
                Body::Entries(Entries(bytes)) => bytes.len(),
                Body::Claim(_) => 32,
                Body::Yield { .. } => 16,
                Body::Proof => 0,
            }
    }

    /// Allocates nothing.
    pub fn decode(bytes: &'a [u8]) -> Result<Self, DecodeError> {
        let mut input = Reader::new(bytes);
        if input.u8()? != FORMAT {
            return Err(DecodeError("a frame of an unknown format"));
        }
        let kind = input.u8()?;
        let term = Slot(input.u64()?);
        let head = Head { term, catalog: input.u64()?, millis: input.u64()?, before: input.u128()? };
        let body = match kind {
            1 => Body::Entries(Entries::check(input.rest())?),
            2 => Body::Claim(Owner { node: NodeId(input.u128()?), incarnation: input.u128()? }),
            3 => Body::Yield { to: NodeId(input.u128()?) },
            4 => Body::Proof,
            _ => return Err(DecodeError("a frame of an unknown kind")),
        };
        if kind != 1 {
            input.finish()?;
        }
        Ok(Self { head, body })
    }
}

/// The encoded entries of a frame, at least one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Entries<'a>(&'a [u8]);

impl<'a> Entries<'a> {
    /// What [`encode_entry`] wrote.
    pub(crate) fn encoded(bytes: &'a [u8]) -> Self {
        Self(bytes)
    }

    /// Checks the encoding.
    pub fn check(bytes: &'a [u8]) -> Result<Self, DecodeError> {
        let mut input = Reader::new(bytes);
        loop {
            read_entry(&mut input)?;
            if input.rest().is_empty() {
                return Ok(Self(bytes));
            }
        }
    }

    pub fn iter(self) -> impl Iterator<Item = (PartitionId, Slot, &'a [u8])> {
        let mut input = Reader::new(self.0);
        // An error is the end: the encoding was checked.
        std::iter::from_fn(move || read_entry(&mut input).ok())
    }
}

fn read_entry<'a>(input: &mut Reader<'a>) -> Result<(PartitionId, Slot, &'a [u8]), DecodeError> {
    let partition = u16::try_from(input.varint()?).ok().filter(|number| *number < limits::PARTITIONS);
    let partition = partition.ok_or(DecodeError("a partition that does not exist"))?;
    Ok((PartitionId(partition), Slot(input.varint()?), input.bytes()?))
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test may panic")]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn heads() -> impl Strategy<Value = Head> {
        let numbers = (any::<u64>(), any::<u64>(), any::<u64>(), any::<u128>());
        numbers.prop_map(|(term, catalog, millis, before)| Head { term: Slot(term), catalog, millis, before })
    }

    fn entries() -> impl Strategy<Value = Vec<(u16, u64, Vec<u8>)>> {
        let entry = (0..limits::PARTITIONS, any::<u64>(), proptest::collection::vec(any::<u8>(), 0..40));
        proptest::collection::vec(entry, 1..20)
    }

    proptest! {
        #[test]
        fn entries_are_read_back(head in heads(), entries in entries()) {
            let mut body = Vec::new();
            for (partition, slot, bytes) in &entries {
                encode_entry(PartitionId(*partition), Slot(*slot), bytes, &mut body);
            }
            let sizes: usize = entries.iter().map(|(_, _, bytes)| bytes.len() + ENTRY_OVERHEAD_MAX).sum();
            prop_assert!(body.len() <= sizes);
            let bytes = Frame { head, body: Body::Entries(Entries::check(&body).unwrap()) }.encode();
            prop_assert_eq!(bytes.len(), HEAD_BYTES + body.len());
            let frame = Frame::decode(&bytes).unwrap();
            prop_assert_eq!(frame.head, head);
            let Body::Entries(found) = frame.body else { panic!("{frame:?}") };
            let found: Vec<_> = found.iter().map(|(id, slot, bytes)| (id.0, slot.0, bytes.to_vec())).collect();
            prop_assert_eq!(found, entries);
        }

        #[test]
        fn other_kinds_are_read_back(head in heads(), node: u128, incarnation: u128) {
            let node = NodeId(node);
            for body in [Body::Claim(Owner { node, incarnation }), Body::Yield { to: node }, Body::Proof] {
                let bytes = Frame { head, body }.encode();
                prop_assert_eq!(Frame::decode(&bytes), Ok(Frame { head, body }));
                // Neither shorter nor longer.
                prop_assert!(Frame::decode(&bytes[..bytes.len() - 1]).is_err());
                prop_assert!(Frame::decode(&[&bytes[..], b"x"].concat()).is_err());
            }
        }

        #[test]
        fn garbage_is_an_error_or_a_frame(kind in 0..6_u8, garbage in proptest::collection::vec(any::<u8>(), 0..200)) {
            for bytes in [garbage.clone(), [&[FORMAT, kind], &garbage[..]].concat()] {
                if let Ok(Frame { body: Body::Entries(entries), .. }) = Frame::decode(&bytes) {
                    prop_assert!(entries.iter().count() > 0);
                }
            }
        }
    }

    #[test]
    fn entries_without_a_valid_partition_are_refused() {
        let mut body = Vec::new();
        encode_entry(PartitionId(limits::PARTITIONS), Slot(1), b"x", &mut body);
        assert!(Entries::check(&body).is_err());
        assert!(Entries::check(&[]).is_err(), "no entries");
    }
}
