//! A server as those see it who ask it: clients, other servers, and humans who want to know what is stuck.

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

/// How long a look into all databases may take.
const LOOK_MAX: Duration = Duration::from_secs(10);

/// How long a human waits for the end of a branch.
const RESOLVE_MAX: Duration = Duration::from_secs(30);

/// A server of e-Transactions, whatever its registers are.
#[async_trait]
pub trait TransactionService: Send + Sync {
    /// Which server this is, and which life of it.
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

    /// What stands about a request.
    async fn status(&self, request: RequestId) -> Result<TransactionStatus, String>;

    /// All branches that are prepared, with what is known about each; and which databases could not be asked.
    async fn in_doubt(&self) -> InDoubt;

    /// Ends a request that is stuck. If nothing stands about a try that has prepared branches, it is written first that it is void, whoever works on it; then what
    /// stands is carried out. So nobody can make databases differ with it, and the worst it does is to cost a try.
    async fn resolve(&self, request: RequestId) -> Vec<ResolvedBranch>;
}

/// What stands about a request.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct TransactionStatus {
    /// The tries about which something stands, in order.
    pub tries: Vec<(DecisionLocation, AttemptNumber, Decision)>,
    /// Who works here on the next try.
    pub at_work: Option<CoordinatorId>,
    /// Whether it is too old for anything to be known.
    pub is_forgotten: bool,
}

/// What is prepared.
#[derive(Debug, Clone, Default)]
pub struct InDoubt {
    /// The branches.
    pub branches: Vec<InDoubtBranch>,
    /// Databases that could not be asked, and why.
    pub silent: Vec<(String, String)>,
}

/// A prepared branch.
#[derive(Debug, Clone)]
pub struct InDoubtBranch {
    /// The database.
    pub database: String,
    /// The branch.
    pub branch: Xid,
    /// How long it has been prepared, if the database knows.
    pub age: Option<Duration>,
    /// What stands about its try; an error if that cannot be told.
    pub stands: Result<DecisionLookup, String>,
    /// How its executor is doing.
    pub executor: PeerStatus,
    /// What it keeps others from, as far as the database tells.
    pub locks: Vec<String>,
}

/// What became of a branch of a request that was stuck.
#[derive(Debug, Clone)]
pub struct ResolvedBranch {
    /// The database.
    pub database: String,
    /// The branch.
    pub branch: Xid,
    /// How it ended, or why it did not.
    pub ended: Result<Outcome, String>,
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
        let looking = async {
            let mut story = TransactionStatus::default();
            for home in self.homes() {
                let mut next = Some(AttemptNumber::FIRST);
                while let Some(attempt) = next {
                    story.at_work = story.at_work.or_else(|| Coordinator::executing(self, request, attempt));
                    next = match self.decisions.look_once(request, home, attempt).await? {
                        DecisionLookup::Stands(None) => None,
                        DecisionLookup::Forgotten => {
                            story.is_forgotten = true;
                            None
                        }
                        DecisionLookup::Stands(Some(decision)) => {
                            let is_void = decision == Decision::Abort;
                            story.tries.push((home, attempt, decision));
                            attempt.next().filter(|_| is_void)
                        }
                    };
                }
            }
            Ok(story)
        };
        tokio::time::timeout(LOOK_MAX, looking).await.unwrap_or_else(|_| {
            Err(format!("there was no answer from registers and databases within {LOOK_MAX:?}"))
        })
    }

    async fn in_doubt(&self) -> InDoubt {
        let mut found = InDoubt::default();
        for resource in self.resources.iter() {
            let name = resource.name().to_owned();
            match tokio::time::timeout(LOOK_MAX, resource.prepared()).await {
                Ok(Ok(prepared)) => {
                    for standing in prepared {
                        if let Some(doubt) = self.doubt(&**resource, standing).await {
                            found.branches.push(doubt);
                        }
                    }
                }
                Ok(Err(why)) => found.silent.push((name, why.to_string())),
                Err(_) => found.silent.push((name, format!("no answer within {LOOK_MAX:?}"))),
            }
        }
        found
    }

    async fn resolve(&self, request: RequestId) -> Vec<ResolvedBranch> {
        let mut resolved = Vec::new();
        for doubt in self.in_doubt().await.branches {
            if doubt.branch.request != request {
                continue;
            }
            let ending = tokio::time::timeout(RESOLVE_MAX, self.force_resolve(doubt.branch)).await;
            let ended = match ending {
                Ok(ended) => ended.map_err(|why| why.to_string()),
                Err(_) => Err(format!("it did not end within {RESOLVE_MAX:?}; sweeps go on with it")),
            };
            let ended = ended.and_then(|ended| ended.ok_or_else(|| "it had ended before".to_owned()));
            resolved.push(ResolvedBranch { database: doubt.database, branch: doubt.branch, ended });
        }
        resolved
    }
}

impl<R: Registers> Coordinator<R> {
    /// Where decisions may be: in the registers, and in each database that keeps some.
    fn homes(&self) -> impl Iterator<Item = DecisionLocation> {
        let databases = self.resources.iter().zip(0_u8..).filter(|(resource, _)| resource.keeps_decisions());
        std::iter::once(DecisionLocation::Registers)
            .chain(databases.map(|(_, number)| DecisionLocation::Resource(number)))
    }

    /// What is known about a prepared branch; nothing if it is none of ours.
    async fn doubt(&self, resource: &dyn Resource, standing: PreparedBranch) -> Option<InDoubtBranch> {
        let PreparedBranch { name: branch, age } = standing;
        if branch.cluster != self.options.cluster || branch.executor == CoordinatorId::TRIAL {
            return None;
        }
        let look = self.decisions.look_once(branch.request, branch.home, branch.attempt);
        let stands = match tokio::time::timeout(LOOK_MAX, look).await {
            Ok(stands) => stands,
            Err(_) => Err(format!("no answer within {LOOK_MAX:?}")),
        };
        let executor = self.sign(branch.executor, branch.request, branch.attempt).await;
        // That it cannot be told what it locks is not worth an error.
        let locks = tokio::time::timeout(LOOK_MAX, resource.locks(&branch)).await;
        let locks = locks.ok().and_then(Result::ok).unwrap_or_default();
        Some(InDoubtBranch { database: resource.name().to_owned(), branch, age, stands, executor, locks })
    }
}
