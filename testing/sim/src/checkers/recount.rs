//! No recount: an id is applied at most once ever, an opaque one within its window; a late one never, nor one from the future.
//!
//! Checked on everything that is given to the log, across crashes, restarts and changes of settings.

use jeton_core::OpId;

use crate::clock::SimClock;
use crate::model::{LoggedOperation, Model};
use crate::violation::{Checked, Violation};

const RULE: &str = "recount";

/// An operation is about to be in the log.
pub fn check(model: &Model, take: &LoggedOperation, clock: &SimClock) -> Checked {
    let id = model.ops[take.op].id();
    for before in &model.takes[take.op] {
        twice(id, before, take, clock)?;
    }
    let settings = &model.table_of(take.op).settings;
    if let Some(dated) = id.and_then(OpId::dated) {
        let dated = dated.as_nanos() / 1_000_000;
        let (window, skew) = (settings.dated_window.as_millis() as u64, settings.skew.as_millis() as u64);
        let at = take.answer.millis;
        if at.saturating_sub(dated) > window || dated.saturating_sub(at) > skew {
            let what = format!(
                "operation {} is dated {dated} and was taken at {at}, with a window of {window} ms and a skew of {skew} ms",
                take.op
            );
            return Err(Violation::new(RULE, what));
        }
    }
    if let Some(OpId::Sequenced { client, epoch, .. }) = id {
        let mut begun = false;
        let before = model.takes.iter().flatten().filter(|other| other.partition == take.partition);
        for other in before {
            let Some(OpId::Sequenced { client: its, epoch: before, .. }) = model.ops[other.op].id() else {
                continue;
            };
            if its != client || model.ops[other.op].table() != model.ops[take.op].table() {
                continue;
            }
            if before > epoch {
                let what = format!(
                    "operation {} of epoch {epoch} was taken after epoch {before} of {client}",
                    take.op
                );
                return Err(Violation::new(RULE, what));
            }
            begun |= before == epoch;
        }
        let latest = take.answer.millis + settings.skew.as_millis() as u64;
        if !begun && *epoch > latest {
            let what = format!("operation {} begins epoch {epoch}, and {latest} is the largest", take.op);
            return Err(Violation::new(RULE, what));
        }
    }
    Ok(())
}

/// An id is in the log already, and comes again.
fn twice(id: Option<&OpId>, before: &LoggedOperation, take: &LoggedOperation, clock: &SimClock) -> Checked {
    let places = format!(
        "operation {} is in slot {} of partition {} and again in slot {}",
        take.op, before.slot, take.partition, take.slot
    );
    if !matches!(id, Some(OpId::Opaque(_))) {
        return Err(Violation::new(RULE, places));
    }
    let window = before.opaque_window;
    let apart = take.answer.millis.saturating_sub(before.answer.millis);
    if apart <= window + window / 8 {
        return Err(Violation::new(
            RULE,
            format!("{places}, {apart} ms apart, with a window of {window} ms"),
        ));
    }
    // A restart believes the wall clock; where that lied, only what happened within one life can be judged by real time.
    let real = take.real - before.real;
    if real <= window && (clock.honest() || before.life == take.life) {
        return Err(Violation::new(
            RULE,
            format!("{places}, {real} real ms apart, with a window of {window} ms"),
        ));
    }
    Ok(())
}
