//! What members say to each other.
//!
//! A change of these is a new [version](crate::connection::VERSION) of the protocol.

use openraft::error::InstallSnapshotError;
use serde::{Deserialize, Serialize};

use crate::command::{Answer, Proposal};
use crate::types::{
    AppendRequest, AppendResponse, RaftError, SnapshotRequest, SnapshotResponse, VoteRequest, VoteResponse,
};

/// What is asked. What belongs to Raft says which identity is meant: another one in the same seat must not answer for it.
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
    /// To the leader: put this into the log.
    Propose(Proposal),
    /// To the leader: how far must I have come, to have everything that is acknowledged by now?
    Barrier,
    /// How is it with you?
    Status,
    /// To the leader: let this identity sit in the seat of this member.
    Admit {
        member: u64,
        identity: u64,
    },
}

/// What is answered.
#[derive(Debug, Serialize, Deserialize)]
pub enum Reply {
    Append(Result<AppendResponse, RaftError>),
    Vote(Result<VoteResponse, RaftError>),
    Snapshot(Result<SnapshotResponse, RaftError<InstallSnapshotError>>),
    /// The index of the entry, and what became of its commands.
    Proposed(u64, Vec<Answer>),
    /// The index of an entry.
    Barrier(u64),
    Status(Status),
    Admitted,
    Refused(Refusal),
}

/// How it is with a member.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Status {
    pub identity: u64,
    /// Whether it has no log at all.
    pub is_blank: bool,
    /// The member that leads, if it knows of one.
    pub leader: Option<u64>,
    /// The numbers of all members by its settings, in order.
    pub members: Vec<u64>,
}

/// Why something that was asked for is not answered.
#[derive(Debug, Clone, Serialize, Deserialize, thiserror::Error)]
pub enum Refusal {
    /// Nothing was done.
    #[error("it does not lead")]
    NotLeader,
    /// Nothing was done.
    #[error("another identity sits there")]
    NotMe,
    /// Nothing was done.
    #[error("no room: {0}")]
    Full(String),
    /// It may have been done, or may be yet.
    #[error("{0}")]
    Doubt(String),
    /// It was given up by who asked, and a later one was done.
    #[error("it came after a later one")]
    Stale,
    /// Nothing was done.
    #[error("{0}")]
    Unable(String),
}
