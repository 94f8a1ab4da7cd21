//! e-Transactions: a request takes effect exactly once across databases, and its client gets the one committed answer.
//!
//! After Frølund and Guerraoui, *Implementing e-Transactions with Asynchronous Replication* (HPL-2000-46). A request is tried by application servers,
//! at first one, later any; a try does its work in one branch in each database, all of them vote, and what becomes of the try is written into a
//! write-once register, with the answer. Whoever finds it there carries it out. What differs from the paper's pseudo-code, and why, is in `docs/etx.md`.
//!
//! What must hold, in the paper's names:
//! - *T.1* a client that goes on asking gets an answer; *T.2* a database that voted learns the outcome.
//! - *A.1* an answer is given only if every database has committed; *A.2* of the tries of a request one commits at most; *A.3* no two databases
//!   disagree.
//! - *V.1* an answer was computed from the request; *V.2* a database commits only if all have voted yes.

/// A failpoint: does nothing unless the feature `failpoints` is on.
macro_rules! fault {
    ($($point:tt)*) => {{
        #[cfg(feature = "failpoints")]
        $crate::failpoints::pass(format_args!($($point)*));
    }};
}

mod answered_watermarks;
mod backoff;
mod branch_recovery;
mod cluster;
mod coordinator;
mod coordinator_id;
mod coordinator_task;
mod decision;
mod decision_codec;
mod decision_gc;
mod decision_log;
#[cfg(feature = "failpoints")]
pub mod failpoints;
mod failure_detector;
mod logic;
mod protocol;
mod recovery_task;
mod request;
mod resource;
mod transaction_service;
mod value;
mod xid;

pub use self::decision_codec::Malformed;
pub use branch_recovery::{BranchRecovery, RecoveryAction, RecoveryEvent};
pub use cluster::{Cluster, IdentifyError};
pub use coordinator::{Coordinator, Options, SubmitError};
pub use coordinator_id::CoordinatorId;
pub use decision::{Commit, Decision, Outcome, Participant, ProcedureResult};
pub use decision_log::{DecisionLog, DecisionLookup, RegistersFull};
pub use failure_detector::{NoPeers, PeerStatus, Peers};
pub use logic::{Branches, ProcedureCall, ProcedureLogic};
pub use protocol::{
    ClientOutcome, CoordinatorAction, CoordinatorState, Event, ExecutionResult, TransactionRequest,
    VoteResult,
};
pub use request::{AttemptId, AttemptNumber, DecisionLocation, RequestId, TRIES_MAX};
pub use resource::{Branch, PreparedBranch, Resource, ResourceError, Vote};
pub use transaction_service::{
    InDoubt, InDoubtBranch, ResolvedBranch, TransactionService, TransactionStatus,
};
pub use value::{Dialect, QueryResult, Row, Value};
pub use xid::{ForeignXid, Xid};

/// The longest answer that is kept.
pub const ANSWER_BYTES_MAX: usize = 64 << 10;
