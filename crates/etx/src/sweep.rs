//! What becomes of a branch that is found prepared in a database.
//!
//! Its executor may be at work, or dead, or have lost sight of it: a vote that was under way when the connection broke can still come about, after
//! everybody was told that the try is void. So the databases are swept, for ever, and each branch found is looked into.
//!
//! What must hold: a branch is ended only by what stands about its try. If nothing stands, and the executor seems dead, it is first written
//! that the try is void; and what then stands is obeyed, for the executor may have been faster.

use crate::{BranchName, Decision, Executor, Outcome, Try};

/// A look into one prepared branch.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Sweep {
    branch: BranchName,
    phase: Phase,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
enum Phase {
    Looking,
    Asking,
    Fencing,
    Proposing,
    Ending,
    Over,
}

/// What happened.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Found {
    /// This stands about the try; or nothing yet.
    Stands(Option<Decision>),
    /// What stood is forgotten. Commits are not forgotten before they are carried out, so it was no commit.
    Forgotten,
    /// Whether the executor is still at work on this try, as far as can be told.
    Executor {
        /// Whether it is.
        is_working: bool,
    },
    /// The executor will do nothing more.
    Fenced,
    /// The branch has ended.
    Ended,
}

/// What to do next. Each is told of by [`Found`] when it is done.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Sweeping {
    /// Look what stands about the try.
    Look(Try),
    /// Find out whether the executor is at work.
    AskFor(Executor, Try),
    /// End what the executor does in all databases.
    Fence(Executor),
    /// Write that the try is void, if nothing stands, until it is known what stands.
    ProposeAbort(Try),
    /// End the branch, until it is sure.
    End(BranchName, Outcome),
}

impl Sweep {
    /// Looks into a branch.
    pub fn begin(branch: BranchName) -> (Self, Sweeping) {
        (Self { branch, phase: Phase::Looking }, Sweeping::Look(branch.attempt))
    }

    /// The branch.
    pub fn branch(&self) -> &BranchName {
        &self.branch
    }

    /// Whether there is nothing more to do: the branch has ended, or is in good hands.
    pub fn is_over(&self) -> bool {
        self.phase == Phase::Over
    }

    /// Takes in what happened.
    pub fn on(&mut self, found: Found) -> Option<Sweeping> {
        let BranchName { executor, attempt, .. } = self.branch;
        match (self.phase, found) {
            (Phase::Looking | Phase::Proposing, Found::Stands(Some(decision))) => {
                self.end(decision.outcome(&self.branch))
            }
            (Phase::Looking | Phase::Proposing, Found::Forgotten) => self.end(Outcome::Abort),
            (Phase::Looking, Found::Stands(None)) => {
                self.go(Phase::Asking, Sweeping::AskFor(executor, attempt))
            }
            (Phase::Asking, Found::Executor { is_working: true }) | (Phase::Ending, Found::Ended) => {
                self.phase = Phase::Over;
                None
            }
            (Phase::Asking, Found::Executor { is_working: false }) => {
                self.go(Phase::Fencing, Sweeping::Fence(executor))
            }
            (Phase::Fencing, Found::Fenced) => self.go(Phase::Proposing, Sweeping::ProposeAbort(attempt)),
            _ => None,
        }
    }

    fn go(&mut self, phase: Phase, next: Sweeping) -> Option<Sweeping> {
        self.phase = phase;
        Some(next)
    }

    fn end(&mut self, outcome: Outcome) -> Option<Sweeping> {
        let branch = self.branch;
        self.go(Phase::Ending, Sweeping::End(branch, outcome))
    }
}
