//! Results: an acknowledged operation is durable, every retry of an id gets the first result, and another
//! payload is rejected.

use jeton_core::{OperationResult, Rejection};
use jeton_engine::{EngineError, OperationOutcome};

use crate::model::Model;
use crate::violation::{Checked, violated};

const RULE: &str = "answers";

pub fn check(
    model: &Model,
    op: usize,
    variant: usize,
    reply: &Result<OperationOutcome, EngineError>,
) -> Checked {
    match reply {
        Ok(OperationOutcome::Fresh(answer) | OperationOutcome::Replayed(answer)) => {
            acknowledged(model, op, variant, answer)
        }
        Ok(OperationOutcome::ProbablySeen) => probably_seen(model, op),
        Err(EngineError::Rejected(Rejection::Mismatch)) => mismatch(model, op, variant),
        Err(_) => Ok(()),
    }
}

fn acknowledged(model: &Model, op: usize, variant: usize, answer: &OperationResult) -> Checked {
    let wrong = |what: String| violated!(RULE, "operation {op}: response {answer:?}, {what}");
    let partition = model.ops[op].variants[0].partition().0;
    if model.table_of(op).strict() && answer.slot > model.history.durable(partition) {
        return wrong("not durable".into());
    }
    if model.ops[op].id().is_none() {
        return Ok(());
    }
    let Some(entry) = model.logged[op].iter().find(|entry| entry.slot == answer.slot) else {
        return wrong("not in that slot of the log".into());
    };
    if entry.answer != *answer {
        return wrong(format!("but the log has {:?}", entry.answer));
    }
    if entry.variant != variant {
        return wrong("but the id was used for another payload".into());
    }
    let first = model.ops[op].acknowledged.iter().find(|(slot, ..)| *slot == answer.slot);
    match first {
        Some((_, _, first)) if first != answer => wrong(format!("but the first response was {first:?}")),
        _ => Ok(()),
    }
}

fn probably_seen(model: &Model, op: usize) -> Checked {
    let table = model.table_of(op);
    if !table.ever_probabilistic {
        return violated!(RULE, "operation {op}: \"probably seen\" in an exact table");
    }
    let mut known = model.logged[op]
        .iter()
        .filter(|entry| !table.strict() || entry.slot <= model.history.durable(entry.partition));
    if table.tight && known.next().is_none() {
        return violated!(RULE, "operation {op}: \"probably seen\", but not in the durable log");
    }
    Ok(())
}

fn mismatch(model: &Model, op: usize, variant: usize) -> Checked {
    let strict = model.table_of(op).strict();
    let known = model.logged[op].iter().any(|entry| {
        entry.variant != variant && (!strict || entry.slot <= model.history.durable(entry.partition))
    });
    if known {
        return Ok(());
    }
    violated!(RULE, "operation {op}: rejected as another payload, but the log has no other payload")
}
