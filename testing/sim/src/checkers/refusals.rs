//! A refusal changes nothing, and has a reason.

use jeton_core::{OpId, Rejection, Timestamp};
use jeton_engine::{EngineError, OperationOutcome};

use crate::clock::SimClock;
use crate::model::Model;
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
    let id = model.ops[op].id();
    let table = model.table_of(op);
    let millis = |time: Timestamp| time.as_nanos() / 1_000_000;
    let dated = id.and_then(OpId::dated).map(millis);
    let has_reason = match (rejection, id, dated) {
        (Rejection::Expired { now, .. }, _, Some(dated)) => {
            model.bound.check(millis(*now), clock)?;
            millis(*now).saturating_sub(dated) > table.least_window
        }
        (Rejection::FromFuture { now, .. }, _, Some(dated)) => {
            dated.saturating_sub(millis(*now)) > table.least_skew
        }
        (Rejection::EpochAhead { latest }, Some(OpId::Sequenced { epoch, .. }), _) => epoch > latest,
        (Rejection::UnknownSession { floor }, _, _) if *floor > model.bound.latest(clock) => {
            return violated!(RULE, "operation {op} was rejected by a floor in the future: {floor}");
        }
        (
            Rejection::Fenced { .. } | Rejection::UnknownSession { .. },
            Some(OpId::Sequenced { epoch, .. }),
            _,
        ) => model.logged.iter().flatten().map(|entry| &model.ops[entry.op]).any(|other| {
            other.table() == model.ops[op].table()
                && matches!(other.id(), Some(OpId::Sequenced { epoch: its, .. }) if its >= epoch)
        }),
        (Rejection::Reserved, _, _) => {
            let cells = || model.ops[op].variants.iter().flat_map(|variant| variant.changes());
            model.branches.iter().any(|branch| {
                !branch.logged.is_empty() && cells().any(|(cell, _)| branch.addition(cell).is_some())
            })
        }
        (Rejection::FormatNotTaken { .. }, Some(id), _) => !table.always.contains(id.format()),
        (Rejection::Superseded { .. }, Some(OpId::Sequenced { .. }), _)
        | (Rejection::IdRequired, None, _)
        | (
            Rejection::Mismatch | Rejection::Overflow | Rejection::NotACounter | Rejection::Capacity { .. },
            _,
            _,
        ) => true,
        _ => false,
    };
    if has_reason {
        return Ok(());
    }
    violated!(RULE, "operation {op} was rejected without a reason: {rejection}")
}
