//! What an entry leaves out: what cells hold after changes that keep some of what they held.
//!
//! What must hold: an operation is completed when its cells hold just what they held when it was decided, which is when every entry
//! before its own and every operation before it in that entry is applied, and nothing after. Then what comes of it is what came of
//! it the first time, because the same code says so. If the answer that is logged says otherwise, log and values do not belong
//! together, and nothing may be made of it.

use forgetful_filter::Timestamp;

use crate::log_entry::OperationDecision;
use crate::operation::Operation;
use crate::partition::{LogPosition, StateReader, Verdict, evaluate};

/// Why a decision cannot be completed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RecomputeError<E> {
    /// What a cell holds could not be looked up.
    #[error("what a cell held before cannot be read: {0}")]
    Recall(E),
    /// The changes come to something else than was answered.
    #[error(
        "what the cells held before does not lead to the answer that is logged: log and values do not belong together"
    )]
    Contradicted,
}

/// Completes a decision as it was read from an entry, so that it can be [applied](crate::Partition::apply). Looks at cells only if a
/// change keeps some of what its cell held.
pub fn complete<R: StateReader>(
    operation: &Operation,
    decision: &mut OperationDecision,
    recall: &mut R,
) -> Result<(), RecomputeError<R::Error>> {
    let answer = &decision.answer;
    if !answer.applied || !operation.keeps() {
        return Ok(());
    }
    let step = LogPosition { slot: answer.slot, time: Timestamp::from_millis(answer.millis) };
    match evaluate(step, operation, decision.memory, recall).map_err(RecomputeError::Recall)? {
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
