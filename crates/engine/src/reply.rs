//! What the engine tells its callers.

use jeton_core::{Answer, Cell, Known, Operation, Rejection, Value};

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
pub enum Reply {
    /// It is new. The answer says whether it was applied or a bound refused it.
    Fresh(Answer),
    /// It is known: this was the first answer.
    Replayed(Answer),
    /// The filter of a probabilistic table takes it for known. Nothing changed.
    ProbablySeen,
}

/// Why the engine did not do what it was asked. Nothing changed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Refusal {
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

/// What a request is answered with.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Response {
    /// To an operation.
    Applied(Result<Reply, Refusal>),
    /// To a read.
    Read(Result<Option<Value>, Refusal>),
    /// To the question what became of an id.
    Recalled(Result<Known, Refusal>),
}
