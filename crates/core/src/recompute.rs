//! Recomputes what log entries leave out: the new contents of cells that depend on the old ones.
//!
//! Invariant: an operation is completed when its cells have the contents that they had when it was decided:
//! all entries before its own and all operations before it in that entry are applied, and nothing after. Then
//! the same code gives the same contents. If the result differs from the logged one, log and values do not
//! belong together, and nothing is applied.

use forgetful_filter::Timestamp;

use crate::evaluate::evaluate;
use crate::log_entry::OperationDecision;
use crate::operation::Operation;
use crate::partition::{LogPosition, StateReader, Verdict};

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RecomputeError<E> {
    #[error("the value of a cell before the entry cannot be read: {0}")]
    Read(E),
    #[error("the recomputed result differs from the logged one: log and values do not belong together")]
    Contradicted,
}

/// Completes a decision read from an entry, so that it can be [applied](crate::Partition::apply). Reads cells
/// only if a change depends on the old content.
pub fn complete<R: StateReader>(
    operation: &Operation,
    decision: &mut OperationDecision,
    reader: &mut R,
) -> Result<(), RecomputeError<R::Error>> {
    let answer = &decision.answer;
    if !answer.applied || !operation.keeps() {
        return Ok(());
    }
    let step = LogPosition { slot: answer.slot, time: Timestamp::from_millis(answer.millis) };
    match evaluate(step, operation, decision.memory, reader).map_err(RecomputeError::Read)? {
        Verdict::Fresh(again) if again.answer == *answer || again.answer.applied && mutated!(ReplayTwice) => {
            decision.effects = again.effects;
            if mutated!(ReplayForgetsEnds) {
                let kept = decision.effects.iter_mut().flatten().flatten();
                kept.for_each(|value| *value = value.clone().plain());
            }
            Ok(())
        }
        _ => Err(RecomputeError::Contradicted),
    }
}
