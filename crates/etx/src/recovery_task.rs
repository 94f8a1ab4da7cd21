//! The sweeps of a server: every prepared branch is looked into, again and again, whoever made it.

use std::sync::Arc;

use jeton_register::Registers;
use tokio::task::JoinSet;

use crate::coordinator::Coordinator;
use crate::decision_log::DecisionLookup;
use crate::failure_detector::PeerStatus;
use crate::{
    AttemptNumber, BranchRecovery, CoordinatorId, Decision, Outcome, RecoveryAction, RecoveryEvent, Resource,
    ResourceError, Xid,
};

impl<R: Registers> Coordinator<R> {
    /// Sweeps all databases from time to time, for ever.
    pub async fn sweep_for_ever(self: Arc<Self>) {
        let mut sweepers = JoinSet::new();
        for resource in self.resources.iter() {
            let (server, resource) = (Arc::clone(&self), Arc::clone(resource));
            sweepers.spawn(async move {
                loop {
                    tokio::time::sleep(server.options.sweep_every).await;
                    let (server, resource) = (Arc::clone(&server), Arc::clone(&resource));
                    // A task of its own: whatever becomes of one sweep, the next one comes.
                    match tokio::spawn(async move { server.sweep(&*resource).await }).await {
                        Ok(Ok(_)) => {}
                        Ok(Err(why)) => tracing::info!(%why, "a database cannot be swept"),
                        Err(broke) => tracing::error!(%broke, "a sweep broke off"),
                    }
                }
            });
        }
        while sweepers.join_next().await.is_some() {}
    }

    /// Looks into every prepared branch of a database, one after the other. How many there were, and were not in good hands.
    pub async fn sweep(&self, resource: &dyn Resource) -> Result<usize, ResourceError> {
        let mut ended = 0;
        let prepared = resource.prepared().await?;
        if !prepared.is_empty() {
            fault!("sweep-listed");
        }
        for standing in prepared {
            let name = &standing.name;
            if name.cluster == self.options.cluster && name.executor != CoordinatorId::TRIAL {
                match self.recover_branch(standing.name, false).await {
                    Ok(outcome) => ended += usize::from(outcome.is_some()),
                    // The next sweep finds it again, if it is still there.
                    Err(why @ ResourceError::Damage { .. }) => tracing::error!(%why, "a branch is damaged"),
                    Err(why) => tracing::info!(%why, "a branch is not ended yet"),
                }
            }
        }
        Ok(ended)
    }

    /// Ends a branch as if its executor were dead; how it ended.
    pub(crate) async fn force_resolve(&self, branch: Xid) -> Result<Option<Outcome>, ResourceError> {
        self.recover_branch(branch, true).await
    }

    /// Looks into a branch. How it was ended, if it was.
    async fn recover_branch(&self, branch: Xid, is_given_up: bool) -> Result<Option<Outcome>, ResourceError> {
        let (mut sweep, first) = BranchRecovery::begin(branch);
        let mut next = Some(first);
        let mut ended = None;
        while let Some(step) = next {
            let found = match step {
                // Once: the next sweep asks again, and other branches are not to wait for a place that does not answer.
                RecoveryAction::Look(attempt) => {
                    let known = self.decisions.look_once(branch.request, branch.home, attempt).await;
                    heard(known.map_err(|why| self.undecided(&branch, why))?)
                }
                RecoveryAction::ListAgain(name) => {
                    let prepared = self.resource_of(&name)?.prepared().await?;
                    RecoveryEvent::Listed {
                        is_prepared: prepared.iter().any(|standing| standing.name == name),
                    }
                }
                RecoveryAction::AskFor(executor, attempt) => {
                    let is_working = !is_given_up && self.is_at_work(executor, &branch, attempt).await;
                    fault!("sweep-asked");
                    RecoveryEvent::Executor { is_working }
                }
                RecoveryAction::ProposeAbort(attempt) => {
                    let (request, home) = (branch.request, branch.home);
                    let known = self.decisions.propose_once(request, home, attempt, &Decision::Abort).await;
                    fault!("sweep-proposed");
                    heard(known.map_err(|why| self.undecided(&branch, why))?)
                }
                RecoveryAction::End(name, outcome) => {
                    fault!("sweep-ending");
                    self.resource_of(&name)?.decide(&name, outcome).await?;
                    fault!("sweep-ended");
                    ended = Some(outcome);
                    RecoveryEvent::Ended
                }
            };
            next = sweep.on(found);
        }
        Ok(ended)
    }

    fn undecided(&self, branch: &Xid, why: String) -> ResourceError {
        let resource = self.resource(branch.resource).map(|resource| resource.name().to_owned());
        ResourceError::Passing { resource: resource.unwrap_or_default(), why }
    }

    fn resource_of(&self, branch: &Xid) -> Result<&Arc<dyn Resource>, ResourceError> {
        self.resource(branch.resource).ok_or_else(|| ResourceError::Setup {
            resource: format!("database {}", branch.resource),
            why: "it is not among those of this server".to_owned(),
            remedy: "declare it again".to_owned(),
        })
    }

    async fn is_at_work(&self, executor: CoordinatorId, branch: &Xid, attempt: AttemptNumber) -> bool {
        match self.sign(executor, branch.request, attempt).await {
            PeerStatus::Working | PeerStatus::Silent => true,
            PeerStatus::NotWorking | PeerStatus::Gone | PeerStatus::Suspected => false,
        }
    }
}

fn heard(known: DecisionLookup) -> RecoveryEvent {
    match known {
        DecisionLookup::Stands(decision) => RecoveryEvent::Stands(decision),
        DecisionLookup::Forgotten => RecoveryEvent::Forgotten,
    }
}
