//! Branches of transactions: what is held can be committed, counts once if it is and never if it is not, and nothing is held after its end.

use jeton_core::{BranchLogItem, BranchOutcome, Rejection};
use jeton_engine::{BranchResponse, EngineError};

use crate::model::Model;
use crate::model::branch::BranchLogState;
use crate::violation::{Checked, Violation};

const RULE: &str = "branches";

/// A step of a branch is about to be in the log.
pub fn logged(model: &Model, branch: usize, step: &BranchLogItem) -> Checked {
    let one = &model.branches[branch];
    let wrong = |what: &str| {
        let name = one.branch.name();
        Err(Violation::new(RULE, format!("branch {name} {what}: {step:?}, after {:?}", one.logged)))
    };
    let marks: Vec<BranchLogState> = one.logged.iter().map(|(_, mark)| *mark).collect();
    match (step, &marks[..]) {
        (BranchLogItem::Prepared(branch), []) if *branch == one.branch => Ok(()),
        (BranchLogItem::Prepared(_), []) => wrong("is held as nobody asked for it"),
        (BranchLogItem::Prepared(_), _) => wrong("is held twice, or after its end"),
        (BranchLogItem::Finished { outcome: ending, .. }, _) if Some(*ending) != one.decided => {
            wrong("ends as nobody decided")
        }
        (BranchLogItem::Finished { outcome: BranchOutcome::Commit, .. }, [BranchLogState::Held]) => Ok(()),
        (BranchLogItem::Finished { outcome: BranchOutcome::Abort, .. }, [] | [BranchLogState::Held]) => {
            Ok(())
        }
        (BranchLogItem::Finished { .. }, _) => wrong("ends twice, or is committed and was not held"),
    }
}

/// The coordinator received the response to a prepare, or to this end of the branch.
pub fn answered(
    model: &Model,
    branch: usize,
    asked: Option<BranchOutcome>,
    reply: &Result<BranchResponse, EngineError>,
) -> Checked {
    let one = &model.branches[branch];
    let wrong = |what: &str| {
        let name = one.branch.name();
        Err(Violation::new(
            RULE,
            format!("branch {name}, asked {asked:?}: {reply:?}, {what} ({:?})", one.logged),
        ))
    };
    let durable = |mark| one.logged.contains(&mark) && mark.0 <= model.history.durable(one.partition.0);
    let is_durable =
        |mark: BranchLogState| one.logged.iter().any(|logged| logged.1 == mark && durable(*logged));
    match (asked, reply) {
        (None, Ok(BranchResponse::Prepared { .. })) if is_durable(BranchLogState::Held) => Ok(()),
        (_, Ok(BranchResponse::Finished { outcome: ending, .. }))
            if is_durable(BranchLogState::Ended(*ending)) && asked.is_none_or(|asked| asked == *ending) =>
        {
            Ok(())
        }
        (None, Err(EngineError::Rejected(Rejection::Mismatch))) => wrong("but it was never another"),
        (None, Err(EngineError::Rejected(_))) if one.voted => wrong("but it was acknowledged before"),
        (Some(_), Err(EngineError::Rejected(_))) => wrong("but it must be possible to end it"),
        (_, Err(_)) => Ok(()),
        (_, Ok(_)) => wrong("which is not what the log says, or not durable"),
    }
}
