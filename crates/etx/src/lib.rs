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

/// A point at which a test can make the process die.
macro_rules! fault {
    ($($point:tt)*) => {
        $crate::faults::pass(format_args!($($point)*))
    };
}

mod answered;
mod branch;
mod bytes;
mod cluster;
mod decision;
mod decisions;
mod desk;
mod executor;
pub mod faults;
mod logic;
mod pause;
mod peers;
mod request;
mod resource;
mod retirement;
mod running;
mod server;
mod sweep;
mod sweeper;
mod together;
mod value;
mod work;

pub use self::bytes::Malformed;
pub use branch::{ForeignXid, Xid};
pub use cluster::{Cluster, IdentifyError};
pub use decision::{Commit, Decision, Outcome, Participant, ProcedureResult};
pub use decisions::{DecisionLog, DecisionLookup, RegistersFull};
pub use desk::{InDoubt, InDoubtBranch, ResolvedBranch, TransactionService, TransactionStatus};
pub use executor::CoordinatorId;
pub use logic::{Branches, ProcedureCall, ProcedureLogic};
pub use peers::{NoPeers, PeerStatus, Peers};
pub use request::{AttemptId, AttemptNumber, DecisionLocation, RequestId, TRIES_MAX};
pub use resource::{Branch, PreparedBranch, Resource, ResourceError, Vote};
pub use server::{Coordinator, Options, SubmitError};
pub use sweep::{BranchRecovery, RecoveryAction, RecoveryEvent};
pub use value::{Dialect, QueryResult, Row, Value};
pub use work::{
    ClientOutcome, CoordinatorAction, CoordinatorState, Event, ExecutionResult, TransactionRequest,
    VoteResult,
};

/// The longest answer that is kept.
pub const ANSWER_BYTES_MAX: usize = 64 << 10;
