//! Branches: a prepared branch can be committed, counts once if committed and never otherwise, and is not
//! prepared again after it finished.

use jeton_core::{BranchLogItem, BranchOutcome, Rejection};
use jeton_engine::{BranchResponse, EngineError};

use crate::model::Model;
use crate::model::branch::BranchLogState;
use crate::violation::{Checked, violated};

const RULE: &str = "branches";

/// Checks a branch item before it is added to the model of the log.
pub fn logged(model: &Model, branch: usize, step: &BranchLogItem) -> Checked {
    let one = &model.branches[branch];
    let wrong = |what: &str| {
        let name = one.branch.name();
        violated!(RULE, "branch {name} {what}: {step:?}, after {:?}", one.logged)
    };
    let marks: Vec<BranchLogState> = one.logged.iter().map(|(_, mark)| *mark).collect();
    match (step, &marks[..]) {
        (BranchLogItem::Prepared(branch), []) if *branch == one.branch => Ok(()),
        (BranchLogItem::Prepared(_), []) => wrong("is prepared with other additions"),
        (BranchLogItem::Prepared(_), _) => wrong("is prepared twice, or after it finished"),
        (BranchLogItem::Finished { outcome: ending, .. }, _) if Some(*ending) != one.decided => {
            wrong("finishes with another outcome than decided")
        }
        (BranchLogItem::Finished { outcome: BranchOutcome::Commit, .. }, [BranchLogState::Prepared]) => {
            Ok(())
        }
        (BranchLogItem::Finished { outcome: BranchOutcome::Abort, .. }, [] | [BranchLogState::Prepared]) => {
            Ok(())
        }
        (BranchLogItem::Finished { .. }, _) => wrong("finishes twice, or is committed and was not prepared"),
    }
}

/// Checks a response to the coordinator: to a prepare (`asked` is `None`), or to this outcome.
pub fn answered(
    model: &Model,
    branch: usize,
    asked: Option<BranchOutcome>,
    reply: &Result<BranchResponse, EngineError>,
) -> Checked {
    let one = &model.branches[branch];
    let wrong = |what: &str| {
        let name = one.branch.name();
        violated!(RULE, "branch {name}, request {asked:?}: {reply:?}, {what} ({:?})", one.logged)
    };
    let durable = |mark| one.logged.contains(&mark) && mark.0 <= model.history.durable(one.partition.0);
    let is_durable =
        |mark: BranchLogState| one.logged.iter().any(|logged| logged.1 == mark && durable(*logged));
    match (asked, reply) {
        (None, Ok(BranchResponse::Prepared { .. })) if is_durable(BranchLogState::Prepared) => Ok(()),
        (_, Ok(BranchResponse::Finished { outcome: ending, .. }))
            if is_durable(BranchLogState::Ended(*ending)) && asked.is_none_or(|asked| asked == *ending) =>
        {
            Ok(())
        }
        (None, Err(EngineError::Rejected(Rejection::Mismatch))) => {
            wrong("but there is no other branch of this name")
        }
        (None, Err(EngineError::Rejected(_))) if one.voted => {
            wrong("but the prepare was acknowledged before")
        }
        (Some(_), Err(EngineError::Rejected(_))) => wrong("but a decided branch must finish"),
        (_, Err(_)) => Ok(()),
        (_, Ok(_)) => wrong("not in the log, or not durable"),
    }
}
