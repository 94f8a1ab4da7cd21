//! The claimant: a node that tries to become the owner of a stripe.

use bytes::Bytes;
use jeton_core::mutated;
use jeton_register::{Error, WriteResult};
use jeton_wal::Slot;

use crate::chain::{Chain, ChainError};
use crate::frame::{Body, Frame, Head, Owner};

/// A claim in progress.
///
/// The chain must be read to its end when the claim begins. What is written after that shows that the owner
/// is alive, or that another node was faster: then the claimant gives up.
#[derive(Debug)]
pub struct Claimant {
    chain: Chain,
    me: Owner,
    /// The claim that was written to the next slot and whose outcome is not known.
    attempt: Option<Bytes>,
}

#[derive(Debug)]
pub enum ClaimProgress {
    /// The node is the owner, in the term of the chain.
    Claimed(Chain),
    /// Write again.
    Again(Claimant),
    /// The owner is alive, or there is a new one.
    GaveUp(Chain),
}

impl Claimant {
    pub fn new(chain: Chain, me: Owner) -> Self {
        Self { chain, me, attempt: None }
    }

    /// The register to be written, and its value.
    pub fn write(&mut self, millis: u64) -> (Slot, Bytes) {
        let (slot, before) = (self.chain.next(), self.chain.before());
        let bytes = self.attempt.get_or_insert_with(|| {
            let head = Head { term: slot, catalog: self.chain.catalog(), millis, before };
            Frame { head, body: Body::Claim(self.me) }.encode().into()
        });
        (slot, bytes.clone())
    }

    /// Handles the result of the last write. A log that cannot be read on cannot be claimed.
    pub fn written(mut self, result: Result<WriteResult, Error>) -> Result<ClaimProgress, ChainError> {
        let slot = self.chain.next();
        match result {
            Ok(WriteResult::Fresh) => self.claimed(),
            Ok(WriteResult::Taken(value)) if self.attempt.as_ref() == Some(&value) => self.claimed(),
            Ok(WriteResult::Taken(value)) => {
                self.attempt = None;
                if mutated!(ClaimWithoutReadingToEnd) {
                    self.chain.skip(&value);
                    return Ok(ClaimProgress::Again(self));
                }
                let frame = self.chain.accept(slot, &value)?;
                Ok(match frame.body {
                    Body::Claim(_) if mutated!(TwoClaimsOneTerm) => ClaimProgress::Claimed(self.chain),
                    // A late write of this node.
                    Body::Claim(other) if other.node == self.me.node => ClaimProgress::Again(self),
                    Body::Yield { .. } => ClaimProgress::Again(self),
                    Body::Claim(_) | Body::Entries(_) | Body::Proof => ClaimProgress::GaveUp(self.chain),
                })
            }
            // The owner has written more, and a checkpoint contains it.
            Ok(WriteResult::Trimmed) => Ok(ClaimProgress::GaveUp(self.chain)),
            Ok(WriteResult::Gap) => {
                let why = "the register before it, which this node has read, is empty".into();
                Err(ChainError::Damaged { log: self.chain.log(), slot, why })
            }
            // Nothing happened, or the outcome is unknown: the same bytes to the same slot.
            Err(Error::Unknown(_) | Error::Unavailable(_) | Error::Busy(_) | Error::Full(_)) => {
                Ok(ClaimProgress::Again(self))
            }
            Err(error) => Err(error.into()),
        }
    }

    fn claimed(mut self) -> Result<ClaimProgress, ChainError> {
        if let Some(bytes) = self.attempt {
            self.chain.accept(self.chain.next(), &bytes)?;
        }
        Ok(ClaimProgress::Claimed(self.chain))
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test may panic")]
mod tests {
    use super::*;
    use crate::{Deployment, NodeId};

    /// What the claimant does if its first slot has this frame; the chain has a claim of node 1.
    fn found(body: Body<'_>) -> &'static str {
        let deployment = Deployment::new(1, [0; 16], [0; 16]).unwrap();
        let owner = |node| Owner { node: NodeId(node), incarnation: 1 };
        let mut claimant = Claimant::new(deployment.chain(deployment.stripe(0).unwrap()), owner(1));
        claimant.write(0);
        let Ok(ClaimProgress::Claimed(chain)) = claimant.written(Ok(WriteResult::Fresh)) else { panic!() };
        let head = Head { term: Slot(1), catalog: 0, millis: 0, before: chain.before() };
        let term = if matches!(body, Body::Claim(_)) { Slot(2) } else { Slot(1) };
        let taken = Frame { head: Head { term, ..head }, body }.encode();
        let mut claimant = Claimant::new(chain, owner(2));
        assert_eq!(claimant.write(0).0, Slot(2));
        match claimant.written(Ok(WriteResult::Taken(taken.into()))).unwrap() {
            ClaimProgress::Again(mut claimant) => {
                assert_eq!(claimant.write(0).0, Slot(3));
                "again"
            }
            ClaimProgress::GaveUp(_) => "gave up",
            ClaimProgress::Claimed(_) => "claimed",
        }
    }

    #[test]
    fn a_claimant_gives_up_if_there_is_an_owner() {
        let claim = |node, incarnation| Body::Claim(Owner { node: NodeId(node), incarnation });
        assert_eq!(found(Body::Proof), "gave up");
        assert_eq!(found(claim(3, 1)), "gave up");
        assert_eq!(found(claim(1, 2)), "gave up");
        // A late write of this node before it was started again.
        assert_eq!(found(claim(2, 9)), "again");
        assert_eq!(found(Body::Yield { to: NodeId(3) }), "again");
    }
}
