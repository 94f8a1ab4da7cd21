//! A database as it takes part in a transaction.
//!
//! What an adapter must keep:
//! - A branch lives on one connection. If the connection is lost before the vote, the work is lost, and the branch never votes yes.
//! - *Yes* is a promise: the branch is durable, and can be committed by anybody, whatever dies.
//! - A commit is acknowledged only if it is known to have taken effect. A database that knows nothing of a name says so in the same words whether it
//!   was committed, rolled back, or is just being decided by another; so a row that the branch wrote (its *mark*) tells which.

use async_trait::async_trait;

use crate::{AttemptId, AttemptNumber, CoordinatorId, Dialect, Outcome, QueryResult, RequestId, Value, Xid};

/// A database that branches can be begun in, and that knows those which are prepared.
#[async_trait]
pub trait Resource: Send + Sync {
    /// What it is called in the settings.
    fn name(&self) -> &str;

    /// How its statements have their parameters.
    fn dialect(&self) -> Dialect;

    /// Whether it can keep decisions: whether a branch can be committed in one with its decision.
    fn keeps_decisions(&self) -> bool {
        true
    }

    /// Begins a branch, on a connection that nobody else uses until the branch has ended.
    async fn begin(&self, attempt: AttemptId) -> Result<Box<dyn Branch>, ResourceError>;

    /// All branches of ours that are prepared, whoever made them.
    async fn prepared(&self) -> Result<Vec<PreparedBranch>, ResourceError>;

    /// What a prepared branch keeps others from, in words for a human; nothing if the database cannot tell.
    async fn locks(&self, branch: &Xid) -> Result<Vec<String>, ResourceError>;

    /// Ends a branch that somebody prepared, or that nobody ever did. `Ok` means: it has ended that way, for sure. Of an abort it means that the branch is not prepared now: if its
    /// executor lives, it may still be, and is found by sweeps.
    async fn decide(&self, branch: &Xid, outcome: Outcome) -> Result<(), ResourceError>;

    /// What stands as the decision of a try whose decisions are kept in this database: `decision` if none stood before. For tries that
    /// [`Branch::commit_deciding`] ends; this is how others end them.
    async fn write_decision(
        &self,
        request: RequestId,
        attempt: AttemptNumber,
        decision: &[u8],
    ) -> Result<Vec<u8>, ResourceError>;

    /// The decision of a try, if it is kept in this database and stands. [`ResourceError::Forgotten`] if there may have been one.
    async fn read_decision(
        &self,
        request: RequestId,
        attempt: AttemptNumber,
    ) -> Result<Option<Vec<u8>>, ResourceError>;

    /// Forgets marks and decisions of all sessions below this one. From then on no decision is written for them.
    async fn forget(&self, below: u128) -> Result<(), ResourceError>;

    /// Ends every connection on which the server of this executor works, in this life of it. It is for servers that seem dead, and a matter of time: what they had open is in nobody's
    /// way any more. A server that lives loses the tries that it is at, and may begin again.
    async fn fence(&self, executor: CoordinatorId) -> Result<(), ResourceError>;
}

/// The part of a try that is in one database.
#[async_trait]
pub trait Branch: Send {
    /// What it is called.
    fn name(&self) -> Xid;

    /// Executes a statement. After an error the branch never votes yes.
    async fn execute(&mut self, statement: &str, parameters: &[Value]) -> Result<QueryResult, ResourceError>;

    /// Prepares the branch. A branch that changed nothing is over with that.
    async fn vote(&mut self) -> Vote;

    /// Commits the branch at once, without a vote, together with a row that is the decision of the try. If another decision stands
    /// already, the branch is rolled back. What stands, for sure: if the answer of the database was lost, it was looked up. After an error, what
    /// stands is found out by [`Resource::write_decision`].
    async fn commit_deciding(self: Box<Self>, decision: &[u8]) -> Result<Vec<u8>, ResourceError>;

    /// Ends the branch, on its own connection if that is still there. `Ok` means: it has ended that way, for sure.
    async fn decide(self: Box<Self>, outcome: Outcome) -> Result<(), ResourceError>;
}

/// What a database says about the end of a branch.
#[derive(Debug)]
pub enum Vote {
    /// It can commit, whatever happens from now on.
    Yes,
    /// The branch changed nothing, and is over.
    Unchanged,
    /// It cannot commit. Perhaps it is prepared all the same, for the answer may have been lost.
    No(ResourceError),
}

/// A prepared branch, as the database lists it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PreparedBranch {
    /// The branch.
    pub name: Xid,
    /// How long it has been prepared, if the database knows.
    pub age: Option<std::time::Duration>,
}

/// Why something did not come about in a database.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ResourceError {
    /// It may be different the next time: out of reach, restarting, too many connections, a lock, a deadlock.
    #[error("{resource}: {why}")]
    Passing {
        /// The database.
        resource: String,
        /// What it said.
        why: String,
    },
    /// The statement is wrong, or goes against a rule of the database such as a constraint: it will fail the next time too.
    #[error("{resource}: {why}")]
    Statement {
        /// The database.
        resource: String,
        /// Its code for the error.
        code: String,
        /// What it said.
        why: String,
    },
    /// The database is not set up for this; nothing will work before somebody changes that.
    #[error("{resource}: {why}; {remedy}")]
    Setup {
        /// The database.
        resource: String,
        /// What is wrong.
        why: String,
        /// What to do.
        remedy: String,
    },
    /// The session is among those that are forgotten: nothing is written about it any more.
    #[error("{resource}: what is known of this session is forgotten")]
    Forgotten {
        /// The database.
        resource: String,
    },
    /// The branch ended against what was decided: somebody ended it by hand. It must not go unnoticed, and nothing can repair it but a human.
    #[error("{resource}: the branch {gid} ended against the decision; {why}")]
    Damage {
        /// The database.
        resource: String,
        /// The branch.
        gid: String,
        /// What was found.
        why: String,
    },
}
