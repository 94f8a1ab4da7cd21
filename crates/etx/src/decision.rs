//! What became of a try: the value of a write-once register.

use bytes::Bytes;

use crate::{CoordinatorId, Xid};

/// How a try ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Outcome {
    /// Its effects stay.
    Commit,
    /// It has none.
    Abort,
}

/// What stands about a try, for ever.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Decision {
    /// It has no effect, whoever worked on it. The next one may begin.
    Abort,
    /// The work of one executor is the one that counts.
    Commit(Commit),
}

/// The work that counts, and the answer to the request.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Commit {
    /// Whose work it is. Branches of others on the same try are rolled back.
    pub executor: CoordinatorId,
    /// The branches that are to be committed; all of them have voted yes. None if the request was refused, or changed nothing, or only changed
    /// the database that keeps the decision.
    pub branches: Vec<Participant>,
    /// What was asked, as a hash: the same request must not be asked with other words.
    pub asked: u128,
    /// What the client gets.
    pub answer: ProcedureResult,
}

/// A branch of a work: the database, and the connection that made it there.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Participant {
    /// Which database.
    pub resource: u8,
    /// Which connection.
    pub connection: u64,
}

/// What the business logic says at the end.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ProcedureResult {
    /// It is done.
    Done(Bytes),
    /// It is refused for a reason of the business, and without effects. That is an answer like any other, and stays.
    Refused(Bytes),
    /// It cannot be done, now or later: the procedure is wrong, or goes against a rule of a database. Without effects, and that stays.
    Failed(Bytes),
}

impl ProcedureResult {
    /// Whether what was computed is to stay.
    pub fn has_effects(&self) -> bool {
        matches!(self, Self::Done(_))
    }

    /// What it says.
    pub fn body(&self) -> &Bytes {
        match self {
            Self::Done(body) | Self::Refused(body) | Self::Failed(body) => body,
        }
    }
}

impl Decision {
    /// How this branch ends, now that this stands about its try.
    pub fn outcome(&self, branch: &Xid) -> Outcome {
        let own = Participant { resource: branch.resource, connection: branch.connection };
        match self {
            Self::Commit(commit) if commit.executor == branch.executor && commit.branches.contains(&own) => {
                Outcome::Commit
            }
            _ => Outcome::Abort,
        }
    }
}
