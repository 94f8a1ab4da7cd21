//! What the engine tells its callers.

use jeton_core::{
    BranchOutcome, Cell, IdStatus, Operation, OperationResult, PartitionId, PreparedBranch, Rejection, Value,
};

/// What the engine can be asked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Ask {
    /// Do this.
    Apply(Operation),
    /// Tell what this cell holds.
    Read(Cell),
}

/// What became of an operation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum OperationOutcome {
    /// It is new. The answer says whether it was applied or a bound refused it.
    Fresh(OperationResult),
    /// It is known: this was the first answer.
    Replayed(OperationResult),
    /// The filter of a probabilistic table takes it for known. Nothing changed.
    ProbablySeen,
}

/// Why the engine did not do what it was asked. Nothing changed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum EngineError {
    /// The operation itself is the reason.
    #[error(transparent)]
    Rejected(#[from] Rejection),
    /// There is no table of that name or number.
    #[error("there is no such table: {0}")]
    NoSuchTable(String),
    /// Too much is under way. Ask again, with the same id.
    #[error("busy: {0}; ask again with the same id")]
    Busy(&'static str),
    /// There is no room to write. Reads go on; writes do when room is back.
    #[error("writes are refused for now: {0}")]
    Full(String),
    /// Something stored could not be read or written.
    #[error("storage: {0}")]
    Storage(String),
    /// Whoever stands between the caller and the engine did not pass it on, and says why.
    #[error("{0}")]
    Withheld(String),
    /// The engine is closed, or was before the operation was durable: whether it took effect is not known here. Ask again, with
    /// the same id.
    #[error("the engine is closed; ask again with the same id")]
    Closed,
}

/// A counter that a branch of a transaction was added to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CommittedCount {
    /// Where it is.
    pub cell: Cell,
    /// What it is afterwards.
    pub value: Option<i64>,
    /// The slot of the partition's log.
    pub slot: u64,
    /// When, in milliseconds since 1970.
    pub millis: u64,
}

/// What became of a branch of a transaction, in a partition.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum BranchResponse {
    /// It is held: since now if `fresh`, since before otherwise.
    Held {
        /// Whether it was not before.
        fresh: bool,
    },
    /// It has ended: now if `fresh`, and just as it was asked to; before otherwise, this way or the other.
    Settled {
        /// How.
        ending: BranchOutcome,
        /// Whether it had not before.
        fresh: bool,
        /// What was counted by that, just now.
        counted: Vec<CommittedCount>,
    },
    /// It is not held, and nothing is known of how it ended, if there ever was such a branch.
    Unknown,
    /// Nothing was done: these partitions are to be settled first.
    Elsewhere(Vec<PartitionId>),
}

/// What a request is answered with.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Response {
    /// To an operation.
    Applied(Result<OperationOutcome, EngineError>),
    /// To a read.
    Read(Result<Option<Value>, EngineError>),
    /// To the question what became of an id.
    Recalled(Result<IdStatus, EngineError>),
    /// To something about a branch.
    Branch(Result<BranchResponse, EngineError>),
    /// To the question which branches a partition holds.
    Held(Vec<PreparedBranch>),
}
