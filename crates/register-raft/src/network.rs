//! How Raft speaks to other members.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use openraft::error::{InstallSnapshotError, RemoteError, Unreachable};
use openraft::network::{RPCOption, RaftNetwork, RaftNetworkFactory};
use tokio::time::Instant;

use crate::membership_view::LastSeen;
use crate::message::{Reply, Request};
use crate::peer::{Peer, PeerError};
use crate::settings::Settings;
use crate::types::{
    AppendRequest, AppendResponse, MemberSlot, RaftError, RpcError, SnapshotRequest, SnapshotResponse, Types,
    VoteRequest, VoteResponse,
};

/// Makes what speaks to the others.
pub struct Network {
    pub settings: Arc<Settings>,
    pub heard: Arc<LastSeen>,
}

impl RaftNetworkFactory<Types> for Network {
    type Network = Line;

    async fn new_client(&mut self, target: u64, seat: &MemberSlot) -> Line {
        let peer = Peer::new(seat.member, Arc::clone(&self.settings), Arc::clone(&self.heard));
        Line { target, peer }
    }
}

/// Speaks to one identity.
pub struct Line {
    target: u64,
    peer: Peer,
}

impl Line {
    async fn ask<E: std::error::Error>(
        &mut self,
        request: Request,
        patience: Duration,
    ) -> Result<Reply, RpcError<E>> {
        let silence = match self.peer.ask(&request, Instant::now() + patience).await {
            Ok(Reply::Refused(refusal)) => {
                return Err(Unreachable::new(&refusal).into());
            }
            Ok(reply) => return Ok(reply),
            Err(silence) => silence,
        };
        match silence {
            PeerError::Unreached(..) => Err(Unreachable::new(&silence).into()),
            PeerError::Unanswered(..) => Err(openraft::error::NetworkError::new(&silence).into()),
        }
    }

    #[allow(clippy::result_large_err, reason = "the type is Raft's")]
    fn taken<T, E: std::error::Error>(&self, reply: Result<T, RaftError<E>>) -> Result<T, RpcError<E>> {
        reply.map_err(|error| RpcError::RemoteError(RemoteError::new(self.target, error)))
    }
}

fn strange<E: std::error::Error>() -> RpcError<E> {
    Unreachable::new(&io::Error::new(io::ErrorKind::InvalidData, "an answer to another question")).into()
}

impl RaftNetwork<Types> for Line {
    async fn append_entries(
        &mut self,
        request: AppendRequest,
        option: RPCOption,
    ) -> Result<AppendResponse, RpcError> {
        let request = Request::Append { to: self.target, request };
        match self.ask(request, option.hard_ttl()).await? {
            Reply::Append(reply) => self.taken(reply),
            _ => Err(strange()),
        }
    }

    async fn install_snapshot(
        &mut self,
        request: SnapshotRequest,
        option: RPCOption,
    ) -> Result<SnapshotResponse, RpcError<InstallSnapshotError>> {
        let request = Request::Snapshot { to: self.target, request };
        match self.ask(request, option.hard_ttl()).await? {
            Reply::Snapshot(reply) => self.taken(reply),
            _ => Err(strange()),
        }
    }

    async fn vote(&mut self, request: VoteRequest, option: RPCOption) -> Result<VoteResponse, RpcError> {
        let request = Request::Vote { to: self.target, request };
        match self.ask(request, option.hard_ttl()).await? {
            Reply::Vote(reply) => self.taken(reply),
            _ => Err(strange()),
        }
    }
}
