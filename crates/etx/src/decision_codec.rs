//! The encoding of a decision in a register. Decisions are kept for the whole window, so new servers must
//! decode old ones.

use bytes::{BufMut, Bytes};

use crate::decision::{Commit, Decision, Participant, ProcedureResult};
use crate::{ANSWER_BYTES_MAX, CoordinatorId};

/// The first byte of the encoding.
const VERSION: u8 = 1;

/// Limit of branches per transaction.
const BRANCHES_MAX: usize = 64;

const ABORT: u8 = 0;
const DONE: u8 = 1;
const REFUSED: u8 = 2;
const FAILED: u8 = 3;

/// The bytes are not a decision.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("not the bytes of a decision: {0}")]
pub struct Malformed(&'static str);

impl Decision {
    /// Encodes the decision.
    pub fn encode(&self) -> Vec<u8> {
        let Self::Commit(commit) = self else { return vec![VERSION, ABORT] };
        assert!(commit.branches.len() <= BRANCHES_MAX, "a transaction has at most BRANCHES_MAX branches");
        let (kind, body) = match &commit.answer {
            ProcedureResult::Done(body) => (DONE, body),
            ProcedureResult::Refused(body) => (REFUSED, body),
            ProcedureResult::Failed(body) => (FAILED, body),
        };
        assert!(body.len() <= ANSWER_BYTES_MAX, "the coordinator limits the answer to ANSWER_BYTES_MAX");
        let mut out = Vec::with_capacity(64 + body.len());
        out.put_u8(VERSION);
        out.put_u8(kind);
        out.put_u16(commit.coordinator.server);
        out.put_u64(commit.coordinator.incarnation);
        out.put_u64(commit.coordinator.work);
        out.put_u128(commit.request_hash);
        out.put_u8(commit.branches.len() as u8);
        for branch in &commit.branches {
            out.put_u8(branch.resource);
            out.put_u64(branch.connection);
        }
        out.put_slice(body);
        out
    }

    /// Decodes a decision.
    pub fn decode(bytes: &[u8]) -> Result<Self, Malformed> {
        let mut rest = Rest(bytes);
        if rest.take::<1>()? != [VERSION] {
            return Err(Malformed("another version"));
        }
        let [kind] = rest.take()?;
        if kind == ABORT {
            return if rest.0.is_empty() { Ok(Self::Abort) } else { Err(Malformed("too long")) };
        }
        let coordinator = CoordinatorId {
            server: u16::from_be_bytes(rest.take()?),
            incarnation: u64::from_be_bytes(rest.take()?),
            work: u64::from_be_bytes(rest.take()?),
        };
        let request_hash = u128::from_be_bytes(rest.take()?);
        let [count] = rest.take()?;
        if usize::from(count) > BRANCHES_MAX {
            return Err(Malformed("too many branches"));
        }
        let branches = (0..count)
            .map(|_| {
                let [resource] = rest.take()?;
                Ok(Participant { resource, connection: u64::from_be_bytes(rest.take()?) })
            })
            .collect::<Result<Vec<_>, Malformed>>()?;
        if rest.0.len() > ANSWER_BYTES_MAX {
            return Err(Malformed("too long"));
        }
        let body = Bytes::copy_from_slice(rest.0);
        let answer = match kind {
            DONE => ProcedureResult::Done(body),
            REFUSED => ProcedureResult::Refused(body),
            FAILED => ProcedureResult::Failed(body),
            _ => return Err(Malformed("an unknown kind")),
        };
        Ok(Self::Commit(Commit { coordinator, branches, request_hash, answer }))
    }
}

struct Rest<'a>(&'a [u8]);

impl Rest<'_> {
    fn take<const COUNT: usize>(&mut self) -> Result<[u8; COUNT], Malformed> {
        let (taken, rest) = self.0.split_first_chunk().ok_or(Malformed("too short"))?;
        self.0 = rest;
        Ok(*taken)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn commit(answer: ProcedureResult) -> Decision {
        Decision::Commit(Commit {
            coordinator: CoordinatorId { server: 3, incarnation: u64::MAX, work: 1 },
            branches: vec![
                Participant { resource: 0, connection: 7 },
                Participant { resource: 2, connection: u64::MAX },
            ],
            request_hash: 1 << 100,
            answer,
        })
    }

    #[test]
    fn decision_round_trip_and_truncated_bytes() {
        let body = Bytes::from_static(b"{}");
        for decision in [
            Decision::Abort,
            commit(ProcedureResult::Done(body.clone())),
            commit(ProcedureResult::Refused(Bytes::new())),
            commit(ProcedureResult::Failed(body)),
        ] {
            let bytes = decision.encode();
            assert_eq!(Decision::decode(&bytes), Ok(decision.clone()));
            // The fields before the answer have a bounded length; the answer is not allocated in advance.
            let fixed = bytes.len().min(2 + 18 + 16 + 1 + 18);
            for length in 0..fixed {
                assert_ne!(Decision::decode(&bytes[..length]), Ok(decision.clone()), "{length}");
            }
        }
        assert!(Decision::decode(&[VERSION, ABORT, 0]).is_err());
        assert!(Decision::decode(&[VERSION + 1, ABORT]).is_err());
        let mut many = commit(ProcedureResult::Done(Bytes::new())).encode();
        many[36] = 65;
        assert!(Decision::decode(&many).is_err());
    }
}
