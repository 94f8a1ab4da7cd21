//! No recount: an id is applied at most once ever, an opaque id once within its window; expired ids and ids
//! from the future never.
//!
//! Checks every append to the log, across crashes, restarts and changes of settings.

use jeton_core::OpId;

use crate::clock::SimClock;
use crate::model::{LoggedOperation, Model};
use crate::violation::{Checked, violated};

const RULE: &str = "recount";

/// Checks an operation before it is added to the model of the log.
pub fn check(model: &Model, entry: &LoggedOperation, clock: &SimClock) -> Checked {
    let id = model.ops[entry.op].id();
    for before in &model.logged[entry.op] {
        twice(id, before, entry, clock)?;
    }
    let settings = &model.table_of(entry.op).settings;
    if let Some(dated) = id.and_then(OpId::dated) {
        let dated = dated.as_nanos() / 1_000_000;
        let (window, skew) = (settings.dated_window.as_millis() as u64, settings.skew.as_millis() as u64);
        let at = entry.answer.millis;
        if at.saturating_sub(dated) > window || dated.saturating_sub(at) > skew {
            return violated!(
                RULE,
                "operation {} is dated {dated} and applied at {at}, with window {window} ms and skew {skew} ms",
                entry.op
            );
        }
    }
    if let Some(OpId::Sequenced { client, epoch, .. }) = id {
        let mut begun = false;
        let before = model.logged.iter().flatten().filter(|other| other.partition == entry.partition);
        for other in before {
            let Some(OpId::Sequenced { client: its, epoch: before, .. }) = model.ops[other.op].id() else {
                continue;
            };
            if its != client || model.ops[other.op].table() != model.ops[entry.op].table() {
                continue;
            }
            if before > epoch {
                return violated!(
                    RULE,
                    "operation {} of epoch {epoch} was applied after epoch {before} of {client}",
                    entry.op
                );
            }
            begun |= before == epoch;
        }
        let latest = entry.answer.millis + settings.skew.as_millis() as u64;
        if !begun && *epoch > latest {
            return violated!(RULE, "operation {} begins epoch {epoch}, above the limit {latest}", entry.op);
        }
    }
    Ok(())
}

fn twice(id: Option<&OpId>, before: &LoggedOperation, entry: &LoggedOperation, clock: &SimClock) -> Checked {
    let places = format!(
        "operation {} is in slot {} of partition {} and again in slot {}",
        entry.op, before.slot, entry.partition, entry.slot
    );
    if !matches!(id, Some(OpId::Opaque(_))) {
        return violated!(RULE, "{places}");
    }
    let window = before.opaque_window;
    let apart = entry.answer.millis.saturating_sub(before.answer.millis);
    if apart <= window + window / 8 {
        return violated!(RULE, "{places}, {apart} ms apart, with a window of {window} ms");
    }
    // A restart trusts the wall clock. If the wall clock was set, real time decides only between two appends
    // of one process.
    let real = entry.real - before.real;
    if real <= window && (clock.never_set() || before.start == entry.start) {
        return violated!(RULE, "{places}, {real} ms of real time apart, with a window of {window} ms");
    }
    Ok(())
}
