//! The type parameters of openraft, and short names for its types.

use std::io::Cursor;

use serde::{Deserialize, Serialize};

use crate::command::{Applied, Proposal};

openraft::declare_raft_types!(
    /// The type parameters of openraft.
    pub Types:
        D = Proposal,
        R = Applied,
        NodeId = u64,
        Node = MemberSlot,
);

/// The member that an identity belongs to. Every member finds the address in its own settings.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct MemberSlot {
    pub member: u64,
}

pub type Raft = openraft::Raft<Types>;
pub type Metrics = openraft::RaftMetrics<u64, MemberSlot>;
pub type Entry = openraft::Entry<Types>;
pub type RaftLogId = openraft::LogId<u64>;
pub type Vote = openraft::Vote<u64>;
pub type Membership = openraft::StoredMembership<u64, MemberSlot>;
pub type SnapshotMeta = openraft::SnapshotMeta<u64, MemberSlot>;
pub type Snapshot = openraft::Snapshot<Types>;
pub type StorageError = openraft::StorageError<u64>;
pub type StorageIoError = openraft::StorageIOError<u64>;
pub type AppendRequest = openraft::raft::AppendEntriesRequest<Types>;
pub type AppendResponse = openraft::raft::AppendEntriesResponse<u64>;
pub type VoteRequest = openraft::raft::VoteRequest<u64>;
pub type VoteResponse = openraft::raft::VoteResponse<u64>;
pub type SnapshotRequest = openraft::raft::InstallSnapshotRequest<Types>;
pub type SnapshotResponse = openraft::raft::InstallSnapshotResponse<u64>;
pub type RaftError<E = openraft::error::Infallible> = openraft::error::RaftError<u64, E>;
pub type RpcError<E = openraft::error::Infallible> = openraft::error::RPCError<u64, MemberSlot, RaftError<E>>;
pub type WriteError = RaftError<openraft::error::ClientWriteError<u64, MemberSlot>>;
