//! Responses of the engine.

use jeton_core::{
    BranchOutcome, Cell, IdStatus, Operation, OperationResult, PartitionId, PreparedBranch, Rejection, Value,
};

/// A call of the engine, before it is hashed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Ask {
    /// Apply an operation.
    Apply(Operation),
    /// Read a cell.
    Read(Cell),
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum OperationOutcome {
    /// The operation is new. The result says whether it was applied or a bound refused it.
    Fresh(OperationResult),
    /// A retry: this was the first result.
    Replayed(OperationResult),
    /// The filter of a probabilistic table reports the id as known. Nothing changed.
    ProbablySeen,
}

/// Why the engine did not do what was requested. Nothing changed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum EngineError {
    #[error(transparent)]
    Rejected(#[from] Rejection),
    /// No table has this name or number.
    #[error("there is no such table: {0}")]
    NoSuchTable(String),
    /// Too many requests are in flight. Retry with the same id.
    #[error("busy: {0}; retry with the same id")]
    Busy(&'static str),
    /// No disk space to write. Reads continue; writes resume when there is space.
    #[error("writes are refused for now: {0}")]
    Full(String),
    /// Stored data could not be read or written.
    #[error("storage: {0}")]
    Storage(String),
    /// A layer between the caller and the engine refused the request.
    #[error("{0}")]
    Withheld(String),
    /// The engine was closed, or another node took the partition over, before the operation was durable: it
    /// may have been applied. Retry with the same id.
    #[error("the engine is closed; retry with the same id")]
    Closed,
    /// Another node owns the partition, or has taken it over. Retry there with the same id.
    #[error("another node owns the partition; retry with the same id")]
    Moved,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CommittedCount {
    pub cell: Cell,
    pub value: Option<i64>,
    pub slot: u64,
    /// Time of the commit, in milliseconds since 1970.
    pub millis: u64,
}

/// The response to a request about a branch, from one partition.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum BranchResponse {
    /// It is prepared: now if `fresh`, otherwise before.
    Prepared { fresh: bool },
    /// It is finished: now and as requested if `fresh`, otherwise before, with either outcome.
    Finished {
        outcome: BranchOutcome,
        fresh: bool,
        /// The counters that this request changed.
        counted: Vec<CommittedCount>,
    },
    /// It is not prepared, and no outcome is recorded.
    Unknown,
    /// Nothing changed: these partitions must be finished first.
    Elsewhere(Vec<PartitionId>),
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Response {
    Applied(Result<OperationOutcome, EngineError>),
    Read(Result<Option<Value>, EngineError>),
    Recalled(Result<IdStatus, EngineError>),
    Branch(Result<BranchResponse, EngineError>),
    PreparedBranches(Vec<PreparedBranch>),
}

impl Response {
    /// Why the request was refused, if it was.
    pub(crate) fn refusal(&mut self) -> Option<&mut EngineError> {
        match self {
            Self::Applied(Err(why))
            | Self::Read(Err(why))
            | Self::Recalled(Err(why))
            | Self::Branch(Err(why)) => Some(why),
            _ => None,
        }
    }
}
