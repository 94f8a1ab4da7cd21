//! A decision as the bytes of a register. They stay for as long as requests are remembered, so old ones must be read by new servers.

use bytes::{BufMut, Bytes};

use crate::decision::{Commit, Decision, Participant, ProcedureResult};
use crate::{ANSWER_BYTES_MAX, CoordinatorId};

/// What the bytes begin with.
const VERSION: u8 = 1;

/// Databases of one transaction.
const BRANCHES_MAX: usize = 64;

const ABORT: u8 = 0;
const DONE: u8 = 1;
const REFUSED: u8 = 2;
const FAILED: u8 = 3;

/// Bytes that are no decision of ours.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("not the bytes of a decision: {0}")]
pub struct Malformed(&'static str);

impl Decision {
    /// The bytes.
    pub fn encode(&self) -> Vec<u8> {
        let Self::Commit(commit) = self else { return vec![VERSION, ABORT] };
        assert!(commit.branches.len() <= BRANCHES_MAX, "more branches than a transaction may have");
        let (kind, body) = match &commit.answer {
            ProcedureResult::Done(body) => (DONE, body),
            ProcedureResult::Refused(body) => (REFUSED, body),
            ProcedureResult::Failed(body) => (FAILED, body),
        };
        assert!(body.len() <= ANSWER_BYTES_MAX, "a longer answer than may be kept");
        let mut out = Vec::with_capacity(64 + body.len());
        out.put_u8(VERSION);
        out.put_u8(kind);
        out.put_u16(commit.executor.server);
        out.put_u64(commit.executor.incarnation);
        out.put_u64(commit.executor.work);
        out.put_u128(commit.asked);
        out.put_u8(commit.branches.len() as u8);
        for branch in &commit.branches {
            out.put_u8(branch.resource);
            out.put_u64(branch.connection);
        }
        out.put_slice(body);
        out
    }

    /// The decision of these bytes.
    pub fn decode(bytes: &[u8]) -> Result<Self, Malformed> {
        let mut rest = Rest(bytes);
        if rest.take::<1>()? != [VERSION] {
            return Err(Malformed("another version"));
        }
        let [kind] = rest.take()?;
        if kind == ABORT {
            return if rest.0.is_empty() { Ok(Self::Abort) } else { Err(Malformed("too long")) };
        }
        let executor = CoordinatorId {
            server: u16::from_be_bytes(rest.take()?),
            incarnation: u64::from_be_bytes(rest.take()?),
            work: u64::from_be_bytes(rest.take()?),
        };
        let asked = u128::from_be_bytes(rest.take()?);
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
        Ok(Self::Commit(Commit { executor, branches, asked, answer }))
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
            executor: CoordinatorId { server: 3, incarnation: u64::MAX, work: 1 },
            branches: vec![
                Participant { resource: 0, connection: 7 },
                Participant { resource: 2, connection: u64::MAX },
            ],
            asked: 1 << 100,
            answer,
        })
    }

    #[test]
    fn a_decision_is_read_as_it_is_written_and_not_from_part_of_it() {
        let body = Bytes::from_static(b"{}");
        for decision in [
            Decision::Abort,
            commit(ProcedureResult::Done(body.clone())),
            commit(ProcedureResult::Refused(Bytes::new())),
            commit(ProcedureResult::Failed(body)),
        ] {
            let bytes = decision.encode();
            assert_eq!(Decision::decode(&bytes), Ok(decision.clone()));
            // An answer may be of any length; all before it may not.
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
