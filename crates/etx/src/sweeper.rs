//! The sweeps of a server: every prepared branch is looked into, again and again, whoever made it.

use std::sync::Arc;

use jeton_register::Registers;
use tokio::task::JoinSet;

use crate::decisions::Known;
use crate::peers::Sign;
use crate::server::Server;
use crate::{BranchName, Decision, Executor, Failure, Found, Outcome, Resource, Sweep, Sweeping, Try};

impl<R: Registers> Server<R> {
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
    pub async fn sweep(&self, resource: &dyn Resource) -> Result<usize, Failure> {
        let mut ended = 0;
        let prepared = resource.prepared().await?;
        if !prepared.is_empty() {
            fault!("sweep-listed");
        }
        for standing in prepared {
            let name = &standing.name;
            if name.cluster == self.options.cluster && name.executor != Executor::TRIAL {
                match self.look_into(standing.name, false).await {
                    Ok(outcome) => ended += usize::from(outcome.is_some()),
                    // The next sweep finds it again, if it is still there.
                    Err(why @ Failure::Damage { .. }) => tracing::error!(%why, "a branch is damaged"),
                    Err(why) => tracing::info!(%why, "a branch is not ended yet"),
                }
            }
        }
        Ok(ended)
    }

    /// Ends a branch as if its executor were dead; how it ended.
    pub(crate) async fn end_against_all_signs(&self, branch: BranchName) -> Result<Option<Outcome>, Failure> {
        self.look_into(branch, true).await
    }

    /// Looks into a branch. How it was ended, if it was.
    async fn look_into(&self, branch: BranchName, is_given_up: bool) -> Result<Option<Outcome>, Failure> {
        let (mut sweep, first) = Sweep::begin(branch);
        let mut next = Some(first);
        let mut ended = None;
        while let Some(step) = next {
            let found = match step {
                // Once: the next sweep asks again, and other branches are not to wait for a place that does not answer.
                Sweeping::Look(attempt) => {
                    let known = self.decisions.look_once(branch.request, branch.home, attempt).await;
                    heard(known.map_err(|why| self.undecided(&branch, why))?)
                }
                Sweeping::ListAgain(name) => {
                    let prepared = self.resource_of(&name)?.prepared().await?;
                    Found::Listed { is_prepared: prepared.iter().any(|standing| standing.name == name) }
                }
                Sweeping::AskFor(executor, attempt) => {
                    let is_working = !is_given_up && self.is_at_work(executor, &branch, attempt).await;
                    fault!("sweep-asked");
                    Found::Executor { is_working }
                }
                Sweeping::ProposeAbort(attempt) => {
                    let (request, home) = (branch.request, branch.home);
                    let known = self.decisions.propose_once(request, home, attempt, &Decision::Abort).await;
                    fault!("sweep-proposed");
                    heard(known.map_err(|why| self.undecided(&branch, why))?)
                }
                Sweeping::End(name, outcome) => {
                    fault!("sweep-ending");
                    self.resource_of(&name)?.decide(&name, outcome).await?;
                    fault!("sweep-ended");
                    ended = Some(outcome);
                    Found::Ended
                }
            };
            next = sweep.on(found);
        }
        Ok(ended)
    }

    fn undecided(&self, branch: &BranchName, why: String) -> Failure {
        let resource = self.resource(branch.resource).map(|resource| resource.name().to_owned());
        Failure::Passing { resource: resource.unwrap_or_default(), why }
    }

    fn resource_of(&self, branch: &BranchName) -> Result<&Arc<dyn Resource>, Failure> {
        self.resource(branch.resource).ok_or_else(|| Failure::Setup {
            resource: format!("database {}", branch.resource),
            why: "it is not among those of this server".to_owned(),
            remedy: "declare it again".to_owned(),
        })
    }

    async fn is_at_work(&self, executor: Executor, branch: &BranchName, attempt: Try) -> bool {
        match self.sign(executor, branch.request, attempt).await {
            Sign::Working | Sign::Silent => true,
            Sign::NotWorking | Sign::Gone | Sign::Suspected => false,
        }
    }
}

fn heard(known: Known) -> Found {
    match known {
        Known::Stands(decision) => Found::Stands(decision),
        Known::Forgotten => Found::Forgotten,
    }
}
