//! A refusal changes nothing, and has a reason.

use jeton_core::{OpId, Rejection};
use jeton_engine::{EngineError, OperationOutcome};

use crate::clock::SimClock;
use crate::model::Model;
use crate::model::branch::BranchModel;
use crate::violation::{Checked, violated};

const RULE: &str = "refusals";

/// Checks a response that the model has recorded.
pub fn check(
    model: &Model,
    op: usize,
    reply: &Result<OperationOutcome, EngineError>,
    clock: &SimClock,
) -> Checked {
    let Err(refusal) = reply else { return Ok(()) };
    let one = &model.ops[op];
    if !one.in_doubt() && one.acknowledged.is_empty() && !model.logged[op].is_empty() {
        // A relaxed table can lose acknowledged operations in a crash; the model has removed their entries.
        return violated!(
            RULE,
            "operation {op} was always rejected, last with \"{refusal}\", and is in the log"
        );
    }
    match refusal {
        EngineError::Rejected(rejection) => reason(model, op, rejection, clock),
        EngineError::NoSuchTable(table) => {
            violated!(RULE, "the store does not know table {table}")
        }
        _ => Ok(()),
    }
}

fn reason(model: &Model, op: usize, rejection: &Rejection, clock: &SimClock) -> Checked {
    let unfounded = || violated!(RULE, "operation {op} was rejected without a reason: {rejection}");
    let id = model.ops[op].id();
    let table = model.table_of(op);
    let dated = id.and_then(OpId::dated).map(|dated| dated.as_nanos() / 1_000_000);
    let logged =
        || model.logged.iter().flatten().filter(|entry| model.ops[entry.op].table() == model.ops[op].table());
    match (rejection, id, dated) {
        (Rejection::Expired { now, .. }, _, Some(dated)) => {
            let now = now.as_nanos() / 1_000_000;
            model.bound.check(now, clock)?;
            if now.saturating_sub(dated) > table.least_window { Ok(()) } else { unfounded() }
        }
        (Rejection::FromFuture { now, .. }, _, Some(dated)) => {
            let now = now.as_nanos() / 1_000_000;
            if dated.saturating_sub(now) > table.least_skew { Ok(()) } else { unfounded() }
        }
        (Rejection::EpochAhead { latest }, Some(OpId::Sequenced { epoch, .. }), _) => {
            if epoch > latest {
                Ok(())
            } else {
                unfounded()
            }
        }
        (Rejection::UnknownSession { floor }, _, _) if *floor > model.bound.latest(clock) => {
            violated!(RULE, "operation {op} was rejected by a floor in the future: {floor}")
        }
        (
            Rejection::Fenced { .. } | Rejection::UnknownSession { .. },
            Some(OpId::Sequenced { epoch, .. }),
            _,
        ) => {
            let mut others = logged().filter(|entry| {
                matches!(model.ops[entry.op].id(), Some(OpId::Sequenced { epoch: its, .. }) if its >= epoch)
            });
            if others.next().is_some() { Ok(()) } else { unfounded() }
        }
        (Rejection::Superseded { .. }, Some(OpId::Sequenced { .. }), _) => Ok(()),
        (Rejection::Reserved, _, _) => {
            let cells = || model.ops[op].variants.iter().flat_map(|variant| variant.changes());
            let held = |branch: &BranchModel| {
                !branch.logged.is_empty() && cells().any(|(cell, _)| branch.addition(cell).is_some())
            };
            if model.branches.iter().any(held) { Ok(()) } else { unfounded() }
        }
        (Rejection::IdRequired, None, _) => Ok(()),
        (Rejection::FormatNotTaken { .. }, Some(id), _) if !table.always.contains(id.format()) => Ok(()),
        (
            Rejection::Mismatch | Rejection::Overflow | Rejection::NotACounter | Rejection::Capacity { .. },
            _,
            _,
        ) => Ok(()),
        _ => unfounded(),
    }
}
