//! The decision of an attempt: the value of a write-once register.

use bytes::Bytes;

use crate::{CoordinatorId, Xid};

/// How an attempt or a branch ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Outcome {
    /// Its changes are permanent.
    Commit,
    /// Its changes are rolled back.
    Abort,
}

/// The recorded decision of an attempt. It never changes.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Decision {
    /// No coordinator's work on this attempt takes effect. The next attempt may begin.
    Abort,
    /// The work of one coordinator takes effect.
    Commit(Commit),
}

/// The committed work, and the answer to the request.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Commit {
    /// The coordinator whose branches commit. Branches of other coordinators of the same attempt are rolled
    /// back.
    pub coordinator: CoordinatorId,
    /// The branches to commit; all have voted yes. Empty if the request was refused, changed nothing, or
    /// changed only the database that stores the decision.
    pub branches: Vec<Participant>,
    /// The hash of the request: a retry must have the same content.
    pub request_hash: u128,
    /// The answer for the client.
    pub answer: ProcedureResult,
}

/// A branch of a coordinator: the database and the connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Participant {
    /// The number of the database.
    pub resource: u8,
    /// The connection that began the branch, by the database's own number.
    pub connection: u64,
}

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ProcedureResult {
    /// The procedure succeeded.
    Done(Bytes),
    /// A guard refused the request. No changes; the answer is recorded like any other.
    Refused(Bytes),
    /// The procedure cannot succeed: it is wrong, or violates a constraint of a database. No changes; the
    /// answer is recorded.
    Failed(Bytes),
}

impl ProcedureResult {
    /// Whether the changes of the procedure are committed.
    pub fn has_effects(&self) -> bool {
        matches!(self, Self::Done(_))
    }

    /// The body of the answer.
    pub fn body(&self) -> &Bytes {
        match self {
            Self::Done(body) | Self::Refused(body) | Self::Failed(body) => body,
        }
    }
}

impl Decision {
    /// How a branch ends under this decision.
    pub fn outcome(&self, branch: &Xid) -> Outcome {
        let own = Participant { resource: branch.resource, connection: branch.connection };
        match self {
            Self::Commit(commit)
                if commit.coordinator == branch.coordinator && commit.branches.contains(&own) =>
            {
                Outcome::Commit
            }
            _ => Outcome::Abort,
        }
    }
}
