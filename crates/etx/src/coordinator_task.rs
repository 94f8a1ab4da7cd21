//! A work that runs: the steps of the machine, carried out on databases and registers.

use std::collections::BTreeMap;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures_util::stream::FuturesUnordered;
use futures_util::{FutureExt, StreamExt};
use jeton_register::Registers;
use tokio::sync::{Mutex, watch};
use tokio::task::JoinSet;

use crate::backoff::Backoff;
use crate::coordinator::Coordinator;
use crate::decision_log::{DecisionLookup, RegistersFull};
use crate::failure_detector::PeerStatus;
use crate::logic::{Branches, ProcedureCall};
use crate::{
    ANSWER_BYTES_MAX, AttemptId, AttemptNumber, Branch, ClientOutcome, CoordinatorAction, CoordinatorId,
    CoordinatorState, Decision, DecisionLocation, Event, ExecutionResult, Outcome, Participant,
    ProcedureResult, ResourceError, TransactionRequest, Vote, VoteResult, Xid,
};

/// How often somebody who waits for another's decision looks for it.
const LOOK_EVERY: Duration = Duration::from_millis(20);

/// How long a database may take to roll back before it is left to the sweeper.
const UNDO_MAX: Duration = Duration::from_secs(5);

/// Between two tries of a request, to let pass what made the first one fail.
const BETWEEN_TRIES_MIN: Duration = Duration::from_millis(10);
const BETWEEN_TRIES_MAX: Duration = Duration::from_secs(1);

/// A branch that is taken by whoever ends it; votes and ends of it wait for one another.
type Held = Arc<Mutex<Option<Box<dyn Branch>>>>;

/// The branches of our own that have not ended, by try and database.
type Kept = Arc<std::sync::Mutex<BTreeMap<(AttemptNumber, u8), Held>>>;

/// What the steps of one work share.
struct Context<R> {
    server: Arc<Coordinator<R>>,
    question: TransactionRequest,
    executor: CoordinatorId,
    request: ProcedureCall,
    kept: Kept,
}

impl<R> Clone for Context<R> {
    fn clone(&self) -> Self {
        Self {
            server: Arc::clone(&self.server),
            question: self.question,
            executor: self.executor,
            request: self.request.clone(),
            kept: Arc::clone(&self.kept),
        }
    }
}

/// Works on a request until it is answered.
pub(crate) async fn run<R: Registers>(
    server: Arc<Coordinator<R>>,
    question: TransactionRequest,
    executor: CoordinatorId,
    request: ProcedureCall,
    is_first_time: bool,
    tell: watch::Sender<Option<ClientOutcome>>,
) {
    let context = Context { server: Arc::clone(&server), question, executor, request, kept: Kept::default() };
    fault!("taken");
    let (mut work, mut steps) = CoordinatorState::begin(question, executor, is_first_time);
    // One task polls all actions: a task for each would add a thread switch to every action.
    let mut in_flight = FuturesUnordered::new();
    loop {
        let executing = Some(work.attempt()).filter(|attempt| work.is_executing(*attempt));
        server.note(question.request, executing);
        for step in steps {
            match step {
                CoordinatorAction::Answer(ending) => {
                    fault!("answering");
                    if matches!(ending, ClientOutcome::Answer(_) | ClientOutcome::GivenUp) {
                        server.answered().note(question.request);
                    }
                    let _nobody_may_be_waiting = tell.send(Some(ending));
                    fault!("answered");
                }
                step => in_flight.push(AssertUnwindSafe(context.clone().perform(step)).catch_unwind()),
            }
        }
        match in_flight.next().await {
            Some(Ok((attempt, event))) => steps = work.on(attempt, event),
            // The result of an action that panicked is unknown. Recovery resolves its branches, and the client retries.
            Some(Err(_)) => {
                tracing::error!("an action of a transaction panicked");
                steps = Vec::new();
            }
            None => break,
        }
    }
    // From here on whoever asks again looks at what stands.
    server.end(question.request);
}

impl<R: Registers> Context<R> {
    async fn perform(self, step: CoordinatorAction) -> (AttemptNumber, Event) {
        let attempt = step.attempt().unwrap_or(AttemptNumber::FIRST);
        let event = match step {
            CoordinatorAction::Look(attempt) => {
                let event = self.look(attempt).await;
                fault!("looked");
                event
            }
            CoordinatorAction::AskOthers(attempt) => {
                let others = self.server.peers.executing(self.question.request, attempt).await;
                fault!("asked-others");
                Event::Others(others)
            }
            CoordinatorAction::Await(attempt, executor) => self.wait_for(attempt, executor).await,
            CoordinatorAction::Fence(attempt, executor) => {
                self.fence(attempt, executor).await;
                fault!("fenced");
                Event::Fenced
            }
            CoordinatorAction::Compute(own) => self.compute(own).await,
            CoordinatorAction::Vote(own, branch) => self.vote(own, branch).await,
            CoordinatorAction::Propose(attempt, decision) => self.propose(attempt, &decision).await,
            CoordinatorAction::CommitDeciding(own, commit) => {
                self.commit_deciding(own, Decision::Commit(commit)).await
            }
            CoordinatorAction::Undo(own) => self.undo(own).await,
            CoordinatorAction::Commit(attempt, branch) => self.commit(attempt, branch).await,
            CoordinatorAction::Answer(_) => unreachable!("an answer is told, not performed"),
        };
        (attempt, event)
    }

    async fn look(&self, attempt: AttemptNumber) -> Event {
        let TransactionRequest { request, home, .. } = self.question;
        let decisions = &self.server.decisions;
        let known = decisions.look(request, home, attempt).await;
        if attempt == AttemptNumber::FIRST || known != DecisionLookup::Stands(None) {
            return heard(known);
        }
        // The try before has failed, and this one is not begun: what made it fail is given time to pass.
        let doublings = u32::from(attempt.0 - 2).min(10);
        tokio::time::sleep(BETWEEN_TRIES_MAX.min(BETWEEN_TRIES_MIN * 2_u32.pow(doublings))).await;
        heard(decisions.look(request, home, attempt).await)
    }

    async fn wait_for(&self, attempt: AttemptNumber, executor: CoordinatorId) -> Event {
        let TransactionRequest { request, home, .. } = self.question;
        loop {
            let sign = self.server.peers.sign(executor, request, attempt).await;
            // Looked at after the sign: who has just stopped working may have decided.
            match self.server.decisions.look(request, home, attempt).await {
                DecisionLookup::Stands(None) => {}
                known => return heard(known),
            }
            match sign {
                PeerStatus::NotWorking | PeerStatus::Gone | PeerStatus::Suspected => return Event::Suspected,
                PeerStatus::Working | PeerStatus::Silent => {
                    fault!("awaiting");
                    tokio::time::sleep(LOOK_EVERY).await;
                }
            }
        }
    }

    async fn compute(&self, own: AttemptId) -> Event {
        let mut branches = Branches::new(own, Arc::clone(&self.server.resources));
        let computing = self.server.logic.compute(&self.request, &mut branches);
        let computed = tokio::time::timeout(self.server.options.compute_max, computing).await;
        fault!("computed");
        let participants = branches.participants();
        self.keep(own, branches.into_begun());
        let answer = match computed {
            Ok(Ok(answer)) if answer.body().len() > ANSWER_BYTES_MAX => ProcedureResult::Failed(Bytes::from(
                format!("an answer of more than {ANSWER_BYTES_MAX} bytes"),
            )),
            Ok(Ok(answer)) => answer,
            Ok(Err(failure @ ResourceError::Statement { .. })) => {
                ProcedureResult::Failed(cut(failure.to_string()))
            }
            Ok(Err(why)) => {
                tracing::info!(%why, "a try of a transaction failed");
                return Event::Computed(ExecutionResult::Failed);
            }
            Err(_) => {
                tracing::info!(limit = ?self.server.options.compute_max, "a try of a transaction took too long");
                return Event::Computed(ExecutionResult::Failed);
            }
        };
        Event::Computed(ExecutionResult::Done { branches: participants, answer })
    }

    async fn vote(&self, own: AttemptId, participant: Participant) -> Event {
        let Some(held) = self.held(own, participant.resource) else {
            return Event::Voted(participant, VoteResult::No);
        };
        let mut held = held.lock().await;
        fault!("voting-{}", participant.resource);
        let vote = match held.as_mut() {
            Some(branch) => branch.vote().await,
            None => return Event::Voted(participant, VoteResult::No),
        };
        fault!("voted-{}", participant.resource);
        let voice = match vote {
            Vote::Yes => VoteResult::Yes,
            Vote::Unchanged => {
                *held = None;
                VoteResult::Unchanged
            }
            Vote::No(why) => {
                tracing::info!(%why, "a database voted no");
                VoteResult::No
            }
        };
        Event::Voted(participant, voice)
    }

    async fn propose(&self, attempt: AttemptNumber, decision: &Decision) -> Event {
        let TransactionRequest { request, home, .. } = self.question;
        // What is void must not keep others waiting for the row that says so, in the database that the branch is in.
        if let (Decision::Abort, DecisionLocation::Resource(number)) = (decision, home) {
            self.undo_one(attempt, number).await;
        }
        if matches!(decision, Decision::Commit(_)) && self.server.nears_retention_limit(request) {
            return Event::Forgotten;
        }
        fault!("proposing");
        let known = self.server.decisions.propose(request, home, attempt, decision).await;
        fault!("proposed");
        proposed(known)
    }

    async fn commit_deciding(&self, own: AttemptId, decision: Decision) -> Event {
        let DecisionLocation::Resource(number) = own.home else {
            unreachable!("decisions are in the registers")
        };
        if self.server.nears_retention_limit(own.request) {
            return Event::Forgotten;
        }
        let branch = match self.held(own, number) {
            Some(held) => held.lock().await.take(),
            None => None,
        };
        if let Some(branch) = branch {
            fault!("deciding");
            let stands = branch.commit_deciding(&decision.encode()).await;
            fault!("decided");
            match stands.map(|stands| Decision::decode(&stands)) {
                Ok(Ok(stands)) => return Event::Stands(Some(stands)),
                Ok(Err(why)) => tracing::error!(%why, "a decision in a database cannot be read"),
                Err(ResourceError::Forgotten { .. }) => return Event::Forgotten,
                Err(why) => tracing::info!(%why, "a commit with its decision failed"),
            }
        }
        // Whether it was committed is seen by trying to write that it was not.
        proposed(self.server.decisions.propose(own.request, own.home, own.number, &Decision::Abort).await)
    }

    async fn undo(&self, own: AttemptId) -> Event {
        let numbers: Vec<u8> = self
            .lock()
            .keys()
            .filter(|(attempt, _)| *attempt == own.number)
            .map(|(_, number)| *number)
            .collect();
        fault!("undoing");
        let mut undoing = JoinSet::new();
        for number in numbers {
            let context = self.clone();
            undoing.spawn(async move { context.undo_one(own.number, number).await });
        }
        while undoing.join_next().await.is_some() {}
        fault!("undone");
        Event::Undone
    }

    /// Rolls a branch of ours back. If that fails, the branch is left to the sweeper.
    async fn undo_one(&self, attempt: AttemptNumber, number: u8) {
        let held = self.lock().remove(&(attempt, number));
        let Some(held) = held else { return };
        let undone = tokio::time::timeout(UNDO_MAX, async {
            match held.lock().await.take() {
                Some(branch) => branch.decide(Outcome::Abort).await,
                None => Ok(()),
            }
        });
        if let Ok(Err(why)) = undone.await {
            tracing::info!(%why, "a branch is left to be swept");
        }
    }

    async fn commit(&self, attempt: AttemptId, participant: Participant) -> Event {
        // Ours only: if another's work counts, our branch in the same place is being undone.
        let held = if attempt.executor == self.executor {
            self.lock().remove(&(attempt.number, participant.resource))
        } else {
            None
        };
        let own = match held {
            Some(held) => held.lock().await.take(),
            None => None,
        };
        fault!("committing-{}", participant.resource);
        if let Some(branch) = own {
            match branch.decide(Outcome::Commit).await {
                Ok(()) => {
                    fault!("committed-{}", participant.resource);
                    return Event::Committed(participant);
                }
                Err(why) => tracing::info!(%why, "a commit is tried on another connection"),
            }
        }
        let name = Xid {
            cluster: self.server.options.cluster,
            request: attempt.request,
            attempt: attempt.number,
            home: attempt.home,
            executor: attempt.executor,
            resource: participant.resource,
            connection: participant.connection,
        };
        end(&self.server, &name, Outcome::Commit).await;
        fault!("committed-{}", participant.resource);
        Event::Committed(participant)
    }

    /// Ends the sessions of a server that seems dead, in every database that can be reached, so that what it had open is in nobody's way. Where that fails, and
    /// where it lives and begins again, nothing is lost: what it prepares is found by sweeps.
    async fn fence(&self, attempt: AttemptNumber, executor: CoordinatorId) {
        match self.server.sign(executor, self.question.request, attempt).await {
            PeerStatus::Working | PeerStatus::NotWorking => return,
            PeerStatus::Gone | PeerStatus::Silent | PeerStatus::Suspected => {}
        }
        let mut fencing = JoinSet::new();
        for resource in self.server.resources.iter() {
            let resource = Arc::clone(resource);
            fencing.spawn(async move { resource.fence(executor).await });
        }
        while let Some(fenced) = fencing.join_next().await {
            if let Ok(Err(why)) = fenced {
                tracing::warn!(%why, "a server that seems dead cannot be kept from a database");
            }
        }
    }

    fn keep(&self, own: AttemptId, branches: BTreeMap<u8, Box<dyn Branch>>) {
        let held = branches
            .into_iter()
            .map(|(number, branch)| ((own.number, number), Arc::new(Mutex::new(Some(branch)))));
        self.lock().extend(held);
    }

    fn held(&self, own: AttemptId, number: u8) -> Option<Held> {
        self.lock().get(&(own.number, number)).cloned()
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, BTreeMap<(AttemptNumber, u8), Held>> {
        // Nothing panics while it is held.
        self.kept.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }
}

fn heard(known: DecisionLookup) -> Event {
    match known {
        DecisionLookup::Stands(decision) => Event::Stands(decision),
        DecisionLookup::Forgotten => Event::Forgotten,
    }
}

fn proposed(known: Result<DecisionLookup, RegistersFull>) -> Event {
    match known {
        Ok(known) => heard(known),
        Err(why) => {
            tracing::warn!(%why, "a transaction cannot be decided");
            Event::NoRoom
        }
    }
}

/// As much of a text as may be kept: a database may repeat in an error whatever it was given.
fn cut(mut text: String) -> Bytes {
    let end = (0..=ANSWER_BYTES_MAX.min(text.len())).rev().find(|end| text.is_char_boundary(*end));
    text.truncate(end.unwrap_or_default());
    Bytes::from(text)
}

/// Ends a branch, for as long as it takes.
async fn end<R: Registers>(server: &Coordinator<R>, name: &Xid, outcome: Outcome) {
    let mut pause = Backoff::default();
    loop {
        let ended = match server.resource(name.resource) {
            Some(resource) => resource.decide(name, outcome).await.map_err(|why| why.to_string()),
            None => Err(format!("there is no database {} among those of this server", name.resource)),
        };
        match ended {
            Ok(()) => return,
            Err(why) => pause.after("a branch cannot be ended", &why).await,
        }
    }
}
