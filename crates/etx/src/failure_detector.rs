//! The failure detector: which coordinators of other servers are executing, and which are suspected.

use async_trait::async_trait;

use crate::{AttemptNumber, CoordinatorId, RequestId};

/// The status of a coordinator on another server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PeerStatus {
    /// Its server reports that it is executing the attempt.
    Working,
    /// Its server reports that it is not executing the attempt: it has finished, or has left its branches to
    /// recovery.
    NotWorking,
    /// Its server reports another incarnation: the coordinator is dead.
    Restarted,
    /// Its server does not respond, but not long enough to be suspected.
    Unreachable,
    /// Its server has not responded for the failure timeout. The suspicion may be wrong, which costs time
    /// only.
    Suspected,
}

/// Access to the other servers.
#[async_trait]
pub trait Peers: Send + Sync {
    /// The coordinator on another server that executes an attempt, among the servers that respond in time.
    async fn executing(&self, request: RequestId, attempt: AttemptNumber) -> Option<CoordinatorId>;

    /// The status of a coordinator.
    async fn status(
        &self,
        coordinator: CoordinatorId,
        request: RequestId,
        attempt: AttemptNumber,
    ) -> PeerStatus;
}

/// A single server without peers. Coordinators of other servers are dead.
#[derive(Debug, Clone, Copy)]
pub struct NoPeers;

#[async_trait]
impl Peers for NoPeers {
    async fn executing(&self, _: RequestId, _: AttemptNumber) -> Option<CoordinatorId> {
        None
    }

    async fn status(&self, _: CoordinatorId, _: RequestId, _: AttemptNumber) -> PeerStatus {
        PeerStatus::Restarted
    }
}
