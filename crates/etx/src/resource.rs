//! The interface of a participant: a database and its branches.
//!
//! An adapter must guarantee:
//! - A branch belongs to one connection. If the connection is lost before the vote, the changes are lost, and
//!   the branch never votes yes.
//! - A yes vote is durable: any server can commit the branch after any crash.
//! - A commit is acknowledged only if it is known to have taken effect. A database gives the same error for a
//!   branch that was committed, rolled back, or is being resolved; so the branch writes a row, its *commit
//!   marker*, which shows a commit.

use async_trait::async_trait;

use crate::{AttemptId, AttemptNumber, CoordinatorId, Dialect, Outcome, QueryResult, RequestId, Value, Xid};

/// A database that can begin branches and lists prepared ones.
#[async_trait]
pub trait Resource: Send + Sync {
    /// The name in the settings.
    fn name(&self) -> &str;

    /// The placeholder syntax of its statements.
    fn dialect(&self) -> Dialect;

    /// Whether it can record decisions, that is, commit a branch atomically with its decision. Otherwise it
    /// needs neither [`write_decision`](Self::write_decision) nor [`read_decision`](Self::read_decision).
    fn keeps_decisions(&self) -> bool {
        false
    }

    /// Begins a branch on a connection of its own.
    async fn begin(&self, attempt: AttemptId) -> Result<Box<dyn Branch>, ResourceError>;

    /// All prepared branches of this cluster, of any coordinator.
    async fn prepared(&self) -> Result<Vec<PreparedBranch>, ResourceError>;

    /// Locks of a prepared branch as text for operators; empty if the database does not report them.
    async fn locks(&self, branch: &Xid) -> Result<Vec<String>, ResourceError>;

    /// Commits or rolls back a branch of any coordinator, also one that was never prepared. `Ok` means that
    /// the branch has ended with this outcome. After an abort, a running coordinator may still prepare the
    /// branch; recovery finds it then.
    async fn decide(&self, branch: &Xid, outcome: Outcome) -> Result<(), ResourceError>;

    /// Records the decision of an attempt whose decisions are in this database, unless there is one, and
    /// returns the recorded decision. Other servers use it to decide attempts that
    /// [`Branch::commit_deciding`] decides otherwise.
    async fn write_decision(
        &self,
        _request: RequestId,
        _attempt: AttemptNumber,
        _decision: &[u8],
    ) -> Result<Vec<u8>, ResourceError> {
        Err(ResourceError::keeps_no_decisions(self.name()))
    }

    /// The recorded decision of an attempt whose decisions are in this database. [`ResourceError::Forgotten`]
    /// if the session is below the retention limit.
    async fn read_decision(
        &self,
        _request: RequestId,
        _attempt: AttemptNumber,
    ) -> Result<Option<Vec<u8>>, ResourceError> {
        Err(ResourceError::keeps_no_decisions(self.name()))
    }

    /// Deletes commit markers and decisions of all sessions below this one. From then on no decision is
    /// recorded for them.
    async fn forget(&self, below: u128) -> Result<(), ResourceError>;

    /// Terminates all sessions of this incarnation of the coordinator's server, so that the branches of a
    /// suspected server block no other coordinator. This is for liveness only: a running server loses its
    /// attempts in flight and may begin new ones.
    async fn fence(&self, coordinator: CoordinatorId) -> Result<(), ResourceError>;
}

/// The part of an attempt in one database.
#[async_trait]
pub trait Branch: Send {
    /// The branch name.
    fn name(&self) -> Xid;

    /// Executes a statement. After an error the branch never votes yes.
    async fn execute(&mut self, statement: &str, parameters: &[Value]) -> Result<QueryResult, ResourceError>;

    /// Prepares the branch. A branch that changed nothing ends.
    async fn vote(&mut self) -> Vote;

    /// Commits the branch without a vote, atomically with the decision of the attempt, and returns the
    /// recorded decision. If another decision is recorded, the branch is rolled back. If the response of the
    /// database is lost, the recorded decision is read. After an error, [`Resource::write_decision`] finds
    /// out the decision.
    /// Not called if the database [keeps no decisions](Resource::keeps_decisions).
    async fn commit_deciding(self: Box<Self>, decision: &[u8]) -> Result<Vec<u8>, ResourceError>;

    /// Commits or rolls back the branch, on its own connection if that is still usable. `Ok` means that the
    /// branch has ended with this outcome.
    async fn decide(self: Box<Self>, outcome: Outcome) -> Result<(), ResourceError>;
}

/// The vote of a branch.
#[derive(Debug)]
pub enum Vote {
    /// The branch is prepared and can commit after any crash.
    Yes,
    /// The branch changed nothing and has ended.
    Unchanged,
    /// The branch cannot commit. It may be prepared all the same if the response was lost.
    No(ResourceError),
}

/// A prepared branch, as the database lists it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PreparedBranch {
    /// The branch name.
    pub name: Xid,
    /// Time since the prepare, if the database reports it.
    pub age: Option<std::time::Duration>,
}

/// An error of a participant.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ResourceError {
    /// No connection can be opened: the database is unreachable or restarting, or has no free connection.
    #[error("{resource}: {why}")]
    Unavailable {
        /// The database.
        resource: String,
        /// The error text.
        why: String,
    },
    /// A retry may succeed: the connection is lost, or the database reports a lock timeout or a deadlock.
    #[error("{resource}: {why}")]
    Transient {
        /// The database.
        resource: String,
        /// The error text.
        why: String,
    },
    /// The statement is wrong or violates a constraint. A retry fails too.
    #[error("{resource}: {why}")]
    Statement {
        /// The database.
        resource: String,
        /// The database's error code.
        code: String,
        /// The error text.
        why: String,
    },
    /// The setup of the database is wrong. An operator must change it.
    #[error("{resource}: {why}; {remedy}")]
    Setup {
        /// The database.
        resource: String,
        /// What is wrong.
        why: String,
        /// How to fix it.
        remedy: String,
    },
    /// The session is below the retention limit. Nothing is recorded for it any more.
    #[error("{resource}: the session is below the retention limit")]
    Forgotten {
        /// The database.
        resource: String,
    },
    /// The branch ended against the decision, because an operator resolved it in the database by hand. Only
    /// an operator can repair this.
    #[error("{resource}: the branch {gid} ended against the decision; {why}")]
    Damage {
        /// The database.
        resource: String,
        /// The branch name.
        gid: String,
        /// What was found.
        why: String,
    },
}

impl ResourceError {
    /// The same error, if it occurs when a connection is opened.
    pub fn while_connecting(self) -> Self {
        match self {
            Self::Transient { resource, why } => Self::Unavailable { resource, why },
            other => other,
        }
    }

    /// The error of a database that keeps no decisions and is to record one.
    pub fn keeps_no_decisions(resource: &str) -> Self {
        Self::Setup {
            resource: resource.to_owned(),
            why: "it keeps no decisions about transactions".to_owned(),
            remedy: "keep them in the registers, or in PostgreSQL or MariaDB".to_owned(),
        }
    }
}
