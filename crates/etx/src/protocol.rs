//! The work of a server on a request: from the first look at what stands about it to the answer.
//!
//! A pure machine: it is told what happened ([`Event`]) and tells what to do next ([`CoordinatorAction`]). The server carries the steps out on databases and
//! registers; the model checker carries them out on its own, in every order, with everything that can fail in between.
//!
//! What must hold:
//! - A commit is proposed only if all branches that changed something have voted yes.
//! - Nothing is answered before what stands is carried out everywhere. (A.1)
//! - A try is begun only when the one before it stands as aborted. (A.2)
//! - It is never this machine that knows the outcome, only what stands. Its own proposal counts as little as another's.

use crate::decision::{Commit, Decision, Participant, ProcedureResult};
use crate::{AttemptId, AttemptNumber, CoordinatorId, DecisionLocation, RequestId};

/// What is asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TransactionRequest {
    /// The name of the request.
    pub request: RequestId,
    /// Where decisions about it are kept.
    pub home: DecisionLocation,
    /// What is asked, as a hash.
    pub asked: u128,
}

/// A server's work on a request.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CoordinatorState {
    question: TransactionRequest,
    executor: CoordinatorId,
    attempt: AttemptNumber,
    phase: Phase,
}

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
enum Phase {
    /// What stands about the try?
    Looking,
    /// Nothing does. Is another server at it?
    Asking,
    /// One is; what it does will show.
    Attached(CoordinatorId),
    /// It seems dead, and its sessions are ended.
    Fencing,
    /// The business logic is at work in the databases.
    Computing,
    /// The databases are asked whether they can commit.
    Voting { open: Vec<Participant>, yes: Vec<Participant>, at_home: bool, answer: ProcedureResult },
    /// A decision is proposed. `own` says whether there are branches of ours in this try.
    Proposing { own: bool },
    /// What stands is that the try is void; our branches of it are rolled back.
    Undoing,
    /// What stands is carried out.
    Finishing { open: Vec<Participant>, undoing: bool, answer: ProcedureResult },
    /// Over.
    Over,
}

/// What happened.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Event {
    /// This stands about the try; or nothing yet.
    Stands(Option<Decision>),
    /// What stood about the request is forgotten, for it is too old.
    Forgotten,
    /// There is no room to write a decision, and none was written by this executor.
    NoRoom,
    /// Who else works on the try, as far as others say.
    Others(Option<CoordinatorId>),
    /// The other server seems to be dead.
    Suspected,
    /// Its sessions were ended, as far as that could be.
    Fenced,
    /// The business logic has come to its end.
    Computed(ExecutionResult),
    /// What a database said when it was asked.
    Voted(Participant, VoteResult),
    /// The branches of ours that nobody wants are rolled back, or will be by whoever finds them.
    Undone,
    /// A branch has been committed, for sure.
    Committed(Participant),
}

/// How the business logic came to its end.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ExecutionResult {
    /// With an answer, and with effects in these branches.
    Done {
        /// The branches that it began.
        branches: Vec<Participant>,
        /// The answer.
        answer: ProcedureResult,
    },
    /// It did not: a deadlock, a lost connection, a time that ran out. It may the next time.
    Failed,
}

/// What a database says when it is asked whether it can commit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum VoteResult {
    /// It can, whatever happens.
    Yes,
    /// There is nothing to commit; the branch is over.
    Unchanged,
    /// It cannot.
    No,
}

/// What to do next. Each is told of by an [`Event`] when it is done.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum CoordinatorAction {
    /// Look what stands about the try: [`Event::Stands`] or [`Event::Forgotten`].
    Look(AttemptNumber),
    /// Ask the other servers who works on the try: [`Event::Others`].
    AskOthers(AttemptNumber),
    /// Look again and again what stands about the try, and watch the executor: [`Event::Stands`], or [`Event::Suspected`].
    Await(AttemptNumber, CoordinatorId),
    /// End the sessions of the executor's server in all databases, if it seems dead: [`Event::Fenced`].
    Fence(AttemptNumber, CoordinatorId),
    /// Run the business logic: [`Event::Computed`].
    Compute(AttemptId),
    /// Ask a database for its vote: [`Event::Voted`].
    Vote(AttemptId, Participant),
    /// Write the decision, if none stands, again and again until it is known what stands: [`Event::Stands`] or [`Event::Forgotten`]. Or [`Event::NoRoom`].
    Propose(AttemptNumber, Decision),
    /// The same, in one with committing the branch in the database that keeps the decisions. If something else stands, the branch is rolled back.
    CommitDeciding(AttemptId, Commit),
    /// Roll back every branch of the attempt that is not committed: [`Event::Undone`].
    Undo(AttemptId),
    /// Commit a branch, ours or another's, until it is sure: [`Event::Committed`].
    Commit(AttemptId, Participant),
    /// Tell the client.
    Answer(ClientOutcome),
}

impl CoordinatorAction {
    /// The try that it is about, and that its event is of; none for an answer, which has no event.
    pub fn attempt(&self) -> Option<AttemptNumber> {
        match self {
            Self::Look(attempt)
            | Self::AskOthers(attempt)
            | Self::Await(attempt, _)
            | Self::Fence(attempt, _)
            | Self::Propose(attempt, _) => Some(*attempt),
            Self::Compute(own)
            | Self::Vote(own, _)
            | Self::CommitDeciding(own, _)
            | Self::Undo(own)
            | Self::Commit(own, _) => Some(own.number),
            Self::Answer(_) => None,
        }
    }
}

/// What the client is told.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ClientOutcome {
    /// The one answer to the request.
    Answer(ProcedureResult),
    /// Every try failed; nothing has taken effect, and nothing will.
    GivenUp,
    /// The request was answered when it was asked with other words.
    Mismatch,
    /// The request is too old: whether it took effect is no longer known.
    Forgotten,
    /// There is no room to decide anything. To be asked again, with the same id.
    NoRoom,
}

impl CoordinatorState {
    /// Takes a request on. The executor must never have worked on it before.
    ///
    /// One that is asked for the first time, as far as the client knows, is worked on at once. Should something stand about it all the same,
    /// or another be at it, that shows when the decision is proposed; looking first would cost every request what hardly any needs.
    pub fn begin(
        question: TransactionRequest,
        executor: CoordinatorId,
        is_first_time: bool,
    ) -> (Self, Vec<CoordinatorAction>) {
        let mut work = Self { question, executor, attempt: AttemptNumber::FIRST, phase: Phase::Looking };
        let steps = if is_first_time {
            work.go(Phase::Computing, CoordinatorAction::Compute(work.own()))
        } else {
            vec![CoordinatorAction::Look(AttemptNumber::FIRST)]
        };
        (work, steps)
    }

    /// Who works.
    pub fn executor(&self) -> CoordinatorId {
        self.executor
    }

    /// The try that it has come to.
    pub fn attempt(&self) -> AttemptNumber {
        self.attempt
    }

    /// Whether the executor may have branches, or a proposal under way, in this try. Others must then leave its branches alone.
    pub fn is_executing(&self, attempt: AttemptNumber) -> bool {
        let at_work = match self.phase {
            Phase::Computing | Phase::Voting { .. } | Phase::Undoing => true,
            Phase::Proposing { own } => own,
            Phase::Finishing { undoing, .. } => undoing,
            Phase::Looking | Phase::Asking | Phase::Attached(_) | Phase::Fencing | Phase::Over => false,
        };
        at_work && attempt == self.attempt
    }

    /// Whether the client has been answered.
    pub fn is_over(&self) -> bool {
        self.phase == Phase::Over
    }

    /// Takes in what happened about a try. What is of another try, or does not fit the phase any more, comes too late and means nothing: a vote that was under way when
    /// a try was given up must not be taken for a vote of the next.
    pub fn on(&mut self, attempt: AttemptNumber, event: Event) -> Vec<CoordinatorAction> {
        if attempt != self.attempt {
            return Vec::new();
        }
        let phase = std::mem::replace(&mut self.phase, Phase::Over);
        match (phase, event) {
            (
                Phase::Looking | Phase::Attached(_) | Phase::Proposing { own: false },
                Event::Stands(Some(decision)),
            ) => self.settle(decision, false),
            (Phase::Proposing { own: true }, Event::Stands(Some(decision))) => self.settle(decision, true),
            (Phase::Looking, Event::Stands(None)) => {
                self.go(Phase::Asking, CoordinatorAction::AskOthers(self.attempt))
            }
            (Phase::Looking | Phase::Attached(_) | Phase::Proposing { own: false }, Event::Forgotten) => {
                vec![CoordinatorAction::Answer(ClientOutcome::Forgotten)]
            }
            (Phase::Proposing { own: true }, Event::Forgotten) => {
                vec![CoordinatorAction::Undo(self.own()), CoordinatorAction::Answer(ClientOutcome::Forgotten)]
            }
            // What we have is committed by nothing but a decision of ours. Others are not to wait for it until there is room.
            (Phase::Proposing { own: true }, Event::NoRoom) => {
                vec![CoordinatorAction::Undo(self.own()), CoordinatorAction::Answer(ClientOutcome::NoRoom)]
            }
            (Phase::Proposing { own: false }, Event::NoRoom) => {
                vec![CoordinatorAction::Answer(ClientOutcome::NoRoom)]
            }
            (Phase::Asking, Event::Others(None)) => {
                self.go(Phase::Computing, CoordinatorAction::Compute(self.own()))
            }
            (Phase::Asking, Event::Others(Some(other))) => {
                self.go(Phase::Attached(other), CoordinatorAction::Await(self.attempt, other))
            }
            (Phase::Attached(other), Event::Suspected) => {
                self.go(Phase::Fencing, CoordinatorAction::Fence(self.attempt, other))
            }
            (Phase::Fencing, Event::Fenced) => self.propose_abort(false),
            (Phase::Computing, Event::Computed(computed)) => self.computed(computed),
            (Phase::Voting { open, yes, at_home, answer }, Event::Voted(branch, voice)) => {
                self.voted(open, yes, at_home, answer, branch, voice)
            }
            (Phase::Undoing, Event::Undone) => self.try_again(),
            (Phase::Finishing { open, answer, .. }, Event::Undone) => self.finish(open, false, answer),
            (Phase::Finishing { mut open, undoing, answer }, Event::Committed(branch)) => {
                open.retain(|other| *other != branch);
                self.finish(open, undoing, answer)
            }
            (phase, _) => {
                self.phase = phase;
                Vec::new()
            }
        }
    }

    fn own(&self) -> AttemptId {
        self.of(self.executor)
    }

    fn of(&self, executor: CoordinatorId) -> AttemptId {
        let TransactionRequest { request, home, .. } = self.question;
        AttemptId { request, number: self.attempt, executor, home }
    }

    fn go(&mut self, phase: Phase, step: CoordinatorAction) -> Vec<CoordinatorAction> {
        self.phase = phase;
        vec![step]
    }

    fn computed(&mut self, computed: ExecutionResult) -> Vec<CoordinatorAction> {
        match computed {
            ExecutionResult::Failed => self.propose_abort(true),
            // What has no effects leaves none: whatever its branches hold is rolled back.
            ExecutionResult::Done { answer, .. } if !answer.has_effects() => {
                let commit = self.commit(Vec::new(), answer);
                self.go(
                    Phase::Proposing { own: true },
                    CoordinatorAction::Propose(self.attempt, Decision::Commit(commit)),
                )
            }
            ExecutionResult::Done { branches, answer } => {
                let is_home =
                    |branch: &Participant| self.question.home == DecisionLocation::Resource(branch.resource);
                let at_home = branches.iter().any(is_home);
                let open: Vec<_> = branches.into_iter().filter(|branch| !is_home(branch)).collect();
                self.vote(open, Vec::new(), at_home, answer)
            }
        }
    }

    /// Asks all databases at once, or proposes to commit if there is none to ask.
    fn vote(
        &mut self,
        open: Vec<Participant>,
        yes: Vec<Participant>,
        at_home: bool,
        answer: ProcedureResult,
    ) -> Vec<CoordinatorAction> {
        if open.is_empty() {
            return self.propose_commit(yes, at_home, answer);
        }
        let own = self.own();
        let steps = open.iter().map(|branch| CoordinatorAction::Vote(own, *branch)).collect();
        self.phase = Phase::Voting { open, yes, at_home, answer };
        steps
    }

    fn voted(
        &mut self,
        mut open: Vec<Participant>,
        mut yes: Vec<Participant>,
        at_home: bool,
        answer: ProcedureResult,
        branch: Participant,
        voice: VoteResult,
    ) -> Vec<CoordinatorAction> {
        let Some(place) = open.iter().position(|other| *other == branch) else {
            self.phase = Phase::Voting { open, yes, at_home, answer };
            return Vec::new();
        };
        open.remove(place);
        match voice {
            VoteResult::No => return self.propose_abort(true),
            VoteResult::Yes => yes.push(branch),
            VoteResult::Unchanged => {}
        }
        if open.is_empty() {
            yes.sort_unstable();
            return self.propose_commit(yes, at_home, answer);
        }
        self.phase = Phase::Voting { open, yes, at_home, answer };
        Vec::new()
    }

    fn commit(&self, branches: Vec<Participant>, answer: ProcedureResult) -> Commit {
        Commit { executor: self.executor, branches, asked: self.question.asked, answer }
    }

    fn propose_commit(
        &mut self,
        yes: Vec<Participant>,
        at_home: bool,
        answer: ProcedureResult,
    ) -> Vec<CoordinatorAction> {
        let commit = self.commit(yes, answer);
        let step = if at_home {
            CoordinatorAction::CommitDeciding(self.own(), commit)
        } else {
            CoordinatorAction::Propose(self.attempt, Decision::Commit(commit))
        };
        self.go(Phase::Proposing { own: true }, step)
    }

    fn propose_abort(&mut self, own: bool) -> Vec<CoordinatorAction> {
        self.go(Phase::Proposing { own }, CoordinatorAction::Propose(self.attempt, Decision::Abort))
    }

    /// Obeys what stands. `own` says whether there are branches of ours in the try.
    fn settle(&mut self, decision: Decision, own: bool) -> Vec<CoordinatorAction> {
        match decision {
            Decision::Abort if own => self.go(Phase::Undoing, CoordinatorAction::Undo(self.own())),
            Decision::Abort => self.try_again(),
            Decision::Commit(commit) if commit.asked != self.question.asked => {
                let mut steps = if own { vec![CoordinatorAction::Undo(self.own())] } else { Vec::new() };
                steps.push(CoordinatorAction::Answer(ClientOutcome::Mismatch));
                steps
            }
            Decision::Commit(commit) => {
                // What of ours does not count goes: all of it if another has won, and after a refusal.
                let undoing = own && (commit.executor != self.executor || commit.branches.is_empty());
                let theirs = self.of(commit.executor);
                let mut steps = if undoing { vec![CoordinatorAction::Undo(self.own())] } else { Vec::new() };
                steps.extend(commit.branches.iter().map(|branch| CoordinatorAction::Commit(theirs, *branch)));
                steps.extend(self.finish(commit.branches, undoing, commit.answer));
                steps
            }
        }
    }

    fn finish(
        &mut self,
        open: Vec<Participant>,
        undoing: bool,
        answer: ProcedureResult,
    ) -> Vec<CoordinatorAction> {
        if open.is_empty() && !undoing {
            return vec![CoordinatorAction::Answer(ClientOutcome::Answer(answer))];
        }
        self.phase = Phase::Finishing { open, undoing, answer };
        Vec::new()
    }

    fn try_again(&mut self) -> Vec<CoordinatorAction> {
        match self.attempt.next() {
            None => vec![CoordinatorAction::Answer(ClientOutcome::GivenUp)],
            Some(next) => {
                self.attempt = next;
                self.go(Phase::Looking, CoordinatorAction::Look(next))
            }
        }
    }
}
