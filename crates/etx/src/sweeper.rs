//! The sweeps of a server: every prepared branch is looked into, again and again, whoever made it.

use std::sync::Arc;

use jeton_register::Registers;
use tokio::task::JoinSet;

use crate::decisions::Known;
use crate::peers::Sign;
use crate::running::{end, fence};
use crate::server::Server;
use crate::{BranchName, Decision, Executor, Failure, Found, Resource, Sweep, Sweeping, Try};

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
        for standing in resource.prepared().await? {
            let name = &standing.name;
            if name.cluster == self.options.cluster && name.executor != Executor::TRIAL {
                ended += usize::from(self.look_into(standing.name).await);
            }
        }
        Ok(ended)
    }

    /// Looks into a branch. Whether it was ended.
    async fn look_into(&self, branch: BranchName) -> bool {
        let (mut sweep, first) = Sweep::begin(branch);
        let mut next = Some(first);
        let mut was_ended = false;
        while let Some(step) = next {
            let found = match step {
                Sweeping::Look(attempt) => {
                    heard(self.decisions.look(branch.request, branch.home, attempt).await)
                }
                Sweeping::AskFor(executor, attempt) => {
                    Found::Executor { is_working: self.is_at_work(executor, &branch, attempt).await }
                }
                Sweeping::Fence(executor) => {
                    fence(self, executor).await;
                    Found::Fenced
                }
                Sweeping::ProposeAbort(attempt) => {
                    let (request, home) = (branch.request, branch.home);
                    heard(self.decisions.propose(request, home, attempt, &Decision::Abort).await)
                }
                Sweeping::End(name, outcome) => {
                    end(self, &name, outcome).await;
                    was_ended = true;
                    Found::Ended
                }
            };
            next = sweep.on(found);
        }
        was_ended
    }

    async fn is_at_work(&self, executor: Executor, branch: &BranchName, attempt: Try) -> bool {
        if executor.server == self.options.server {
            return executor.incarnation == self.options.incarnation
                && self.is_working(executor, branch.request, attempt);
        }
        match self.peers.sign(executor, branch.request, attempt).await {
            Sign::Working | Sign::Silent => true,
            Sign::NotWorking | Sign::Suspected => false,
        }
    }
}

fn heard(known: Known) -> Found {
    match known {
        Known::Stands(decision) => Found::Stands(decision),
        Known::Forgotten => Found::Forgotten,
    }
}
