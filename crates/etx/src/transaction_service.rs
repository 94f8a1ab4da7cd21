//! The interface of a coordinator for clients, other servers and operators.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use jeton_register::Registers;

use crate::coordinator::{Coordinator, SubmitError};
use crate::decision_log::DecisionLookup;
use crate::failure_detector::PeerStatus;
use crate::logic::ProcedureCall;
use crate::{
    AttemptNumber, ClientOutcome, CoordinatorId, Decision, DecisionLocation, Outcome, PreparedBranch,
    RequestId, Resource, Xid,
};

/// Timeout of queries to one database or register, and of the status of a request.
const QUERY_TIMEOUT: Duration = Duration::from_secs(10);

/// Timeout of the resolution of one branch.
const RESOLVE_TIMEOUT: Duration = Duration::from_secs(30);

/// A coordinator, for any kind of registers.
#[async_trait]
pub trait TransactionService: Send + Sync {
    /// The number of this server, and its incarnation.
    fn identity(&self) -> (u16, u64);

    /// See [`Coordinator::issue`].
    async fn issue(
        &self,
        id: RequestId,
        request: ProcedureCall,
        is_first_time: bool,
    ) -> Result<ClientOutcome, SubmitError>;

    /// See [`Coordinator::acknowledge`].
    async fn acknowledge(&self, session: u128, through: u32) -> Result<(), String>;

    /// See [`Coordinator::executing`].
    fn executing(&self, request: RequestId, attempt: AttemptNumber) -> Option<CoordinatorId>;

    /// The recorded decisions of a request.
    async fn status(&self, request: RequestId) -> Result<TransactionStatus, String>;

    /// All prepared branches with their status, and the databases that are unreachable.
    async fn in_doubt(&self) -> InDoubt;

    /// Resolves the prepared branches of a request. For an attempt without a decision it first records an
    /// abort, even if a coordinator is executing it; then it carries out the recorded decision. So the
    /// databases stay consistent, and the worst effect is an aborted attempt.
    async fn resolve(&self, request: RequestId) -> Resolution;
}

/// The recorded decisions of a request.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct TransactionStatus {
    /// The attempts with a decision, in order.
    pub attempts: Vec<(DecisionLocation, AttemptNumber, Decision)>,
    /// The coordinator on this server that executes the next attempt.
    pub coordinator: Option<CoordinatorId>,
    /// Whether the request is too old for its decisions to be known.
    pub is_forgotten: bool,
}

/// The prepared branches of all databases.
#[derive(Debug, Clone, Default)]
pub struct InDoubt {
    /// The prepared branches.
    pub branches: Vec<InDoubtBranch>,
    /// Unreachable databases, each with its error.
    pub unreachable: Vec<(String, String)>,
}

/// A prepared branch with its status.
#[derive(Debug, Clone)]
pub struct InDoubtBranch {
    /// The name of the database.
    pub database: String,
    /// The branch name.
    pub branch: Xid,
    /// Time since the prepare, if the database reports it.
    pub age: Option<Duration>,
    /// The recorded decision of its attempt; an error if it cannot be read.
    pub decision: Result<DecisionLookup, String>,
    pub coordinator_status: PeerStatus,
    /// Its locks, as far as the database reports them.
    pub locks: Vec<String>,
}

/// The result of a resolution.
#[derive(Debug, Clone, Default)]
pub struct Resolution {
    /// The branches that were prepared.
    pub branches: Vec<ResolvedBranch>,
    /// Unreachable databases, each with its error: they may have more prepared branches.
    pub unreachable: Vec<(String, String)>,
}

/// The result of the resolution of one branch.
#[derive(Debug, Clone)]
pub struct ResolvedBranch {
    /// The name of the database.
    pub database: String,
    /// The branch name.
    pub branch: Xid,
    /// The outcome, or the error.
    pub outcome: Result<Outcome, String>,
}

#[async_trait]
impl<R: Registers> TransactionService for Arc<Coordinator<R>> {
    fn identity(&self) -> (u16, u64) {
        (self.options.server, self.options.incarnation)
    }

    async fn issue(
        &self,
        id: RequestId,
        request: ProcedureCall,
        is_first_time: bool,
    ) -> Result<ClientOutcome, SubmitError> {
        Coordinator::issue(self, id, request, is_first_time).await
    }

    async fn acknowledge(&self, session: u128, through: u32) -> Result<(), String> {
        Coordinator::acknowledge(self, session, through).await
    }

    fn executing(&self, request: RequestId, attempt: AttemptNumber) -> Option<CoordinatorId> {
        Coordinator::executing(self, request, attempt)
    }

    async fn status(&self, request: RequestId) -> Result<TransactionStatus, String> {
        let query = async {
            let mut status = TransactionStatus::default();
            for decision_location in self.decision_locations() {
                let mut next = Some(AttemptNumber::FIRST);
                while let Some(attempt) = next {
                    status.coordinator =
                        status.coordinator.or_else(|| Coordinator::executing(self, request, attempt));
                    next = match self.decisions.read_once(request, decision_location, attempt).await? {
                        DecisionLookup::Recorded(None) => None,
                        DecisionLookup::Forgotten => {
                            status.is_forgotten = true;
                            None
                        }
                        DecisionLookup::Recorded(Some(decision)) => {
                            let is_aborted = decision == Decision::Abort;
                            status.attempts.push((decision_location, attempt, decision));
                            attempt.next().filter(|_| is_aborted)
                        }
                    };
                }
            }
            Ok::<_, String>(status)
        };
        in_time(query).await
    }

    async fn in_doubt(&self) -> InDoubt {
        let mut found = InDoubt::default();
        for resource in self.resources.iter() {
            let name = resource.name().to_owned();
            match in_time(resource.prepared()).await {
                Ok(prepared) => {
                    for listed in prepared {
                        found.branches.extend(self.in_doubt_branch(&**resource, listed).await);
                    }
                }
                Err(why) => found.unreachable.push((name, why)),
            }
        }
        found
    }

    async fn resolve(&self, request: RequestId) -> Resolution {
        let InDoubt { branches, unreachable } = self.in_doubt().await;
        let mut resolution = Resolution { branches: Vec::new(), unreachable };
        for in_doubt_branch in branches {
            if in_doubt_branch.branch.request != request {
                continue;
            }
            let InDoubtBranch { database, branch, .. } = in_doubt_branch;
            let outcome = match tokio::time::timeout(RESOLVE_TIMEOUT, self.force_resolve(branch)).await {
                Ok(Ok(Some(outcome))) => Ok(outcome),
                Ok(Ok(None)) => Err("it had ended already".to_owned()),
                Ok(Err(why)) => Err(why.to_string()),
                Err(_) => Err(format!("not resolved within {RESOLVE_TIMEOUT:?}; recovery continues")),
            };
            resolution.branches.push(ResolvedBranch { database, branch, outcome });
        }
        resolution
    }
}

/// Runs a query of a database or register with a timeout.
async fn in_time<T, E: ToString>(query: impl Future<Output = Result<T, E>>) -> Result<T, String> {
    match tokio::time::timeout(QUERY_TIMEOUT, query).await {
        Ok(result) => result.map_err(|why| why.to_string()),
        Err(_) => Err(format!("no response within {QUERY_TIMEOUT:?}")),
    }
}

impl<R: Registers> Coordinator<R> {
    /// All decision locations: the registers, and each database that can record decisions.
    fn decision_locations(&self) -> impl Iterator<Item = DecisionLocation> {
        let databases = self.resources.iter().zip(0_u8..).filter(|(resource, _)| resource.keeps_decisions());
        std::iter::once(DecisionLocation::Registers)
            .chain(databases.map(|(_, number)| DecisionLocation::Resource(number)))
    }

    /// The status of a prepared branch; `None` if it belongs to another cluster.
    async fn in_doubt_branch(
        &self,
        resource: &dyn Resource,
        listed: PreparedBranch,
    ) -> Option<InDoubtBranch> {
        let PreparedBranch { name: branch, age } = listed;
        if branch.cluster != self.options.cluster || branch.coordinator == CoordinatorId::TRIAL {
            return None;
        }
        let read = self.decisions.read_once(branch.request, branch.decision_location, branch.attempt);
        let decision = in_time(read).await;
        let coordinator_status = self.peer_status(branch.coordinator, branch.request, branch.attempt).await;
        // An error here only leaves the list of locks empty.
        let locks = in_time(resource.locks(&branch)).await.unwrap_or_default();
        Some(InDoubtBranch {
            database: resource.name().to_owned(),
            branch,
            age,
            decision,
            coordinator_status,
            locks,
        })
    }
}
