//! The recovery task: resolves the prepared branches of all coordinators periodically.

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
    /// Runs recovery on all databases periodically, until shutdown.
    pub async fn run_recovery(self: Arc<Self>) {
        let mut tasks = JoinSet::new();
        for resource in self.resources.iter() {
            let (server, resource) = (Arc::clone(&self), Arc::clone(resource));
            tasks.spawn(async move {
                loop {
                    tokio::time::sleep(server.options.recovery_interval).await;
                    let (server, resource) = (Arc::clone(&server), Arc::clone(&resource));
                    // A task of its own, so that a panic does not end recovery.
                    match tokio::spawn(async move { server.recover(&*resource).await }).await {
                        Ok(Ok(_)) => {}
                        Ok(Err(why)) => {
                            tracing::info!(%why, "the prepared branches of a database cannot be listed")
                        }
                        Err(panic) => tracing::error!(%panic, "a recovery run panicked"),
                    }
                }
            });
        }
        while tasks.join_next().await.is_some() {}
    }

    /// Recovers the prepared branches of a database one after the other. Returns the number of branches
    /// without a running coordinator.
    pub async fn recover(&self, resource: &dyn Resource) -> Result<usize, ResourceError> {
        let mut resolved = 0;
        let prepared = resource.prepared().await?;
        if !prepared.is_empty() {
            fault!("recovery-listed");
        }
        for listed in prepared {
            let name = &listed.name;
            if name.cluster == self.options.cluster && name.coordinator != CoordinatorId::TRIAL {
                match self.recover_branch(listed.name, false).await {
                    Ok(outcome) => resolved += usize::from(outcome.is_some()),
                    // The next run finds it again if it is still prepared.
                    Err(why @ ResourceError::Damage { .. }) => {
                        tracing::error!(%why, "a branch ended against its decision")
                    }
                    Err(why) => tracing::info!(%why, "a branch is not resolved yet"),
                }
            }
        }
        Ok(resolved)
    }

    /// Resolves a branch as if its coordinator were dead, and returns its outcome.
    pub(crate) async fn force_resolve(&self, branch: Xid) -> Result<Option<Outcome>, ResourceError> {
        self.recover_branch(branch, true).await
    }

    /// Recovers a branch. Returns its outcome if it was resolved.
    async fn recover_branch(&self, branch: Xid, is_given_up: bool) -> Result<Option<Outcome>, ResourceError> {
        let (mut recovery, first) = BranchRecovery::begin(branch);
        let mut next = Some(first);
        let mut reached = None;
        while let Some(action) = next {
            let event = match action {
                // Read once: the next run reads again, and other branches must not wait for an unreachable
                // store.
                RecoveryAction::ReadDecision(attempt) => {
                    let lookup =
                        self.decisions.read_once(branch.request, branch.decision_location, attempt).await;
                    recorded_event(lookup.map_err(|why| self.undecided(&branch, why))?)
                }
                RecoveryAction::CheckPrepared(name) => {
                    let prepared = self.resource_of(&name)?.prepared().await?;
                    RecoveryEvent::Listed { is_prepared: prepared.iter().any(|listed| listed.name == name) }
                }
                RecoveryAction::CheckCoordinator(coordinator, attempt) => {
                    let is_working = !is_given_up && self.is_executing(coordinator, &branch, attempt).await;
                    fault!("recovery-asked");
                    RecoveryEvent::Coordinator { is_working }
                }
                RecoveryAction::ProposeAbort(attempt) => {
                    let (request, decision_location) = (branch.request, branch.decision_location);
                    let lookup = self
                        .decisions
                        .propose_once(request, decision_location, attempt, &Decision::Abort)
                        .await;
                    fault!("recovery-proposed");
                    recorded_event(lookup.map_err(|why| self.undecided(&branch, why))?)
                }
                RecoveryAction::End(name, outcome) => {
                    fault!("recovery-ending");
                    self.resource_of(&name)?.decide(&name, outcome).await?;
                    fault!("recovery-ended");
                    reached = Some(outcome);
                    RecoveryEvent::Ended
                }
            };
            next = recovery.on(event);
        }
        Ok(reached)
    }

    fn undecided(&self, branch: &Xid, why: String) -> ResourceError {
        let resource = self.resource(branch.resource).map(|resource| resource.name().to_owned());
        ResourceError::Transient { resource: resource.unwrap_or_default(), why }
    }

    fn resource_of(&self, branch: &Xid) -> Result<&Arc<dyn Resource>, ResourceError> {
        self.resource(branch.resource).ok_or_else(|| ResourceError::Setup {
            resource: format!("database {}", branch.resource),
            why: "it is not declared on this server".to_owned(),
            remedy: "declare the database again".to_owned(),
        })
    }

    async fn is_executing(&self, coordinator: CoordinatorId, branch: &Xid, attempt: AttemptNumber) -> bool {
        match self.peer_status(coordinator, branch.request, attempt).await {
            PeerStatus::Working | PeerStatus::Unreachable => true,
            PeerStatus::NotWorking | PeerStatus::Restarted | PeerStatus::Suspected => false,
        }
    }
}

fn recorded_event(lookup: DecisionLookup) -> RecoveryEvent {
    match lookup {
        DecisionLookup::Recorded(decision) => RecoveryEvent::Recorded(decision),
        DecisionLookup::Forgotten => RecoveryEvent::Forgotten,
    }
}
