//! The chain: what follows from the frames of a stripe, read from the first one on.

use jeton_core::codec::{DecodeError, Reader, Write as _};
use jeton_core::{PartitionId, mutated};
use jeton_register::{Error as RegisterError, LogId, Registers};
use jeton_wal::Slot;

use crate::deployment::Stripe;
use crate::frame::{Body, Frame, NodeId, Owner, hash};

/// Frames per read.
const READ_FRAMES_MAX: usize = 256;

/// Why the log of a stripe cannot be read on.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ChainError {
    /// A frame does not follow from the frames before it: the registers have lost or changed a value.
    #[error("damaged: slot {slot} of {log}: {why}")]
    Damaged { log: LogId, slot: Slot, why: String },
    #[error(transparent)]
    Registers(#[from] RegisterError),
}

/// The state of a stripe after some of its frames.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Chain {
    stripe: Stripe,
    next: Slot,
    /// The hash of the last frame.
    before: u128,
    owner: Option<Owner>,
    term: Slot,
    catalog: u64,
    /// The last slot of each partition of the stripe.
    partitions: Vec<Slot>,
}

impl Chain {
    /// Before the first frame. `origin` takes the place of the hash of the frame before it.
    pub(crate) fn new(stripe: Stripe, origin: u128) -> Self {
        let partitions = vec![Slot::ZERO; stripe.partitions.len()];
        Self { stripe, next: Slot(1), before: origin, owner: None, term: Slot::ZERO, catalog: 0, partitions }
    }

    pub fn log(&self) -> LogId {
        LogId::stripe(self.stripe.number)
    }

    /// The slot after the last frame.
    pub fn next(&self) -> Slot {
        self.next
    }

    pub(crate) fn before(&self) -> u128 {
        self.before
    }

    /// The slot of the last claim; 0 if there is none.
    pub fn term(&self) -> Slot {
        self.term
    }

    /// The node that claimed last, unless it has yielded.
    pub fn owner(&self) -> Option<Owner> {
        self.owner
    }

    /// The highest version of the catalogue that a frame names.
    pub fn catalog(&self) -> u64 {
        self.catalog
    }

    /// The last slot of a partition; 0 if it has no entry.
    pub fn last_slot(&self, partition: PartitionId) -> Slot {
        let index = partition.0.checked_sub(self.stripe.partitions.start);
        index.and_then(|index| self.partitions.get(usize::from(index))).copied().unwrap_or_default()
    }

    /// Whether entries of a partition follow in this chain that the other one lacks.
    pub(crate) fn has_entries_after(&self, other: &Self) -> bool {
        self.partitions != other.partitions
    }

    pub(crate) fn stripe(&self) -> &Stripe {
        &self.stripe
    }

    /// The partitions and their last slots.
    pub(crate) fn slots(&self) -> impl Iterator<Item = (PartitionId, Slot)> {
        self.stripe.partitions.clone().map(PartitionId).zip(self.partitions.iter().copied())
    }

    /// Appends the state, without the stripe.
    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        out.put_varint(self.next.0);
        out.put_u128(self.before);
        out.put_varint(self.term.0);
        out.put_varint(self.catalog);
        out.put_u8(self.owner.is_some().into());
        if let Some(owner) = self.owner {
            out.put_u128(owner.node.0);
            out.put_u128(owner.incarnation);
        }
        self.partitions.iter().for_each(|slot| out.put_varint(slot.0));
    }

    pub(crate) fn decode(stripe: Stripe, input: &mut Reader<'_>) -> Result<Self, DecodeError> {
        let (next, before) = (Slot(input.varint()?), input.u128()?);
        let (term, catalog) = (Slot(input.varint()?), input.varint()?);
        let owner = match input.u8()? {
            0 => None,
            1 => Some(Owner { node: NodeId(input.u128()?), incarnation: input.u128()? }),
            _ => return Err(DecodeError("an owner of an unknown format")),
        };
        let slot = |_| input.varint().map(Slot);
        let partitions = stripe.partitions.clone().map(slot).collect::<Result<_, _>>()?;
        if next <= term {
            return Err(DecodeError("a term after the end of the log"));
        }
        Ok(Self { stripe, next, before, owner, term, catalog, partitions })
    }

    /// Appends the frame of a slot. After an error the chain is as before.
    pub fn accept<'a>(&mut self, slot: Slot, bytes: &'a [u8]) -> Result<Frame<'a>, ChainError> {
        let frame = self.check(slot, bytes)?;
        match frame.body {
            Body::Claim(owner) => (self.owner, self.term) = (Some(owner), slot),
            Body::Yield { .. } => self.owner = None,
            Body::Entries(entries) => {
                for (partition, slot, _) in entries.iter() {
                    self.partitions[usize::from(partition.0 - self.stripe.partitions.start)] = slot;
                }
            }
            Body::Proof => {}
        }
        self.catalog = self.catalog.max(frame.head.catalog);
        self.skip(bytes);
        Ok(frame)
    }

    /// Steps over the next frame.
    pub(crate) fn skip(&mut self, bytes: &[u8]) {
        self.before = hash(bytes);
        self.next = self.next.next();
    }

    fn check<'a>(&self, slot: Slot, bytes: &'a [u8]) -> Result<Frame<'a>, ChainError> {
        let damaged = |why: String| ChainError::Damaged { log: self.log(), slot, why };
        if slot != self.next {
            return Err(damaged(format!("the frame of slot {} is missing", self.next)));
        }
        let frame = Frame::decode(bytes).map_err(|error| damaged(error.to_string()))?;
        if frame.head.before != self.before && !mutated!(ChainNotChecked) {
            return Err(damaged("it does not follow the frame before it".into()));
        }
        if let Body::Claim(_) = frame.body {
            let term = frame.head.term;
            return if term == slot { Ok(frame) } else { Err(damaged(format!("a claim of term {term}"))) };
        }
        if frame.head.term != self.term || self.owner.is_none() {
            return Err(damaged(format!("a frame of term {} in term {}", frame.head.term, self.term)));
        }
        if let Body::Entries(entries) = frame.body {
            let mut next = self.partitions.clone();
            for (partition, entry, _) in entries.iter() {
                let index = partition.0.checked_sub(self.stripe.partitions.start);
                let Some(last) = index.and_then(|index| next.get_mut(usize::from(index))) else {
                    return Err(damaged(format!("partition {} is not of the stripe", partition.0)));
                };
                if entry != last.next() {
                    let (partition, last) = (partition.0, *last);
                    return Err(damaged(format!("entry {entry} of partition {partition} follows {last}")));
                }
                *last = entry;
            }
        }
        Ok(frame)
    }

    /// Reads to the end of the log, or up to a slot. Calls `visit` for every frame.
    pub async fn read<R: Registers, E: From<ChainError>>(
        &mut self,
        registers: &R,
        through: Slot,
        mut visit: impl FnMut(Slot, Frame<'_>) -> Result<(), E>,
    ) -> Result<(), E> {
        while self.next <= through {
            let page = registers.read(self.log(), self.next, READ_FRAMES_MAX).await;
            let page = page.map_err(ChainError::from)?;
            if page.is_empty() {
                break;
            }
            for (slot, bytes) in page.iter().take_while(|(slot, _)| *slot <= through) {
                let frame = self.accept(*slot, bytes)?;
                visit(*slot, frame)?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test may panic")]
mod tests {
    use super::*;
    use crate::frame::{Entries, Head, NodeId, encode_entry};

    fn chain() -> Chain {
        Chain::new(Stripe { number: 3, partitions: 8..16 }, 7)
    }

    /// A frame that follows the chain, but for what `change` does.
    fn frame(chain: &Chain, body: Body<'_>, change: impl FnOnce(&mut Head)) -> Vec<u8> {
        let term = if matches!(body, Body::Claim(_)) { chain.next } else { chain.term };
        let mut head = Head { term, catalog: 0, millis: 0, before: chain.before };
        change(&mut head);
        Frame { head, body }.encode()
    }

    fn entries(of: &[(u16, u64)]) -> Vec<u8> {
        let mut body = Vec::new();
        of.iter().for_each(|(id, slot)| encode_entry(PartitionId(*id), Slot(*slot), b"x", &mut body));
        body
    }

    #[test]
    fn a_frame_that_does_not_follow_is_damage_in_its_slot() {
        let mut owned = chain();
        let claim = Body::Claim(Owner { node: NodeId(1), incarnation: 1 });
        let bytes = frame(&owned, claim, |_| {});
        owned.accept(Slot(1), &bytes).unwrap();
        for good in [&[(8, 1), (15, 1), (8, 2)][..], &[(15, 2)]] {
            let body = entries(good);
            let bytes = frame(&owned, Body::Entries(Entries::check(&body).unwrap()), |_| {});
            owned.accept(owned.next, &bytes).unwrap();
        }
        assert_eq!((owned.last_slot(PartitionId(8)), owned.last_slot(PartitionId(7))), (Slot(2), Slot::ZERO));
        let mut yielded = owned.clone();
        let bytes = frame(&owned, Body::Yield { to: NodeId(2) }, |_| {});
        yielded.accept(Slot(4), &bytes).unwrap();

        let bodies = [&[(8, 2)][..], &[(8, 4)], &[(8, 3), (8, 3)], &[(7, 1)], &[(16, 1)]].map(entries);
        let mut bad: Vec<(&Chain, u64, Vec<u8>)> = vec![
            (&owned, 5, frame(&owned, Body::Proof, |_| {})),
            (&owned, 4, frame(&owned, Body::Proof, |head| head.before += 1)),
            (&owned, 4, frame(&owned, Body::Proof, |head| head.term = Slot(2))),
            (&owned, 4, frame(&owned, claim, |head| head.term = Slot(1))),
            (&owned, 4, b"garbage".to_vec()),
            (&yielded, 5, frame(&yielded, Body::Proof, |_| {})),
        ];
        let of_entries = |body| frame(&owned, Body::Entries(Entries::check(body).unwrap()), |_| {});
        bad.extend(bodies.iter().map(|body| (&owned, 4, of_entries(body))));
        for (before, number, bytes) in bad {
            let mut chain = before.clone();
            let error = chain.accept(Slot(number), &bytes).unwrap_err();
            assert!(matches!(error, ChainError::Damaged { slot, .. } if slot.0 == number), "{error}");
            assert!(error.to_string().contains("of stripe/3"), "{error}");
            assert_eq!(chain, *before, "{error}");
        }
        let empty = chain();
        assert!(chain().accept(Slot(1), &frame(&empty, Body::Proof, |_| {})).is_err(), "without an owner");
    }
}
