//! The other servers, as far as a server must know of them: who works on what, and who seems dead.

use async_trait::async_trait;

use crate::{AttemptNumber, CoordinatorId, RequestId};

/// How another server is doing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PeerStatus {
    /// It says that this executor works on the try.
    Working,
    /// It says that it does not. It lives, and has ended what it had of the try, or left it to sweeps.
    NotWorking,
    /// It says that it has another incarnation by now: the executor is no more.
    Gone,
    /// It says nothing, but not for so long that it is taken for dead.
    Silent,
    /// It has said nothing for so long that it is taken for dead. That may be wrong, which costs time and nothing else.
    Suspected,
}

/// How to reach the other servers.
#[async_trait]
pub trait Peers: Send + Sync {
    /// Who of the others works on a try, as far as they answer within a moment.
    async fn executing(&self, request: RequestId, attempt: AttemptNumber) -> Option<CoordinatorId>;

    /// How the server of an executor is doing.
    async fn sign(&self, executor: CoordinatorId, request: RequestId, attempt: AttemptNumber) -> PeerStatus;
}

/// No others: a server that is alone. Executors of other servers are those of machines that are no more.
#[derive(Debug, Clone, Copy)]
pub struct NoPeers;

#[async_trait]
impl Peers for NoPeers {
    async fn executing(&self, _: RequestId, _: AttemptNumber) -> Option<CoordinatorId> {
        None
    }

    async fn sign(&self, _: CoordinatorId, _: RequestId, _: AttemptNumber) -> PeerStatus {
        PeerStatus::Gone
    }
}
