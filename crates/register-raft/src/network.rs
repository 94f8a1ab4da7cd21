//! The network of openraft: sends its requests to other members.

use std::io;
use std::sync::Arc;

use openraft::error::{InstallSnapshotError, NetworkError, RemoteError, Unreachable};
use openraft::network::{RPCOption, RaftNetwork, RaftNetworkFactory};
use tokio::time::Instant;

use crate::membership_view::LastSeen;
use crate::message::{Request, Response};
use crate::peer::{Peer, PeerError};
use crate::settings::Settings;
use crate::types::{
    AppendRequest, AppendResponse, MemberSlot, RaftError, RpcError, SnapshotRequest, SnapshotResponse, Types,
    VoteRequest, VoteResponse,
};

/// Creates a client for each identity.
pub struct Network {
    pub settings: Arc<Settings>,
    pub last_seen: Arc<LastSeen>,
}

impl RaftNetworkFactory<Types> for Network {
    type Network = RaftClient;

    async fn new_client(&mut self, target: u64, slot: &MemberSlot) -> RaftClient {
        let peer = Peer::new(slot.member, &self.settings, Arc::clone(&self.last_seen));
        RaftClient { target, peer }
    }
}

/// Sends requests to one identity.
pub struct RaftClient {
    target: u64,
    peer: Peer,
}

impl RaftClient {
    /// Sends a request. `select` returns the result from a response of the right kind.
    async fn call<T, E: std::error::Error>(
        &mut self,
        request: Request,
        option: &RPCOption,
        select: impl FnOnce(Response) -> Option<Result<T, RaftError<E>>>,
    ) -> Result<T, RpcError<E>> {
        let response = match self.peer.call(&request, Instant::now() + option.hard_ttl()).await {
            Ok(Response::Refused(refusal)) => return Err(Unreachable::new(&refusal).into()),
            Ok(response) => response,
            Err(error @ PeerError::Unreachable(..)) => return Err(Unreachable::new(&error).into()),
            Err(error @ PeerError::NoResponse(..)) => return Err(NetworkError::new(&error).into()),
        };
        let other = || io::Error::new(io::ErrorKind::InvalidData, "a response to another request");
        let result = select(response).ok_or_else(|| Unreachable::new(&other()))?;
        result.map_err(|error| RpcError::RemoteError(RemoteError::new(self.target, error)))
    }
}

impl RaftNetwork<Types> for RaftClient {
    async fn append_entries(
        &mut self,
        request: AppendRequest,
        option: RPCOption,
    ) -> Result<AppendResponse, RpcError> {
        let request = Request::Append { to: self.target, request };
        let select = |response| if let Response::Append(result) = response { Some(result) } else { None };
        self.call(request, &option, select).await
    }

    async fn install_snapshot(
        &mut self,
        request: SnapshotRequest,
        option: RPCOption,
    ) -> Result<SnapshotResponse, RpcError<InstallSnapshotError>> {
        let request = Request::Snapshot { to: self.target, request };
        let select = |response| if let Response::Snapshot(result) = response { Some(result) } else { None };
        self.call(request, &option, select).await
    }

    async fn vote(&mut self, request: VoteRequest, option: RPCOption) -> Result<VoteResponse, RpcError> {
        let request = Request::Vote { to: self.target, request };
        let select = |response| if let Response::Vote(result) = response { Some(result) } else { None };
        self.call(request, &option, select).await
    }
}
