//! The task of one request: carries out the actions of the state machine on databases and registers.

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
use tokio::time::Instant;

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

/// Interval at which a coordinator polls for the decision of another one.
const POLL_INTERVAL: Duration = Duration::from_millis(20);

/// Timeout of a rollback. After it, recovery resolves the branch.
const ROLLBACK_TIMEOUT: Duration = Duration::from_secs(5);

/// Delay between two attempts of a request, so that the cause of the error can pass.
const ATTEMPT_DELAY_MIN: Duration = Duration::from_millis(10);
const ATTEMPT_DELAY_MAX: Duration = Duration::from_secs(1);

/// A branch. The operation that ends it takes it out; the lock serializes its vote and its end.
type BranchSlot = Arc<Mutex<Option<Box<dyn Branch>>>>;

/// The branches of this coordinator that have not ended, by attempt and database.
type OwnBranches = BTreeMap<(AttemptNumber, u8), BranchSlot>;

/// The state that the actions of one request share.
struct Context<R> {
    server: Arc<Coordinator<R>>,
    transaction: TransactionRequest,
    coordinator: CoordinatorId,
    request: ProcedureCall,
    /// The end of waiting for unavailable databases and decision stores.
    deadline: Instant,
    own_branches: std::sync::Mutex<OwnBranches>,
}

/// Executes a request until it is answered. While a database is unavailable, one coordinator after the other
/// executes it.
pub(crate) async fn run<R: Registers>(
    server: Arc<Coordinator<R>>,
    transaction: TransactionRequest,
    mut coordinator: CoordinatorId,
    request: ProcedureCall,
    mut is_first_time: bool,
    sender: watch::Sender<Option<ClientOutcome>>,
) {
    let deadline = Instant::now() + server.options.unavailable_timeout;
    let mut backoff = Backoff::default();
    loop {
        let context = Context {
            server: Arc::clone(&server),
            transaction,
            coordinator,
            request: request.clone(),
            deadline,
            own_branches: std::sync::Mutex::default(),
        };
        fault!("taken");
        if !coordinate(&Arc::new(context), is_first_time, &sender).await {
            break;
        }
        if Instant::now() >= deadline {
            let _no_receiver = sender.send(Some(ClientOutcome::Unavailable));
            break;
        }
        backoff.after("a transaction cannot be executed", "a database is unavailable").await;
        // A client may have sent the request to another server meanwhile.
        is_first_time = false;
        coordinator = server.replace_coordinator(transaction.request);
    }
    // From here on, a retry reads the recorded decision.
    server.end(transaction.request);
}

/// Carries out the actions of a coordinator. Returns whether it has withdrawn, because a database is
/// unavailable; otherwise the client is answered.
async fn coordinate<R: Registers>(
    context: &Arc<Context<R>>,
    is_first_time: bool,
    sender: &watch::Sender<Option<ClientOutcome>>,
) -> bool {
    let (server, request) = (&context.server, context.transaction.request);
    let (mut state, mut actions) =
        CoordinatorState::begin(context.transaction, context.coordinator, is_first_time);
    let mut has_withdrawn = false;
    // One task polls all actions: a task for each would add a thread switch to every action.
    let mut in_flight = FuturesUnordered::new();
    loop {
        let executing = Some(state.attempt()).filter(|attempt| state.is_executing(*attempt));
        server.set_executing(request, executing);
        for action in actions {
            match action {
                CoordinatorAction::Answer(ClientOutcome::Unavailable) => has_withdrawn = true,
                CoordinatorAction::Answer(outcome) => {
                    fault!("answering");
                    if matches!(outcome, ClientOutcome::Answer(_) | ClientOutcome::GivenUp) {
                        server.answered().note(request);
                    }
                    let _no_receiver = sender.send(Some(outcome));
                    fault!("answered");
                }
                action => {
                    in_flight.push(AssertUnwindSafe(Arc::clone(context).perform(action)).catch_unwind())
                }
            }
        }
        match in_flight.next().await {
            Some(Ok((attempt, event))) => actions = state.on(attempt, event),
            // The result of an action that panicked is unknown. Recovery resolves its branches, and the
            // client retries.
            Some(Err(_)) => {
                tracing::error!("an action of a transaction panicked");
                actions = Vec::new();
            }
            None => return has_withdrawn,
        }
    }
}

impl<R: Registers> Context<R> {
    async fn perform(self: Arc<Self>, action: CoordinatorAction) -> (AttemptNumber, Event) {
        let attempt = action.attempt().unwrap_or(AttemptNumber::FIRST);
        let event = match action {
            CoordinatorAction::ReadDecision(attempt) => {
                let event = self.read_decision(attempt).await;
                fault!("looked");
                event
            }
            CoordinatorAction::FindCoordinator(attempt) => {
                let others = self.server.peers.executing(self.transaction.request, attempt).await;
                fault!("asked-others");
                Event::OtherCoordinator(others)
            }
            CoordinatorAction::AwaitDecision(attempt, coordinator) => {
                self.wait_for(attempt, coordinator).await
            }
            CoordinatorAction::Fence(attempt, coordinator) => {
                self.fence(attempt, coordinator).await;
                fault!("fenced");
                Event::Fenced
            }
            CoordinatorAction::Execute(own) => self.execute(own).await,
            CoordinatorAction::Vote(own, branch) => self.vote(own, branch).await,
            CoordinatorAction::Propose(attempt, decision) => self.propose(attempt, &decision).await,
            CoordinatorAction::CommitDeciding(own, commit) => {
                self.commit_deciding(own, Decision::Commit(commit)).await
            }
            CoordinatorAction::RollBack(own) => self.roll_back(own).await,
            CoordinatorAction::Commit(attempt, branch) => self.commit(attempt, branch).await,
            CoordinatorAction::Answer(_) => unreachable!("the caller handles answers"),
        };
        (attempt, event)
    }

    async fn read_decision(&self, attempt: AttemptNumber) -> Event {
        let lookup = match self.read(attempt).await {
            Ok(lookup) => lookup,
            Err(unavailable) => return unavailable,
        };
        if attempt == AttemptNumber::FIRST || lookup != DecisionLookup::Recorded(None) {
            return recorded_event(lookup);
        }
        // The attempt before failed, and this one has not begun. Wait, so that the cause of the error can
        // pass.
        let doublings = u32::from(attempt.0 - 2).min(10);
        tokio::time::sleep(ATTEMPT_DELAY_MAX.min(ATTEMPT_DELAY_MIN * 2_u32.pow(doublings))).await;
        self.read(attempt).await.map_or_else(|unavailable| unavailable, recorded_event)
    }

    async fn read(&self, attempt: AttemptNumber) -> Result<DecisionLookup, Event> {
        let TransactionRequest { request, decision_location, .. } = self.transaction;
        let lookup = self.server.decisions.read(request, decision_location, attempt, self.deadline).await;
        lookup.map_err(|why| {
            tracing::info!(why, "the decision store of a transaction is unavailable");
            Event::Unavailable
        })
    }

    async fn wait_for(&self, attempt: AttemptNumber, coordinator: CoordinatorId) -> Event {
        let request = self.transaction.request;
        loop {
            let status = self.server.peers.status(coordinator, request, attempt).await;
            // Read the decision after the status: a coordinator that has just finished may have decided.
            match self.read(attempt).await {
                Ok(DecisionLookup::Recorded(None)) => {}
                Ok(lookup) => return recorded_event(lookup),
                Err(unavailable) => return unavailable,
            }
            match status {
                PeerStatus::NotWorking => return Event::OtherCoordinator(None),
                PeerStatus::Restarted | PeerStatus::Suspected => return Event::Suspected,
                PeerStatus::Working | PeerStatus::Unreachable => {
                    fault!("awaiting");
                    tokio::time::sleep(POLL_INTERVAL).await;
                }
            }
        }
    }

    async fn execute(&self, own: AttemptId) -> Event {
        let mut branches = Branches::new(own, Arc::clone(&self.server.resources));
        let execution = self.server.logic.execute(&self.request, &mut branches);
        let executed = tokio::time::timeout(self.server.options.procedure_timeout, execution).await;
        fault!("computed");
        let participants = branches.participants();
        self.store_branches(own, branches.into_begun());
        let answer = match executed {
            Ok(Ok(answer)) if answer.body().len() > ANSWER_BYTES_MAX => ProcedureResult::Failed(Bytes::from(
                format!("the answer is longer than {ANSWER_BYTES_MAX} bytes"),
            )),
            Ok(Ok(answer)) => answer,
            Ok(Err(error @ ResourceError::Statement { .. })) => {
                ProcedureResult::Failed(truncate_answer(error.to_string()))
            }
            // Another attempt would fail too, and so would the next, until an operator has acted.
            Ok(Err(why @ (ResourceError::Unavailable { .. } | ResourceError::Setup { .. }))) => {
                tracing::info!(%why, "a database of a transaction is unavailable");
                return Event::Unavailable;
            }
            Ok(Err(why)) => {
                tracing::info!(%why, "an attempt of a transaction failed");
                return Event::Executed(ExecutionResult::Failed);
            }
            Err(_) => {
                tracing::info!(limit = ?self.server.options.procedure_timeout, "an attempt of a transaction timed out");
                return Event::Executed(ExecutionResult::Failed);
            }
        };
        Event::Executed(ExecutionResult::Done { branches: participants, answer })
    }

    async fn vote(&self, own: AttemptId, participant: Participant) -> Event {
        let Some(slot) = self.slot(own, participant.resource) else {
            return Event::Voted(participant, VoteResult::No);
        };
        let mut slot = slot.lock().await;
        fault!("voting-{}", participant.resource);
        let vote = match slot.as_mut() {
            Some(branch) => branch.vote().await,
            None => return Event::Voted(participant, VoteResult::No),
        };
        fault!("voted-{}", participant.resource);
        let result = match vote {
            Vote::Yes => VoteResult::Yes,
            Vote::Unchanged => {
                *slot = None;
                VoteResult::Unchanged
            }
            Vote::No(why) => {
                tracing::info!(%why, "a database voted no");
                VoteResult::No
            }
        };
        Event::Voted(participant, result)
    }

    async fn propose(&self, attempt: AttemptNumber, decision: &Decision) -> Event {
        let TransactionRequest { request, decision_location, .. } = self.transaction;
        // Roll back first: the branch in this database may block the row of the decision.
        if let (Decision::Abort, DecisionLocation::Resource(number)) = (decision, decision_location) {
            self.roll_back_one(attempt, number).await;
        }
        if matches!(decision, Decision::Commit(_)) && self.server.nears_retention_limit(request) {
            return Event::Forgotten;
        }
        fault!("proposing");
        let lookup = self.server.decisions.propose(request, decision_location, attempt, decision).await;
        fault!("proposed");
        proposal_event(lookup)
    }

    async fn commit_deciding(&self, own: AttemptId, decision: Decision) -> Event {
        let DecisionLocation::Resource(number) = own.decision_location else {
            unreachable!("only an attempt that is decided in a database commits with its decision")
        };
        if self.server.nears_retention_limit(own.request) {
            return Event::Forgotten;
        }
        let branch = match self.slot(own, number) {
            Some(slot) => slot.lock().await.take(),
            None => None,
        };
        if let Some(branch) = branch {
            fault!("deciding");
            let recorded = branch.commit_deciding(&decision.encode()).await;
            fault!("decided");
            match recorded.map(|recorded| Decision::decode(&recorded)) {
                Ok(Ok(recorded)) => return Event::Recorded(Some(recorded)),
                Ok(Err(why)) => tracing::error!(%why, "a decision in a database cannot be decoded"),
                Err(ResourceError::Forgotten { .. }) => return Event::Forgotten,
                Err(why) => tracing::info!(%why, "a commit with its decision failed"),
            }
        }
        // Proposing an abort returns the commit if it was recorded.
        proposal_event(
            self.server
                .decisions
                .propose(own.request, own.decision_location, own.number, &Decision::Abort)
                .await,
        )
    }

    async fn roll_back(self: &Arc<Self>, own: AttemptId) -> Event {
        let numbers: Vec<u8> = self
            .lock()
            .keys()
            .filter(|(attempt, _)| *attempt == own.number)
            .map(|(_, number)| *number)
            .collect();
        fault!("rolling-back");
        let mut rolling_back = JoinSet::new();
        for number in numbers {
            let context = Arc::clone(self);
            rolling_back.spawn(async move { context.roll_back_one(own.number, number).await });
        }
        while rolling_back.join_next().await.is_some() {}
        fault!("rolled-back");
        Event::RolledBack
    }

    /// Rolls back one of our branches. If that fails, recovery resolves it.
    async fn roll_back_one(&self, attempt: AttemptNumber, number: u8) {
        let slot = self.lock().remove(&(attempt, number));
        let Some(slot) = slot else { return };
        let rolled_back = tokio::time::timeout(ROLLBACK_TIMEOUT, async {
            match slot.lock().await.take() {
                Some(branch) => branch.decide(Outcome::Abort).await,
                None => Ok(()),
            }
        });
        if let Ok(Err(why)) = rolled_back.await {
            tracing::info!(%why, "recovery will roll back a branch");
        }
    }

    async fn commit(&self, attempt: AttemptId, participant: Participant) -> Event {
        // Only our own branch: if another coordinator won, our branch in the same database is being rolled
        // back.
        let slot = if attempt.coordinator == self.coordinator {
            self.lock().remove(&(attempt.number, participant.resource))
        } else {
            None
        };
        let own = match slot {
            Some(slot) => slot.lock().await.take(),
            None => None,
        };
        fault!("committing-{}", participant.resource);
        if let Some(branch) = own {
            match branch.decide(Outcome::Commit).await {
                Ok(()) => {
                    fault!("committed-{}", participant.resource);
                    return Event::Committed(participant);
                }
                Err(why) => tracing::info!(%why, "retrying a commit on another connection"),
            }
        }
        let name = attempt.branch(self.server.options.cluster, participant.resource, participant.connection);
        end(&self.server, &name, Outcome::Commit).await;
        fault!("committed-{}", participant.resource);
        Event::Committed(participant)
    }

    /// Terminates the sessions of a suspected server in every reachable database, so that its open branches
    /// block no other coordinator. This is not needed for safety: if a session survives or the server
    /// reconnects, recovery finds the branches that it prepares.
    async fn fence(&self, attempt: AttemptNumber, coordinator: CoordinatorId) {
        match self.server.peer_status(coordinator, self.transaction.request, attempt).await {
            PeerStatus::Working | PeerStatus::NotWorking => return,
            PeerStatus::Restarted | PeerStatus::Unreachable | PeerStatus::Suspected => {}
        }
        let mut fencing = JoinSet::new();
        for resource in self.server.resources.iter() {
            let resource = Arc::clone(resource);
            fencing.spawn(async move { resource.fence(coordinator).await });
        }
        while let Some(fenced) = fencing.join_next().await {
            if let Ok(Err(why)) = fenced {
                tracing::warn!(%why, "cannot terminate the sessions of a suspected server");
            }
        }
    }

    fn store_branches(&self, own: AttemptId, branches: BTreeMap<u8, Box<dyn Branch>>) {
        let slot = branches
            .into_iter()
            .map(|(number, branch)| ((own.number, number), Arc::new(Mutex::new(Some(branch)))));
        self.lock().extend(slot);
    }

    fn slot(&self, own: AttemptId, number: u8) -> Option<BranchSlot> {
        self.lock().get(&(own.number, number)).cloned()
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, OwnBranches> {
        // No code panics while the lock is taken.
        self.own_branches.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }
}

fn recorded_event(lookup: DecisionLookup) -> Event {
    match lookup {
        DecisionLookup::Recorded(decision) => Event::Recorded(decision),
        DecisionLookup::Forgotten => Event::Forgotten,
    }
}

fn proposal_event(lookup: Result<DecisionLookup, RegistersFull>) -> Event {
    match lookup {
        Ok(lookup) => recorded_event(lookup),
        Err(why) => {
            tracing::warn!(%why, "the decision of a transaction cannot be recorded");
            Event::NoRoom
        }
    }
}

/// Truncates an error text to the limit of an answer: a database may echo its input.
fn truncate_answer(mut text: String) -> Bytes {
    let end = (0..=ANSWER_BYTES_MAX.min(text.len())).rev().find(|end| text.is_char_boundary(*end));
    text.truncate(end.unwrap_or_default());
    Bytes::from(text)
}

/// Commits or rolls back a branch. Retries until it has ended.
async fn end<R: Registers>(server: &Coordinator<R>, name: &Xid, outcome: Outcome) {
    let mut backoff = Backoff::default();
    loop {
        let ended = match server.resource(name.resource) {
            Some(resource) => resource.decide(name, outcome).await.map_err(|why| why.to_string()),
            None => Err(format!("database {} is not declared on this server", name.resource)),
        };
        match ended {
            Ok(()) => return,
            Err(why) => backoff.after("a branch cannot be resolved", &why).await,
        }
    }
}
