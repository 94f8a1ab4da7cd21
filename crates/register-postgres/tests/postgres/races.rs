//! Statements that begin before a mark is set and end after it, brought about on purpose.

use futures_executor::block_on;
use jeton_register::{Error, LogId, LogKind, Registers, Slot, WriteResult};

use super::support::{Place, WAITING, hold, taken, write};

#[test]
fn a_register_that_is_trimmed_while_a_statement_waits_is_not_fresh_again() {
    let place = Place::new();
    let (engine, other) = (place.open(), place.open());
    let (before, log) = (LogId::partition(1), LogId::partition(2));
    assert_eq!(block_on(write(&engine, &[(log, 3, b"first")])), Ok(vec![WriteResult::Fresh]));
    let holder = hold(&place, before, 1);
    let watcher = place.client();
    // The statement begins, sees no trim point, and waits for the holder.
    let late = write(&other, &[(before, 1, b"late"), (log, 3, b"late")]);
    watcher.await_count(WAITING, 1);
    block_on(engine.trim(log, Slot(5))).unwrap();
    holder.say("ROLLBACK");
    let written = block_on(late).unwrap();
    assert_eq!(written, [WriteResult::Fresh, WriteResult::Trimmed], "slot 3 was fresh once already");
    assert_eq!(block_on(engine.read(log, Slot(3), 1)), Err(Error::Trimmed { log, through: Slot(5) }));
    assert_eq!(block_on(write(&engine, &[(log, 3, b"again")])), Ok(vec![WriteResult::Trimmed]));
}

#[test]
fn a_register_whose_log_is_retired_while_a_statement_waits_is_not_fresh_again() {
    let place = Place::new();
    let (engine, other) = (place.open(), place.open());
    let (before, log) = (LogId::partition(1), LogId::transaction(7));
    assert_eq!(block_on(write(&engine, &[(log, 3, b"first")])), Ok(vec![WriteResult::Fresh]));
    let holder = hold(&place, before, 1);
    let watcher = place.client();
    let late = write(&other, &[(before, 1, b"late"), (log, 3, b"late"), (log, 4, b"late")]);
    watcher.await_count(WAITING, 1);
    block_on(engine.retire(LogKind::Transaction, 8)).unwrap();
    holder.say("COMMIT");
    let written = block_on(late).unwrap();
    assert_eq!(written, [taken(b"held"), WriteResult::Trimmed, WriteResult::Trimmed]);
    assert_eq!(block_on(write(&engine, &[(log, 3, b"again")])), Ok(vec![WriteResult::Trimmed]));
    // What the late statement left behind goes with the next retirement.
    block_on(engine.retire(LogKind::Transaction, 8)).unwrap();
    assert_eq!(watcher.count("SELECT count(*) FROM jeton_register WHERE space = 2"), 0);
}

#[test]
fn a_value_is_taken_that_was_not_committed_when_the_statement_began() {
    let place = Place::new();
    let engine = place.open();
    let log = LogId::partition(1);
    let (holder, watcher) = (hold(&place, log, 1), place.client());
    let late = write(&engine, &[(log, 1, b"late"), (log, 2, b"late")]);
    watcher.await_count(WAITING, 1);
    holder.say("COMMIT");
    assert_eq!(block_on(late), Ok(vec![taken(b"held"), WriteResult::Fresh]));
}

#[test]
fn batches_that_cross_each_other_come_to_an_end() {
    let place = Place::new();
    let engines = [place.open(), place.open()];
    let log = LogId::partition(1);
    std::thread::scope(|scope| {
        for (engine, forward) in engines.iter().zip([true, false]) {
            scope.spawn(move || {
                for first in (0..4000).step_by(100) {
                    let slots = first + 1..=first + 100;
                    let slots: Vec<u64> = if forward { slots.collect() } else { slots.rev().collect() };
                    let value = [u8::from(forward)];
                    let writes: Vec<_> = slots.iter().map(|slot| (log, *slot, value.as_slice())).collect();
                    block_on(write(engine, &writes)).unwrap();
                }
            });
        }
    });
    assert_eq!(block_on(engines[0].read(log, Slot(1), 5000)).unwrap().len(), 4000);
}
