//! What becomes of a branch that is found prepared in a database.
//!
//! Its executor may be at work, or dead, or have lost sight of it: a vote that was under way when the connection broke can still come about, after
//! everybody was told that the try is void. So the databases are swept, for ever, and each branch found is looked into.
//!
//! What must hold: a branch is ended only by what stands about its try. If nothing stands, and the executor seems dead, it is first written
//! that the try is void; and what then stands is obeyed, for the executor may have been faster.

use crate::{AttemptNumber, CoordinatorId, Decision, Outcome, Xid};

/// A look into one prepared branch.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct BranchRecovery {
    branch: Xid,
    phase: Phase,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
enum Phase {
    Looking,
    Asking,
    Proposing,
    ListingAgain,
    Ending,
    Over,
}

/// What happened.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum RecoveryEvent {
    /// This stands about the try; or nothing yet.
    Stands(Option<Decision>),
    /// What stood is forgotten. Commits are not forgotten before they are carried out, so if the branch is still prepared, it was no commit.
    Forgotten,
    /// Whether the branch is prepared now.
    Listed {
        /// Whether it is.
        is_prepared: bool,
    },
    /// Whether the executor is still at work on this try, as far as can be told.
    Executor {
        /// Whether it is.
        is_working: bool,
    },
    /// The branch has ended.
    Ended,
}

/// What to do next. Each is told of by [`RecoveryEvent`] when it is done.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum RecoveryAction {
    /// Look what stands about the try.
    Look(AttemptNumber),
    /// Look whether the branch is still prepared.
    ListAgain(Xid),
    /// Find out whether the executor is at work.
    AskFor(CoordinatorId, AttemptNumber),
    /// Write that the try is void, if nothing stands, until it is known what stands.
    ProposeAbort(AttemptNumber),
    /// End the branch, until it is sure.
    End(Xid, Outcome),
}

impl BranchRecovery {
    /// Looks into a branch.
    pub fn begin(branch: Xid) -> (Self, RecoveryAction) {
        (Self { branch, phase: Phase::Looking }, RecoveryAction::Look(branch.attempt))
    }

    /// The branch.
    pub fn branch(&self) -> &Xid {
        &self.branch
    }

    /// Whether there is nothing more to do: the branch has ended, or is in good hands.
    pub fn is_over(&self) -> bool {
        self.phase == Phase::Over
    }

    /// Takes in what happened.
    pub fn on(&mut self, found: RecoveryEvent) -> Option<RecoveryAction> {
        let Xid { executor, attempt, .. } = self.branch;
        match (self.phase, found) {
            (Phase::Looking | Phase::Proposing, RecoveryEvent::Stands(Some(decision))) => {
                self.end(decision.outcome(&self.branch))
            }
            // It may have been committed, answered and acknowledged since it was listed.
            (Phase::Looking | Phase::Proposing, RecoveryEvent::Forgotten) => {
                let branch = self.branch;
                self.go(Phase::ListingAgain, RecoveryAction::ListAgain(branch))
            }
            (Phase::ListingAgain, RecoveryEvent::Listed { is_prepared: true }) => self.end(Outcome::Abort),
            (Phase::Looking, RecoveryEvent::Stands(None)) => {
                self.go(Phase::Asking, RecoveryAction::AskFor(executor, attempt))
            }
            (Phase::Asking, RecoveryEvent::Executor { is_working: true })
            | (Phase::ListingAgain, RecoveryEvent::Listed { is_prepared: false })
            | (Phase::Ending, RecoveryEvent::Ended) => {
                self.phase = Phase::Over;
                None
            }
            (Phase::Asking, RecoveryEvent::Executor { is_working: false }) => {
                self.go(Phase::Proposing, RecoveryAction::ProposeAbort(attempt))
            }
            _ => None,
        }
    }

    fn go(&mut self, phase: Phase, next: RecoveryAction) -> Option<RecoveryAction> {
        self.phase = phase;
        Some(next)
    }

    fn end(&mut self, outcome: Outcome) -> Option<RecoveryAction> {
        let branch = self.branch;
        self.go(Phase::Ending, RecoveryAction::End(branch, outcome))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{DecisionLocation, RequestId};

    /// Between the list and the look the executor may have committed the branch, and the client may have acknowledged the answer.
    #[test]
    fn what_is_forgotten_is_rolled_back_only_if_it_is_still_prepared() {
        let branch = Xid {
            cluster: 1.into(),
            request: RequestId { session: 2, sequence: 3 },
            attempt: AttemptNumber::FIRST,
            home: DecisionLocation::Registers,
            executor: CoordinatorId { server: 1, incarnation: 2, work: 3 },
            resource: 0,
            connection: 4,
        };
        for (is_prepared, next) in [(true, Some(RecoveryAction::End(branch, Outcome::Abort))), (false, None)]
        {
            let (mut sweep, _) = BranchRecovery::begin(branch);
            assert_eq!(sweep.on(RecoveryEvent::Forgotten), Some(RecoveryAction::ListAgain(branch)));
            assert_eq!(sweep.on(RecoveryEvent::Listed { is_prepared }), next);
            assert_eq!(sweep.is_over(), !is_prepared);
        }
    }
}
