//! How errands are done: each step that a machine wants, carried out on the databases and registers of the world.

use bytes::Bytes;
use jeton_etx::{
    AttemptNumber, ClientOutcome, Commit, CoordinatorAction, CoordinatorId, CoordinatorState, Decision,
    DecisionLocation, Event, ExecutionResult, Outcome, Participant, ProcedureResult, RecoveryAction,
    RecoveryEvent, VoteResult,
};

use crate::fault::Mistake;
use crate::model::World;
use crate::state::{Errand, NO_LIFE, Part, PreparedBranch, RESOURCES, State, What, answer_of};

/// How an errand goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum How {
    Well,
    /// Wrong, in its own way: a no, a false suspicion, an unknown branch, a fence that does nothing.
    Badly,
    /// A fence does nothing in this database, and its work in all others.
    BadlyIn(u8),
    /// The connection breaks while it is under way.
    Broken,
}

impl World {
    /// Whether there is something to do about an errand now.
    pub fn can(&self, state: &State, errand: &Errand) -> bool {
        match &errand.what {
            // It waits for a decision, or for the end of whom it waits for.
            What::Step(CoordinatorAction::Await(attempt, executor)) => {
                let is_over =
                    !state.is_working(*executor, *attempt) && self.mistake != Mistake::WaitsForTheDead;
                state.decisions.contains_key(attempt) || is_over
            }
            _ => true,
        }
    }

    /// How an errand can go wrong, with the faults that are left.
    pub fn ways_to_fail(state: &State, errand: &Errand) -> Vec<How> {
        let left = &state.left;
        let mut ways = Vec::new();
        let mut may = |is_left: bool, how| ways.extend(is_left.then_some(how));
        match &errand.what {
            What::Step(CoordinatorAction::Compute(_)) => may(left.refusals > 0, How::Badly),
            What::Step(CoordinatorAction::Vote(..)) => {
                may(left.refusals > 0, How::Badly);
                may(left.breaks > 0, How::Broken);
            }
            What::Step(CoordinatorAction::CommitDeciding(..)) => may(left.breaks > 0, How::Broken),
            What::Step(CoordinatorAction::Await(attempt, _)) => {
                may(left.suspicions > 0 && !state.decisions.contains_key(attempt), How::Badly);
            }
            What::Sweeping(RecoveryAction::AskFor(executor, attempt)) => {
                may(left.suspicions > 0 && state.is_working(*executor, *attempt), How::Badly);
            }
            What::Step(CoordinatorAction::Fence(_, executor)) if left.fences > 0 => {
                // A fence that has nothing to end, now or later, cannot be told from one that fails.
                let unfenced = state.unfenced(|part| part.2 == *executor);
                let is_felt =
                    |resource| state.is_alive(*executor) || unfenced.iter().any(|part| part.0 == resource);
                may((0..RESOURCES).any(is_felt), How::Badly);
                if (0..RESOURCES).all(is_felt) {
                    (0..RESOURCES).for_each(|resource| may(true, How::BadlyIn(resource)));
                }
            }
            What::Step(CoordinatorAction::Commit(..)) => may(left.unknown > 0, How::Badly),
            _ => {}
        }
        ways
    }

    pub fn carry_out(&self, state: &mut State, errand: Errand, how: How) {
        let is_orphan = state.is_orphan(&errand);
        match (errand.what, how) {
            (What::Step(step), How::Broken) => self.break_off(state, errand.server, step),
            (What::Step(step), _) => self.do_step(state, errand.server, step, how, is_orphan),
            (What::Sweeping(what), _) => self.do_sweeping(state, errand.server, what, how, is_orphan),
        }
    }

    /// The server hears of a failure. The deed is nobody's from now on, and comes about or not: if at once, it is one of which only the answer was lost.
    fn break_off(&self, state: &mut State, server: u16, step: CoordinatorAction) {
        state.left.breaks -= 1;
        state.under_way.insert(Errand { server, incarnation: NO_LIFE, what: What::Step(step.clone()) });
        match step {
            CoordinatorAction::Vote(attempt, branch) => {
                let is_yes = self.mistake == Mistake::LostVoteIsYes;
                let voice = if is_yes { VoteResult::Yes } else { VoteResult::No };
                state.tell(server, attempt.number, Event::Voted(branch, voice));
            }
            // Whether it was committed is seen by trying to write that it was not.
            CoordinatorAction::CommitDeciding(attempt, _) => {
                state.want(server, [What::Step(CoordinatorAction::Propose(attempt.number, Decision::Abort))]);
            }
            _ => unreachable!("only these are on a connection that may break"),
        }
    }

    /// Ends the sessions of an executor. If it lives, it may begin again.
    fn fence(&self, state: &mut State, executor: CoordinatorId, how: How) {
        state.left.fences -= u8::from(how != How::Well);
        let holds = |resource| match how {
            How::Badly => false,
            How::BadlyIn(other) => resource != other,
            How::Well | How::Broken => true,
        };
        let (ended, spared) =
            state.unfenced(|part| part.2 == executor).into_iter().partition(|part: &Part| holds(part.0));
        if self.mistake == Mistake::FenceIsTrusted {
            state.ignored.extend(spared);
        }
        state.end_sessions(&ended);
    }

    fn do_step(&self, state: &mut State, server: u16, step: CoordinatorAction, how: How, is_orphan: bool) {
        let badly = how == How::Badly;
        let attempt = step.attempt().unwrap_or(AttemptNumber::FIRST);
        let event = match step {
            CoordinatorAction::Look(attempt) => Event::Stands(state.decisions.get(&attempt).cloned()),
            CoordinatorAction::AskOthers(attempt) => {
                let others = state
                    .servers
                    .iter()
                    .filter_map(|other| other.work.as_ref())
                    .map(CoordinatorState::executor);
                let at_work = others
                    .filter(|other| other.server != server)
                    .find(|other| state.is_working(*other, attempt));
                Event::Others(at_work)
            }
            CoordinatorAction::Await(attempt, _) => match state.decisions.get(&attempt) {
                Some(decision) => Event::Stands(Some(decision.clone())),
                None => {
                    state.left.suspicions -= u8::from(badly);
                    Event::Suspected
                }
            },
            CoordinatorAction::Fence(_, executor) => {
                self.fence(state, executor, how);
                Event::Fenced
            }
            CoordinatorAction::Compute(_) if badly => {
                state.left.refusals -= 1;
                Event::Computed(ExecutionResult::Failed)
            }
            CoordinatorAction::Compute(attempt) => {
                for resource in 0..RESOURCES {
                    state
                        .branches
                        .insert((resource, attempt.number, attempt.executor), PreparedBranch::Active);
                }
                state.computed.insert((attempt.number, attempt.executor));
                let answer = match self.mistake {
                    Mistake::FirstAnswerIsKept => answer_of(AttemptNumber::FIRST, attempt.executor),
                    Mistake::OtherAnswerIsKept => {
                        ProcedureResult::Done(Bytes::from_static(b"of another request"))
                    }
                    _ => answer_of(attempt.number, attempt.executor),
                };
                Event::Computed(ExecutionResult::Done { branches: Self::participants(), answer })
            }
            CoordinatorAction::Vote(attempt, branch) => {
                let part = (branch.resource, attempt.number, attempt.executor);
                Event::Voted(branch, self.vote(state, part, badly))
            }
            // Who proposes this without having worked on the try steps in for another.
            CoordinatorAction::Propose(attempt, Decision::Abort)
                if self.mistake == Mistake::TakesForVoid && !is_executing(state, server, attempt) =>
            {
                Event::Stands(Some(Decision::Abort))
            }
            CoordinatorAction::Propose(attempt, Decision::Commit(commit)) => {
                let stands = state.propose(attempt, Decision::Commit(commit.clone()));
                Event::Stands(Some(self.misread(stands, commit)))
            }
            CoordinatorAction::Propose(attempt, decision) => {
                Event::Stands(Some(state.propose(attempt, decision)))
            }
            CoordinatorAction::CommitDeciding(attempt, commit) => {
                let DecisionLocation::Resource(resource) = self.home else {
                    unreachable!("decisions are in registers")
                };
                let part = (resource, attempt.number, attempt.executor);
                // One step of the database: the row and the work stay together, or neither does.
                let is_there = state.branches.remove(&part).is_some();
                if is_there && !state.decisions.contains_key(&attempt.number) {
                    state.decisions.insert(attempt.number, Decision::Commit(commit.clone()));
                    state.voted.insert(part);
                    state.committed.insert(part);
                }
                // If the work was lost, what is written instead is that the try is void. One that nobody waits for any more writes nothing.
                let stands = match state.decisions.get(&attempt.number) {
                    Some(decision) => decision.clone(),
                    None if is_orphan => return,
                    None => state.propose(attempt.number, Decision::Abort),
                };
                Event::Stands(Some(self.misread(stands, commit)))
            }
            CoordinatorAction::Undo(attempt) => {
                for resource in 0..RESOURCES {
                    let part = (resource, attempt.number, attempt.executor);
                    // What is under way may come about after the connection was closed.
                    if !state.is_voting(part) && !self.is_deciding(state, part) {
                        state.end(part, Outcome::Abort);
                    }
                }
                Event::Undone
            }
            CoordinatorAction::Commit(attempt, branch) => {
                let part = (branch.resource, attempt.number, attempt.executor);
                if badly {
                    state.left.unknown -= 1;
                    if self.mistake != Mistake::UnknownIsCommitted {
                        let again = CoordinatorAction::Commit(attempt, branch);
                        state.want(server, [What::Step(again)]);
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
                    state.told.insert(ending);
                }
                return;
            }
        };
        if !is_orphan {
            if self.mistake == Mistake::EarlyAnswer
                && let Event::Stands(Some(Decision::Commit(commit))) = &event
            {
                state.told.insert(ClientOutcome::Answer(commit.answer.clone()));
            }
            state.tell(server, attempt, event);
        }
    }

    fn vote(&self, state: &mut State, part: Part, badly: bool) -> VoteResult {
        if badly {
            state.left.refusals -= u8::from(badly);
            state.branches.remove(&part);
            VoteResult::No
        } else if let Some(standing) = state.branches.get_mut(&part) {
            *standing = PreparedBranch::Prepared;
            state.voted.insert(part);
            VoteResult::Yes
        } else if self.mistake == Mistake::LostVoteIsYes {
            VoteResult::Yes
        } else {
            VoteResult::No
        }
    }

    /// What a server that proposed to commit takes to stand. Without a mistake it is what stands.
    fn misread(&self, stands: Decision, proposed: Commit) -> Decision {
        match (stands, self.mistake) {
            (Decision::Commit(commit), Mistake::EveryCommitIsOurs) => {
                Decision::Commit(Commit { executor: proposed.executor, ..commit })
            }
            (Decision::Commit(commit), Mistake::OwnAnswer) => {
                Decision::Commit(Commit { answer: proposed.answer, ..commit })
            }
            (stands, _) => stands,
        }
    }

    fn do_sweeping(&self, state: &mut State, server: u16, what: RecoveryAction, how: How, is_orphan: bool) {
        let badly = how == How::Badly;
        let found = match what {
            RecoveryAction::ListAgain(_) => unreachable!("nothing is forgotten in the model"),
            RecoveryAction::Look(attempt) => RecoveryEvent::Stands(state.decisions.get(&attempt).cloned()),
            RecoveryAction::AskFor(executor, attempt) => {
                state.left.suspicions -= u8::from(badly);
                RecoveryEvent::Executor { is_working: !badly && state.is_working(executor, attempt) }
            }
            RecoveryAction::ProposeAbort(attempt) => {
                let stands = if self.mistake == Mistake::SweepWithoutWriting {
                    Decision::Abort
                } else {
                    state.propose(attempt, Decision::Abort)
                };
                RecoveryEvent::Stands(Some(stands))
            }
            RecoveryAction::End(branch, outcome) => {
                state.end((branch.resource, branch.attempt, branch.executor), outcome);
                RecoveryEvent::Ended
            }
        };
        if !is_orphan {
            state.tell_sweep(server, found);
        }
    }

    /// An errand that nobody hears of comes to nothing, and with it the session that it was in.
    pub fn lose(&self, state: &mut State, errand: Errand) {
        state.under_way.remove(&errand);
        match (errand.what, self.home) {
            (What::Step(CoordinatorAction::Vote(attempt, Participant { resource, .. })), _)
            | (
                What::Step(CoordinatorAction::CommitDeciding(attempt, _)),
                DecisionLocation::Resource(resource),
            ) => {
                state.branches.remove(&(resource, attempt.number, attempt.executor));
            }
            _ => {}
        }
    }

    /// Whether a commit with its decision is on its way to the database that keeps it.
    pub fn is_deciding(&self, state: &State, part: Part) -> bool {
        DecisionLocation::Resource(part.0) == self.home
            && state.under_way.iter().any(|errand| {
                matches!(&errand.what, What::Step(CoordinatorAction::CommitDeciding(attempt, _))
                if (attempt.number, attempt.executor) == (part.1, part.2))
            })
    }

    fn participants() -> Vec<Participant> {
        (0..RESOURCES).map(|resource| Participant { resource, connection: 0 }).collect()
    }
}

/// Whether a server is at work on a try itself.
fn is_executing(state: &State, server: u16, attempt: AttemptNumber) -> bool {
    state.servers[usize::from(server)].work.as_ref().is_some_and(|work| work.is_executing(attempt))
}
