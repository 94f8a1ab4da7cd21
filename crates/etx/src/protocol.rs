//! The state machine of a coordinator: from the first read of the decision to the answer.
//!
//! It has no I/O: it handles an [`Event`] and returns the next [`CoordinatorAction`]s. The coordinator task
//! carries the actions out on databases and registers; the model checker carries them out in every order,
//! with all failures in between.
//!
//! Invariants:
//! - A commit is proposed only if all branches that changed something have voted yes.
//! - Nothing is answered before the recorded decision is carried out everywhere. (A.1)
//! - An attempt begins only after the one before is recorded as aborted. (A.2)
//! - Only the recorded decision determines the outcome. A proposal of this coordinator is not different from
//!   one of another.
//! - A coordinator that cannot begin a branch because the database is unavailable withdraws: it rolls its
//!   other branches back and proposes no decision. A coordinator with another id executes the attempt later.

use crate::decision::{Commit, Decision, Participant, ProcedureResult};
use crate::{AttemptId, AttemptNumber, CoordinatorId, DecisionLocation, RequestId};

/// A request, as the coordinator sees it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TransactionRequest {
    pub request: RequestId,
    /// Where its decisions are recorded.
    pub decision_location: DecisionLocation,
    /// The hash of procedure and parameters.
    pub request_hash: u128,
}

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CoordinatorState {
    transaction: TransactionRequest,
    coordinator: CoordinatorId,
    attempt: AttemptNumber,
    phase: Phase,
}

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
enum Phase {
    /// Reading the decision of the attempt.
    Reading,
    /// There is none. Searching for another coordinator of the attempt.
    Searching,
    /// Waiting for the decision of another coordinator.
    Waiting(CoordinatorId),
    /// Terminating the sessions of a suspected coordinator.
    Fencing,
    /// Executing the procedure in the databases.
    Executing,
    /// Waiting for votes. `has_last_agent`: a branch commits together with the decision.
    Voting { open: Vec<Participant>, yes: Vec<Participant>, has_last_agent: bool, answer: ProcedureResult },
    /// A decision is proposed. `own`: this coordinator has branches in the attempt.
    Proposing { own: bool },
    /// The attempt is aborted; rolling back the branches of this coordinator.
    RollingBack,
    /// A database is unavailable; rolling back the branches in the others. There is no decision.
    Withdrawing,
    /// Carrying out the recorded commit.
    Finishing { open: Vec<Participant>, rolling_back: bool, answer: ProcedureResult },
    /// The client is answered.
    Ended,
}

/// The result of an action.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Event {
    /// The recorded decision of the attempt, if there is one.
    Recorded(Option<Decision>),
    /// The request is too old; its decision is forgotten.
    Forgotten,
    /// The registers are full, and this coordinator has not recorded a decision.
    NoRoom,
    /// A database or the decision store is unavailable. No branch was asked to vote.
    Unavailable,
    /// Another coordinator of the attempt, as far as other servers report one. `None` while waiting for one:
    /// it has ended without a decision.
    OtherCoordinator(Option<CoordinatorId>),
    /// The other coordinator is suspected.
    Suspected,
    /// Its sessions are terminated in the reachable databases.
    Fenced,
    /// The procedure has ended.
    Executed(ExecutionResult),
    /// The vote of a branch.
    Voted(Participant, VoteResult),
    /// The branches of this coordinator are rolled back, or recovery will roll them back.
    RolledBack,
    /// A branch is committed.
    Committed(Participant),
}

/// How the execution of a procedure ended.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ExecutionResult {
    /// With an answer, and with changes in these branches.
    Done {
        /// The branches that it began.
        branches: Vec<Participant>,
        answer: ProcedureResult,
    },
    /// It failed, and may succeed in another attempt: a deadlock, a lost connection, a timeout.
    Failed,
}

/// The vote of a branch.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum VoteResult {
    /// The branch is prepared.
    Yes,
    /// The branch changed nothing and has ended.
    Unchanged,
    /// The branch cannot commit.
    No,
}

/// The next action. An [`Event`] reports its result.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum CoordinatorAction {
    /// Read the decision of the attempt: [`Event::Recorded`], [`Event::Forgotten`] or [`Event::Unavailable`].
    ReadDecision(AttemptNumber),
    /// Ask the other servers for a coordinator of the attempt: [`Event::OtherCoordinator`].
    FindCoordinator(AttemptNumber),
    /// Poll for the decision of the attempt and monitor the other coordinator: [`Event::Recorded`],
    /// [`Event::OtherCoordinator`], [`Event::Suspected`] or [`Event::Unavailable`].
    AwaitDecision(AttemptNumber, CoordinatorId),
    /// Terminate the sessions of the other coordinator's server in all databases if it is suspected:
    /// [`Event::Fenced`].
    Fence(AttemptNumber, CoordinatorId),
    /// Execute the procedure: [`Event::Executed`] or [`Event::Unavailable`].
    Execute(AttemptId),
    /// Prepare a branch: [`Event::Voted`].
    Vote(AttemptId, Participant),
    /// Record the decision unless there is one, and retry until the recorded decision is known:
    /// [`Event::Recorded`], [`Event::Forgotten`] or [`Event::NoRoom`].
    Propose(AttemptNumber, Decision),
    /// The same, atomically with the commit of the branch in the database that records the decision. If
    /// another decision is recorded, the branch is rolled back.
    CommitDeciding(AttemptId, Commit),
    /// Roll back every branch of the attempt that is not committed: [`Event::RolledBack`].
    RollBack(AttemptId),
    /// Commit a branch of any coordinator, and retry until it is committed: [`Event::Committed`].
    Commit(AttemptId, Participant),
    Answer(ClientOutcome),
}

impl CoordinatorAction {
    /// The attempt of the action and of its event; `None` for an answer, which has no event.
    pub fn attempt(&self) -> Option<AttemptNumber> {
        match self {
            Self::ReadDecision(attempt)
            | Self::FindCoordinator(attempt)
            | Self::AwaitDecision(attempt, _)
            | Self::Fence(attempt, _)
            | Self::Propose(attempt, _) => Some(*attempt),
            Self::Execute(own)
            | Self::Vote(own, _)
            | Self::CommitDeciding(own, _)
            | Self::RollBack(own)
            | Self::Commit(own, _) => Some(own.number),
            Self::Answer(_) => None,
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ClientOutcome {
    /// The answer to the request.
    Answer(ProcedureResult),
    /// Every attempt failed. Nothing has taken effect, and nothing will.
    GivenUp,
    /// A request with the same id and other content was answered.
    Mismatch,
    /// The request is too old: whether it took effect is no longer known.
    Forgotten,
    /// The registers are full. The client retries with the same id.
    NoRoom,
    /// A database or the decision store is unavailable. No attempt was used. The client retries with the same
    /// id.
    Unavailable,
}

impl CoordinatorState {
    /// Begins a request. `coordinator` must be new.
    ///
    /// A request that the client sends for the first time is executed at once. If a decision is recorded all
    /// the same, or another coordinator executes the request, that shows when the decision is proposed. A
    /// read beforehand would cost every request a round trip that hardly any needs.
    pub fn begin(
        transaction: TransactionRequest,
        coordinator: CoordinatorId,
        is_first_time: bool,
    ) -> (Self, Vec<CoordinatorAction>) {
        let mut state =
            Self { transaction, coordinator, attempt: AttemptNumber::FIRST, phase: Phase::Reading };
        let actions = if is_first_time {
            state.enter(Phase::Executing, CoordinatorAction::Execute(state.own()))
        } else {
            vec![CoordinatorAction::ReadDecision(AttemptNumber::FIRST)]
        };
        (state, actions)
    }

    pub fn coordinator(&self) -> CoordinatorId {
        self.coordinator
    }

    /// The current attempt.
    pub fn attempt(&self) -> AttemptNumber {
        self.attempt
    }

    /// Whether this coordinator may have branches or a proposal in flight in the attempt. Others must then
    /// leave its branches alone.
    pub fn is_executing(&self, attempt: AttemptNumber) -> bool {
        let is_executing = match self.phase {
            Phase::Executing | Phase::Voting { .. } | Phase::RollingBack | Phase::Withdrawing => true,
            Phase::Proposing { own } => own,
            Phase::Finishing { rolling_back, .. } => rolling_back,
            Phase::Reading | Phase::Searching | Phase::Waiting(_) | Phase::Fencing | Phase::Ended => false,
        };
        is_executing && attempt == self.attempt
    }

    /// Whether the client has been answered.
    pub fn has_ended(&self) -> bool {
        self.phase == Phase::Ended
    }

    /// Handles an event of an attempt. An event of another attempt, or one that does not fit the phase, is
    /// late and ignored: a vote that was in flight when an attempt was aborted must not count for the next
    /// one.
    pub fn on(&mut self, attempt: AttemptNumber, event: Event) -> Vec<CoordinatorAction> {
        if attempt != self.attempt {
            return Vec::new();
        }
        let phase = std::mem::replace(&mut self.phase, Phase::Ended);
        match (phase, event) {
            (
                Phase::Reading | Phase::Waiting(_) | Phase::Proposing { own: false },
                Event::Recorded(Some(decision)),
            ) => self.carry_out(decision, false),
            (Phase::Proposing { own: true }, Event::Recorded(Some(decision))) => {
                self.carry_out(decision, true)
            }
            // The other coordinator has ended without a decision.
            (Phase::Reading, Event::Recorded(None)) | (Phase::Waiting(_), Event::OtherCoordinator(None)) => {
                self.enter(Phase::Searching, CoordinatorAction::FindCoordinator(self.attempt))
            }
            (Phase::Reading | Phase::Waiting(_) | Phase::Proposing { own: false }, Event::Forgotten) => {
                vec![CoordinatorAction::Answer(ClientOutcome::Forgotten)]
            }
            (Phase::Proposing { own: true }, Event::Forgotten) => {
                vec![
                    CoordinatorAction::RollBack(self.own()),
                    CoordinatorAction::Answer(ClientOutcome::Forgotten),
                ]
            }
            // Only a decision of this coordinator commits its branches. They must not block others until the
            // registers have room.
            (Phase::Proposing { own: true }, Event::NoRoom) => {
                vec![
                    CoordinatorAction::RollBack(self.own()),
                    CoordinatorAction::Answer(ClientOutcome::NoRoom),
                ]
            }
            (Phase::Proposing { own: false }, Event::NoRoom) => {
                vec![CoordinatorAction::Answer(ClientOutcome::NoRoom)]
            }
            (Phase::Reading | Phase::Waiting(_), Event::Unavailable)
            | (Phase::Withdrawing, Event::RolledBack) => {
                vec![CoordinatorAction::Answer(ClientOutcome::Unavailable)]
            }
            // No branch is prepared or will be, and this coordinator proposes no commit. So the attempt needs
            // no decision, and another coordinator can execute it.
            (Phase::Executing, Event::Unavailable) => {
                self.enter(Phase::Withdrawing, CoordinatorAction::RollBack(self.own()))
            }
            (Phase::Searching, Event::OtherCoordinator(None)) => {
                self.enter(Phase::Executing, CoordinatorAction::Execute(self.own()))
            }
            (Phase::Searching, Event::OtherCoordinator(Some(other))) => {
                self.enter(Phase::Waiting(other), CoordinatorAction::AwaitDecision(self.attempt, other))
            }
            (Phase::Waiting(other), Event::Suspected) => {
                self.enter(Phase::Fencing, CoordinatorAction::Fence(self.attempt, other))
            }
            (Phase::Fencing, Event::Fenced) => self.propose_abort(false),
            (Phase::Executing, Event::Executed(executed)) => self.executed(executed),
            (Phase::Voting { open, yes, has_last_agent, answer }, Event::Voted(branch, vote)) => {
                self.voted(open, yes, has_last_agent, answer, branch, vote)
            }
            (Phase::RollingBack, Event::RolledBack) => self.next_attempt(),
            (Phase::Finishing { open, answer, .. }, Event::RolledBack) => self.finish(open, false, answer),
            (Phase::Finishing { mut open, rolling_back, answer }, Event::Committed(branch)) => {
                open.retain(|other| *other != branch);
                self.finish(open, rolling_back, answer)
            }
            (phase, _) => {
                self.phase = phase;
                Vec::new()
            }
        }
    }

    fn own(&self) -> AttemptId {
        self.of(self.coordinator)
    }

    fn of(&self, coordinator: CoordinatorId) -> AttemptId {
        let TransactionRequest { request, decision_location, .. } = self.transaction;
        AttemptId { request, number: self.attempt, coordinator, decision_location }
    }

    fn enter(&mut self, phase: Phase, action: CoordinatorAction) -> Vec<CoordinatorAction> {
        self.phase = phase;
        vec![action]
    }

    fn executed(&mut self, executed: ExecutionResult) -> Vec<CoordinatorAction> {
        match executed {
            ExecutionResult::Failed => self.propose_abort(true),
            // An answer without changes: the branches are rolled back.
            ExecutionResult::Done { answer, .. } if !answer.has_effects() => {
                let commit = self.commit(Vec::new(), answer);
                self.enter(
                    Phase::Proposing { own: true },
                    CoordinatorAction::Propose(self.attempt, Decision::Commit(commit)),
                )
            }
            ExecutionResult::Done { branches, answer } => {
                let decides_here = |branch: &Participant| {
                    self.transaction.decision_location == DecisionLocation::Resource(branch.resource)
                };
                let has_last_agent = branches.iter().any(decides_here);
                let open: Vec<_> = branches.into_iter().filter(|branch| !decides_here(branch)).collect();
                self.vote(open, Vec::new(), has_last_agent, answer)
            }
        }
    }

    /// Requests all votes, or proposes a commit if there is no branch to prepare.
    fn vote(
        &mut self,
        open: Vec<Participant>,
        yes: Vec<Participant>,
        has_last_agent: bool,
        answer: ProcedureResult,
    ) -> Vec<CoordinatorAction> {
        if open.is_empty() {
            return self.propose_commit(yes, has_last_agent, answer);
        }
        let own = self.own();
        let actions = open.iter().map(|branch| CoordinatorAction::Vote(own, *branch)).collect();
        self.phase = Phase::Voting { open, yes, has_last_agent, answer };
        actions
    }

    fn voted(
        &mut self,
        mut open: Vec<Participant>,
        mut yes: Vec<Participant>,
        has_last_agent: bool,
        answer: ProcedureResult,
        branch: Participant,
        vote: VoteResult,
    ) -> Vec<CoordinatorAction> {
        let Some(index) = open.iter().position(|other| *other == branch) else {
            self.phase = Phase::Voting { open, yes, has_last_agent, answer };
            return Vec::new();
        };
        open.remove(index);
        match vote {
            VoteResult::No => return self.propose_abort(true),
            VoteResult::Yes => yes.push(branch),
            VoteResult::Unchanged => {}
        }
        if open.is_empty() {
            yes.sort_unstable();
            return self.propose_commit(yes, has_last_agent, answer);
        }
        self.phase = Phase::Voting { open, yes, has_last_agent, answer };
        Vec::new()
    }

    fn commit(&self, branches: Vec<Participant>, answer: ProcedureResult) -> Commit {
        Commit {
            coordinator: self.coordinator,
            branches,
            request_hash: self.transaction.request_hash,
            answer,
        }
    }

    fn propose_commit(
        &mut self,
        yes: Vec<Participant>,
        has_last_agent: bool,
        answer: ProcedureResult,
    ) -> Vec<CoordinatorAction> {
        let commit = self.commit(yes, answer);
        let action = if has_last_agent {
            CoordinatorAction::CommitDeciding(self.own(), commit)
        } else {
            CoordinatorAction::Propose(self.attempt, Decision::Commit(commit))
        };
        self.enter(Phase::Proposing { own: true }, action)
    }

    fn propose_abort(&mut self, own: bool) -> Vec<CoordinatorAction> {
        self.enter(Phase::Proposing { own }, CoordinatorAction::Propose(self.attempt, Decision::Abort))
    }

    /// Carries out the recorded decision. `own`: this coordinator has branches in the attempt.
    fn carry_out(&mut self, decision: Decision, own: bool) -> Vec<CoordinatorAction> {
        match decision {
            Decision::Abort if own => self.enter(Phase::RollingBack, CoordinatorAction::RollBack(self.own())),
            Decision::Abort => self.next_attempt(),
            Decision::Commit(commit) if commit.request_hash != self.transaction.request_hash => {
                let mut actions =
                    if own { vec![CoordinatorAction::RollBack(self.own())] } else { Vec::new() };
                actions.push(CoordinatorAction::Answer(ClientOutcome::Mismatch));
                actions
            }
            Decision::Commit(commit) => {
                // Roll our branches back if another coordinator won, or if the transaction was refused.
                let rolling_back =
                    own && (commit.coordinator != self.coordinator || commit.branches.is_empty());
                let theirs = self.of(commit.coordinator);
                let mut actions =
                    if rolling_back { vec![CoordinatorAction::RollBack(self.own())] } else { Vec::new() };
                actions
                    .extend(commit.branches.iter().map(|branch| CoordinatorAction::Commit(theirs, *branch)));
                actions.extend(self.finish(commit.branches, rolling_back, commit.answer));
                actions
            }
        }
    }

    fn finish(
        &mut self,
        open: Vec<Participant>,
        rolling_back: bool,
        answer: ProcedureResult,
    ) -> Vec<CoordinatorAction> {
        if open.is_empty() && !rolling_back {
            return vec![CoordinatorAction::Answer(ClientOutcome::Answer(answer))];
        }
        self.phase = Phase::Finishing { open, rolling_back, answer };
        Vec::new()
    }

    fn next_attempt(&mut self) -> Vec<CoordinatorAction> {
        match self.attempt.next() {
            None => vec![CoordinatorAction::Answer(ClientOutcome::GivenUp)],
            Some(next) => {
                self.attempt = next;
                self.enter(Phase::Reading, CoordinatorAction::ReadDecision(next))
            }
        }
    }
}
