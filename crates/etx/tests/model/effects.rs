//! Carries out the actions of the state machines on the databases and registers of the model.

use bytes::Bytes;
use jeton_etx::{
    AttemptId, AttemptNumber, ClientOutcome, Commit, CoordinatorAction, CoordinatorId, CoordinatorState,
    Decision, DecisionLocation, Event, ExecutionResult, Outcome, Participant, ProcedureResult,
    RecoveryAction, RecoveryEvent, VoteResult,
};

use crate::fault::Mistake;
use crate::model::ClusterModel;
use crate::state::{Effect, NO_OWNER, Part, PreparedBranch, RESOURCES, State, What, answer_of};

/// How an effect is carried out.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum How {
    Well,
    /// With the fault of its kind: a no vote, a false suspicion, an unknown branch, a fence without effect.
    Badly,
    /// A fence has no effect in this database, and works in all others.
    BadlyIn(u8),
    /// The connection breaks while it is in flight.
    Broken,
    /// A database, or the decision store, is unavailable.
    Unavailable,
}

impl ClusterModel {
    /// Whether an effect can make progress now.
    pub fn can(&self, state: &State, effect: &Effect) -> bool {
        match &effect.what {
            // It waits for a decision, or for the end of the other coordinator.
            What::Action(CoordinatorAction::AwaitDecision(attempt, coordinator)) => {
                let has_ended =
                    !state.is_working(*coordinator, *attempt) && self.mistake != Mistake::WaitsForTheDead;
                state.decisions.contains_key(attempt) || has_ended
            }
            _ => true,
        }
    }

    /// The faults that can hit an effect, among those that are left.
    pub fn possible_faults(state: &State, effect: &Effect) -> Vec<How> {
        let left = &state.left;
        let mut faults = Vec::new();
        let mut may = |is_left: bool, how| faults.extend(is_left.then_some(how));
        match &effect.what {
            What::Action(CoordinatorAction::Execute(_)) => {
                may(left.refusals > 0, How::Badly);
                may(left.unavailable > 0, How::Unavailable);
            }
            What::Action(CoordinatorAction::ReadDecision(_)) => may(left.unavailable > 0, How::Unavailable),
            What::Action(CoordinatorAction::Vote(..)) => {
                may(left.refusals > 0, How::Badly);
                may(left.breaks > 0, How::Broken);
            }
            What::Action(CoordinatorAction::CommitDeciding(..)) => may(left.breaks > 0, How::Broken),
            What::Action(CoordinatorAction::AwaitDecision(attempt, _)) => {
                may(left.unavailable > 0, How::Unavailable);
                may(left.suspicions > 0 && !state.decisions.contains_key(attempt), How::Badly);
            }
            What::Recovery(RecoveryAction::CheckCoordinator(coordinator, attempt)) => {
                may(left.suspicions > 0 && state.is_working(*coordinator, *attempt), How::Badly);
            }
            What::Action(CoordinatorAction::Fence(_, coordinator)) if left.fences > 0 => {
                // A fence that has nothing to terminate, now or later, is the same as one that fails.
                let unfenced = state.unfenced(|part| part.2 == *coordinator);
                let is_felt =
                    |resource| state.is_alive(*coordinator) || unfenced.iter().any(|part| part.0 == resource);
                may((0..RESOURCES).any(is_felt), How::Badly);
                if (0..RESOURCES).all(is_felt) {
                    (0..RESOURCES).for_each(|resource| may(true, How::BadlyIn(resource)));
                }
            }
            What::Action(CoordinatorAction::Commit(..)) => may(left.unknown > 0, How::Badly),
            _ => {}
        }
        faults
    }

    pub fn carry_out(&self, state: &mut State, effect: Effect, how: How) {
        let is_orphan = state.is_orphan(&effect);
        match (effect.what, how) {
            (What::Action(step), How::Broken) => self.break_off(state, effect.server, step),
            (What::Action(step), How::Unavailable) => self.withhold(state, effect.server, step),
            (What::Action(step), _) => self.do_action(state, effect.server, step, how, is_orphan),
            (What::Recovery(what), _) => self.do_recovery(state, effect.server, what, how, is_orphan),
        }
    }

    /// The server gets an error. The effect has no owner from now on, and happens or not; if it happens at
    /// once, only the response was lost.
    fn break_off(&self, state: &mut State, server: u16, step: CoordinatorAction) {
        state.left.breaks -= 1;
        state.in_flight.insert(Effect { server, incarnation: NO_OWNER, what: What::Action(step.clone()) });
        match step {
            CoordinatorAction::Vote(attempt, branch) => {
                let is_yes = self.mistake == Mistake::LostVoteIsYes;
                let vote = if is_yes { VoteResult::Yes } else { VoteResult::No };
                state.deliver(server, attempt.number, Event::Voted(branch, vote));
            }
            // Proposing an abort returns the commit if it was recorded.
            CoordinatorAction::CommitDeciding(attempt, _) => {
                state.start(
                    server,
                    [What::Action(CoordinatorAction::Propose(attempt.number, Decision::Abort))],
                );
            }
            _ => unreachable!("only these are on a connection that may break"),
        }
    }

    /// A database is unavailable to a server. Only the branch in the first database is begun.
    fn withhold(&self, state: &mut State, server: u16, step: CoordinatorAction) {
        state.left.unavailable -= 1;
        let attempt = step.attempt().unwrap_or(AttemptNumber::FIRST);
        let mut event = Event::Unavailable;
        if let CoordinatorAction::Execute(attempt) = step {
            state.branches.insert((0, attempt.number, attempt.coordinator), PreparedBranch::Active);
            if self.mistake == Mistake::UnavailableIsAborted {
                event = Event::Executed(ExecutionResult::Failed);
            }
        }
        state.deliver(server, attempt, event);
    }

    /// Terminates the sessions of a coordinator. If it is alive, it may begin again.
    fn fence(&self, state: &mut State, coordinator: CoordinatorId, how: How) {
        state.left.fences -= u8::from(how != How::Well);
        let holds = |resource| match how {
            How::Badly => false,
            How::BadlyIn(other) => resource != other,
            How::Well | How::Broken | How::Unavailable => true,
        };
        let (ended, spared) =
            state.unfenced(|part| part.2 == coordinator).into_iter().partition(|part: &Part| holds(part.0));
        if self.mistake == Mistake::FenceIsTrusted {
            state.ignored.extend(spared);
        }
        state.end_sessions(&ended);
    }

    fn do_action(&self, state: &mut State, server: u16, step: CoordinatorAction, how: How, is_orphan: bool) {
        let badly = how == How::Badly;
        let attempt = step.attempt().unwrap_or(AttemptNumber::FIRST);
        let event = match step {
            CoordinatorAction::ReadDecision(attempt) => {
                Event::Recorded(state.decisions.get(&attempt).cloned())
            }
            CoordinatorAction::FindCoordinator(attempt) => {
                let others = state
                    .servers
                    .iter()
                    .filter_map(|other| other.work.as_ref())
                    .map(CoordinatorState::coordinator);
                let executing = others
                    .filter(|other| other.server != server)
                    .find(|other| state.is_working(*other, attempt));
                Event::OtherCoordinator(executing)
            }
            CoordinatorAction::AwaitDecision(attempt, coordinator) => match state.decisions.get(&attempt) {
                Some(decision) => Event::Recorded(Some(decision.clone())),
                None if !badly && state.is_alive(coordinator) => Event::OtherCoordinator(None),
                None => {
                    state.left.suspicions -= u8::from(badly);
                    Event::Suspected
                }
            },
            CoordinatorAction::Fence(_, coordinator) => {
                self.fence(state, coordinator, how);
                Event::Fenced
            }
            CoordinatorAction::Execute(_) if badly => {
                state.left.refusals -= 1;
                Event::Executed(ExecutionResult::Failed)
            }
            CoordinatorAction::Execute(attempt) => Event::Executed(self.execute(state, attempt)),
            CoordinatorAction::Vote(attempt, branch) => {
                let part = (branch.resource, attempt.number, attempt.coordinator);
                Event::Voted(branch, self.vote(state, part, badly))
            }
            // A coordinator that proposes this without branches of its own takes over from another.
            CoordinatorAction::Propose(attempt, Decision::Abort)
                if self.mistake == Mistake::AssumesAbort && !is_executing(state, server, attempt) =>
            {
                Event::Recorded(Some(Decision::Abort))
            }
            CoordinatorAction::Propose(attempt, Decision::Commit(commit)) => {
                let recorded = state.propose(attempt, Decision::Commit(commit.clone()));
                Event::Recorded(Some(self.misread(recorded, commit)))
            }
            CoordinatorAction::Propose(attempt, decision) => {
                Event::Recorded(Some(state.propose(attempt, decision)))
            }
            CoordinatorAction::CommitDeciding(attempt, commit) => {
                match self.commit_deciding(state, attempt, commit, is_orphan) {
                    Some(recorded) => Event::Recorded(Some(recorded)),
                    None => return,
                }
            }
            CoordinatorAction::RollBack(attempt) => {
                for resource in 0..RESOURCES {
                    let part = (resource, attempt.number, attempt.coordinator);
                    // A statement in flight may take effect after the connection was closed.
                    if !state.is_voting(part) && !self.is_deciding(state, part) {
                        state.end(part, Outcome::Abort);
                    }
                }
                Event::RolledBack
            }
            CoordinatorAction::Commit(attempt, branch) => {
                let part = (branch.resource, attempt.number, attempt.coordinator);
                if badly {
                    state.left.unknown -= 1;
                    if self.mistake != Mistake::UnknownIsCommitted {
                        let again = CoordinatorAction::Commit(attempt, branch);
                        state.start(server, [What::Action(again)]);
                        return;
                    }
                } else {
                    state.end(part, Outcome::Commit);
                }
                Event::Committed(branch)
            }
            CoordinatorAction::Answer(ending) => {
                if !is_orphan {
                    state.servers[usize::from(server)].work = None;
                    // The client retries.
                    if ending != ClientOutcome::Unavailable {
                        state.answers.insert(ending);
                    }
                }
                return;
            }
        };
        if !is_orphan {
            if self.mistake == Mistake::EarlyAnswer
                && let Event::Recorded(Some(Decision::Commit(commit))) = &event
            {
                state.answers.insert(ClientOutcome::Answer(commit.answer.clone()));
            }
            state.deliver(server, attempt, event);
        }
    }

    fn execute(&self, state: &mut State, attempt: AttemptId) -> ExecutionResult {
        for resource in 0..RESOURCES {
            let part = (resource, attempt.number, attempt.coordinator);
            state.branches.insert(part, PreparedBranch::Active);
        }
        state.executed.insert((attempt.number, attempt.coordinator));
        let answer = match self.mistake {
            Mistake::FirstAnswerIsKept => answer_of(AttemptNumber::FIRST, attempt.coordinator),
            Mistake::OtherAnswerIsKept => ProcedureResult::Done(Bytes::from_static(b"of another request")),
            _ => answer_of(attempt.number, attempt.coordinator),
        };
        ExecutionResult::Done { branches: Self::participants(), answer }
    }

    /// One atomic step of the database: the decision and the changes are committed together, or neither.
    /// Returns the decision that the server reads; `None` for a commit without an owner that records nothing.
    fn commit_deciding(
        &self,
        state: &mut State,
        attempt: AttemptId,
        commit: Commit,
        is_orphan: bool,
    ) -> Option<Decision> {
        let DecisionLocation::Resource(resource) = self.decision_location else {
            unreachable!("decisions are in registers")
        };
        let part = (resource, attempt.number, attempt.coordinator);
        let is_there = state.branches.remove(&part).is_some();
        if is_there && !state.decisions.contains_key(&attempt.number) {
            state.decisions.insert(attempt.number, Decision::Commit(commit.clone()));
            state.voted.insert(part);
            state.committed.insert(part);
        }
        // If the changes were lost, an abort is recorded instead.
        let recorded = match state.decisions.get(&attempt.number) {
            Some(decision) => decision.clone(),
            None if is_orphan => return None,
            None => state.propose(attempt.number, Decision::Abort),
        };
        Some(self.misread(recorded, commit))
    }

    fn vote(&self, state: &mut State, part: Part, badly: bool) -> VoteResult {
        if badly {
            state.left.refusals -= u8::from(badly);
            state.branches.remove(&part);
            VoteResult::No
        } else if let Some(listed) = state.branches.get_mut(&part) {
            *listed = PreparedBranch::Prepared;
            state.voted.insert(part);
            VoteResult::Yes
        } else if self.mistake == Mistake::LostVoteIsYes {
            VoteResult::Yes
        } else {
            VoteResult::No
        }
    }

    /// The decision that a server which proposed a commit reads. Without a mistake it is the recorded one.
    fn misread(&self, recorded: Decision, proposed: Commit) -> Decision {
        match (recorded, self.mistake) {
            (Decision::Commit(commit), Mistake::EveryCommitIsOurs) => {
                Decision::Commit(Commit { coordinator: proposed.coordinator, ..commit })
            }
            (Decision::Commit(commit), Mistake::OwnAnswer) => {
                Decision::Commit(Commit { answer: proposed.answer, ..commit })
            }
            (recorded, _) => recorded,
        }
    }

    fn do_recovery(&self, state: &mut State, server: u16, what: RecoveryAction, how: How, is_orphan: bool) {
        let badly = how == How::Badly;
        let found = match what {
            RecoveryAction::CheckPrepared(_) => unreachable!("nothing is forgotten in the model"),
            RecoveryAction::ReadDecision(attempt) => {
                RecoveryEvent::Recorded(state.decisions.get(&attempt).cloned())
            }
            RecoveryAction::CheckCoordinator(coordinator, attempt) => {
                state.left.suspicions -= u8::from(badly);
                RecoveryEvent::Coordinator { is_working: !badly && state.is_working(coordinator, attempt) }
            }
            RecoveryAction::ProposeAbort(attempt) => {
                let recorded = if self.mistake == Mistake::RecoveryWithoutDecision {
                    Decision::Abort
                } else {
                    state.propose(attempt, Decision::Abort)
                };
                RecoveryEvent::Recorded(Some(recorded))
            }
            RecoveryAction::End(branch, outcome) => {
                state.end((branch.resource, branch.attempt, branch.coordinator), outcome);
                RecoveryEvent::Ended
            }
        };
        if !is_orphan {
            state.on_recovery_event(server, found);
        }
    }

    /// An effect without an owner is lost, and its session with it.
    pub fn lose(&self, state: &mut State, effect: Effect) {
        state.in_flight.remove(&effect);
        match (effect.what, self.decision_location) {
            (What::Action(CoordinatorAction::Vote(attempt, Participant { resource, .. })), _)
            | (
                What::Action(CoordinatorAction::CommitDeciding(attempt, _)),
                DecisionLocation::Resource(resource),
            ) => {
                state.branches.remove(&(resource, attempt.number, attempt.coordinator));
            }
            _ => {}
        }
    }

    /// Whether a commit with its decision is in flight to the database that records it.
    pub fn is_deciding(&self, state: &State, part: Part) -> bool {
        DecisionLocation::Resource(part.0) == self.decision_location
            && state.in_flight.iter().any(|effect| {
                matches!(&effect.what, What::Action(CoordinatorAction::CommitDeciding(attempt, _))
                if (attempt.number, attempt.coordinator) == (part.1, part.2))
            })
    }

    fn participants() -> Vec<Participant> {
        (0..RESOURCES).map(|resource| Participant { resource, connection: 0 }).collect()
    }
}

/// Whether a server itself executes an attempt.
fn is_executing(state: &State, server: u16, attempt: AttemptNumber) -> bool {
    state.servers[usize::from(server)].work.as_ref().is_some_and(|work| work.is_executing(attempt))
}
