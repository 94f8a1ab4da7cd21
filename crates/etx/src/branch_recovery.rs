//! Recovery of a branch that is found prepared in a database.
//!
//! Its coordinator may be running, may be dead, or may not know of the branch: a prepare that was in flight
//! when the connection broke can take effect after the attempt was aborted. So the recovery task lists the
//! prepared branches of all databases periodically and resolves each.
//!
//! Invariant: only the recorded decision of an attempt ends a branch. If there is none and the coordinator is
//! suspected, recovery first records an abort. It then obeys the recorded decision, because the coordinator
//! may have been faster.

use crate::{AttemptNumber, CoordinatorId, Decision, Outcome, Xid};

/// The recovery of one prepared branch.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct BranchRecovery {
    branch: Xid,
    phase: Phase,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
enum Phase {
    Reading,
    CheckingCoordinator,
    Proposing,
    CheckingPrepared,
    Ending,
    Ended,
}

/// The result of an action.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum RecoveryEvent {
    /// The recorded decision of the attempt, if there is one.
    Recorded(Option<Decision>),
    /// The decision is forgotten. A commit is forgotten only after it is carried out, so a branch that is
    /// still prepared was not committed.
    Forgotten,
    /// Whether the branch is prepared now.
    Listed {
        /// `false` if it has ended.
        is_prepared: bool,
    },
    /// Whether the coordinator is still executing this attempt.
    Coordinator {
        /// `false` if it is idle, restarted or suspected.
        is_working: bool,
    },
    /// The branch has ended.
    Ended,
}

/// The next action. A [`RecoveryEvent`] reports its result.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum RecoveryAction {
    ReadDecision(AttemptNumber),
    /// Check whether the branch is still prepared.
    CheckPrepared(Xid),
    /// Ask whether the coordinator is executing the attempt.
    CheckCoordinator(CoordinatorId, AttemptNumber),
    /// Record an abort unless there is a decision, and read the recorded decision. Retries until it is known.
    ProposeAbort(AttemptNumber),
    /// Commit or roll back the branch. Retries until it has ended.
    End(Xid, Outcome),
}

impl BranchRecovery {
    /// Starts the recovery of a branch.
    pub fn begin(branch: Xid) -> (Self, RecoveryAction) {
        (Self { branch, phase: Phase::Reading }, RecoveryAction::ReadDecision(branch.attempt))
    }

    /// The branch in recovery.
    pub fn branch(&self) -> &Xid {
        &self.branch
    }

    /// Whether no action is left: the branch has ended, or its coordinator is executing.
    pub fn has_ended(&self) -> bool {
        self.phase == Phase::Ended
    }

    /// Handles the result of the last action.
    pub fn on(&mut self, event: RecoveryEvent) -> Option<RecoveryAction> {
        let Xid { coordinator, attempt, .. } = self.branch;
        match (self.phase, event) {
            (Phase::Reading | Phase::Proposing, RecoveryEvent::Recorded(Some(decision))) => {
                self.end(decision.outcome(&self.branch))
            }
            // The branch may have been committed, answered and acknowledged since it was listed.
            (Phase::Reading | Phase::Proposing, RecoveryEvent::Forgotten) => {
                let branch = self.branch;
                self.enter(Phase::CheckingPrepared, RecoveryAction::CheckPrepared(branch))
            }
            (Phase::CheckingPrepared, RecoveryEvent::Listed { is_prepared: true }) => {
                self.end(Outcome::Abort)
            }
            (Phase::Reading, RecoveryEvent::Recorded(None)) => {
                self.enter(Phase::CheckingCoordinator, RecoveryAction::CheckCoordinator(coordinator, attempt))
            }
            (Phase::CheckingCoordinator, RecoveryEvent::Coordinator { is_working: true })
            | (Phase::CheckingPrepared, RecoveryEvent::Listed { is_prepared: false })
            | (Phase::Ending, RecoveryEvent::Ended) => {
                self.phase = Phase::Ended;
                None
            }
            (Phase::CheckingCoordinator, RecoveryEvent::Coordinator { is_working: false }) => {
                self.enter(Phase::Proposing, RecoveryAction::ProposeAbort(attempt))
            }
            _ => None,
        }
    }

    fn enter(&mut self, phase: Phase, next: RecoveryAction) -> Option<RecoveryAction> {
        self.phase = phase;
        Some(next)
    }

    fn end(&mut self, outcome: Outcome) -> Option<RecoveryAction> {
        let branch = self.branch;
        self.enter(Phase::Ending, RecoveryAction::End(branch, outcome))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{AttemptId, DecisionLocation, RequestId};

    /// Between the list and the read of the decision the coordinator may have committed the branch, and the
    /// client may have acknowledged the answer.
    #[test]
    fn forgotten_branch_is_aborted_only_if_still_prepared() {
        let attempt = AttemptId {
            request: RequestId { session: 2, sequence: 3 },
            number: AttemptNumber::FIRST,
            coordinator: CoordinatorId { server: 1, incarnation: 2, work: 3 },
            decision_location: DecisionLocation::Registers,
        };
        let branch = attempt.branch(1.into(), 0, 4);
        for (is_prepared, next) in [(true, Some(RecoveryAction::End(branch, Outcome::Abort))), (false, None)]
        {
            let (mut recovery, _) = BranchRecovery::begin(branch);
            assert_eq!(recovery.on(RecoveryEvent::Forgotten), Some(RecoveryAction::CheckPrepared(branch)));
            assert_eq!(recovery.on(RecoveryEvent::Listed { is_prepared }), next);
            assert_eq!(recovery.has_ended(), !is_prepared);
        }
    }
}
