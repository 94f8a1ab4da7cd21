//! Results: an acknowledged operation is durable, every retry of an id gets the first result, and another payload is rejected.

use jeton_core::{OperationResult, Rejection};
use jeton_engine::{EngineError, OperationOutcome};

use crate::model::Model;
use crate::violation::{Checked, Violation};

const RULE: &str = "answers";

/// An attempt was answered.
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
    let wrong =
        |what: String| Err(Violation::new(RULE, format!("operation {op} was answered {answer:?}, {what}")));
    let partition = model.ops[op].variants[0].partition().0;
    if model.table_of(op).strict() && answer.slot > model.history.durable(partition) {
        return wrong("which is not durable".into());
    }
    if model.ops[op].id().is_none() {
        return Ok(());
    }
    let Some(take) = model.takes[op].iter().find(|take| take.slot == answer.slot) else {
        return wrong("but is not in that slot of the log".into());
    };
    if take.answer != *answer {
        return wrong(format!("but the log says {:?}", take.answer));
    }
    if take.variant != variant {
        return wrong("although its id was used for another payload".into());
    }
    let first = model.ops[op].acknowledged.iter().find(|(slot, ..)| *slot == answer.slot);
    match first {
        Some((_, _, first)) if first != answer => wrong(format!("but was answered {first:?} before")),
        _ => Ok(()),
    }
}

fn probably_seen(model: &Model, op: usize) -> Checked {
    let table = model.table_of(op);
    if !table.ever_probabilistic {
        return Err(Violation::new(RULE, format!("operation {op} was probably seen, in an exact table")));
    }
    let mut known = model.takes[op]
        .iter()
        .filter(|take| !table.strict() || take.slot <= model.history.durable(take.partition));
    if table.tight && known.next().is_none() {
        let what =
            format!("operation {op} was called probably seen, but it is not in the log (or not durably)");
        return Err(Violation::new(RULE, what));
    }
    Ok(())
}

fn mismatch(model: &Model, op: usize, variant: usize) -> Checked {
    let strict = model.table_of(op).strict();
    let known = model.takes[op].iter().any(|take| {
        take.variant != variant && (!strict || take.slot <= model.history.durable(take.partition))
    });
    if known {
        return Ok(());
    }
    Err(Violation::new(
        RULE,
        format!("operation {op} was answered as another payload of a known id, but none is in the log"),
    ))
}
