//! Requests and responses between members. A change of these types is a new
//! version of the protocol: see `Settings::endpoint`.

use openraft::error::InstallSnapshotError;
use serde::{Deserialize, Serialize};

use crate::command::{CommandResult, Proposal};
use crate::types::{
    AppendRequest, AppendResponse, RaftError, SnapshotRequest, SnapshotResponse, VoteRequest, VoteResponse,
};

/// A request. Requests of Raft name the identity that they are for: another identity of the same member must
/// not respond.
#[derive(Debug, Serialize, Deserialize)]
pub enum Request {
    Append {
        to: u64,
        request: AppendRequest,
    },
    Vote {
        to: u64,
        request: VoteRequest,
    },
    Snapshot {
        to: u64,
        request: SnapshotRequest,
    },
    /// To the leader: append this to the log.
    Propose(Proposal),
    /// To the leader: the index up to which a member must apply the log to have everything that is
    /// acknowledged now.
    Barrier,
    Status,
    /// To the leader: make this identity the voter of this member.
    Admit {
        member: u64,
        identity: u64,
    },
}

#[derive(Debug, Serialize, Deserialize)]
pub enum Response {
    Append(Result<AppendResponse, RaftError>),
    Vote(Result<VoteResponse, RaftError>),
    Snapshot(Result<SnapshotResponse, RaftError<InstallSnapshotError>>),
    /// The index of the entry, and the results of its commands.
    Proposed(u64, Vec<CommandResult>),
    /// The index of an entry.
    Barrier(u64),
    Status(Status),
    Admitted,
    Refused(Refusal),
}

/// The status of a member.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Status {
    pub identity: u64,
    /// Whether its log is empty.
    pub is_empty: bool,
    /// The member that leads, as far as it knows.
    pub leader: Option<u64>,
    /// The numbers of all members in its settings, in order.
    pub members: Vec<u64>,
}

/// Why a request was not executed. It has no effect, except with [`Refusal::NotLeader`] and
/// [`Refusal::Unknown`].
#[derive(Debug, Clone, Serialize, Deserialize, thiserror::Error)]
pub enum Refusal {
    /// openraft also returns this for an entry that is in the log already.
    #[error("it does not lead")]
    NotLeader,
    #[error("the member has another identity")]
    OtherIdentity,
    #[error("no space: {0}")]
    Full(String),
    /// The request may have been executed, or may be later.
    #[error("{0}")]
    Unknown(String),
    #[error("a later proposal was applied before")]
    Superseded,
    #[error("{0}")]
    Rejected(String),
}
