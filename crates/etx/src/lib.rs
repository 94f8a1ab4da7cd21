//! e-Transactions: a request takes effect exactly once across databases, and its client gets the one
//! committed answer.
//!
//! After Frølund and Guerraoui, *Implementing e-Transactions with Asynchronous Replication* (HPL-2000-46). A
//! server coordinates a request; after a failure any other server can take over. An attempt has one branch in
//! each database. All branches vote, and the decision is recorded in a write-once register together with the
//! answer. Every server that reads the decision carries it out. `docs/etx.md` lists the differences from the
//! paper's pseudocode and their reasons.
//!
//! Properties, with the names of the paper:
//! - *T.1* a client that keeps retrying gets an answer; *T.2* a database that voted learns the outcome.
//! - *A.1* an answer is given only if every database has committed; *A.2* at most one attempt of a request
//!   commits; *A.3* no two databases disagree.
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
mod decision_location;
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
pub use decision_location::{DecisionLocationError, check_decision_locations};
pub use decision_log::{DecisionLog, DecisionLookup, RegistersFull};
pub use failure_detector::{NoPeers, PeerStatus, Peers};
pub use logic::{Branches, ProcedureCall, ProcedureLogic};
pub use protocol::{
    ClientOutcome, CoordinatorAction, CoordinatorState, Event, ExecutionResult, TransactionRequest,
    VoteResult,
};
pub use request::{ATTEMPTS_MAX, AttemptId, AttemptNumber, DecisionLocation, RequestId};
pub use resource::{Branch, PreparedBranch, Resource, ResourceError, Vote};
pub use transaction_service::{
    InDoubt, InDoubtBranch, Resolution, ResolvedBranch, TransactionService, TransactionStatus,
};
pub use value::{Dialect, QueryResult, Row, Value};
pub use xid::{ForeignXid, Xid};

/// Limit of the size of an answer, in bytes.
pub const ANSWER_BYTES_MAX: usize = 64 << 10;
