//! Statements that start before a mark is committed and end after it.

use futures_executor::block_on;
use jeton_register::{Error, LogId, LogKind, Registers, Slot, WriteResult};

use super::support::{Server, WAITING, hold, taken, write};

#[test]
fn register_trimmed_during_a_write_is_not_fresh_again() {
    let server = Server::new();
    let (engine, other) = (server.open(), server.open());
    let (before, log) = (LogId::partition(1), LogId::partition(2));
    assert_eq!(block_on(write(&engine, &[(log, 3, b"first")])), Ok(vec![WriteResult::Fresh]));
    let holder = hold(&server, before, 1);
    let watcher = server.client();
    // The statement starts without a trim point, and waits for the holder.
    let late = write(&other, &[(before, 1, b"late"), (log, 3, b"late")]);
    watcher.await_count(WAITING, 1);
    block_on(engine.trim(log, Slot(5))).unwrap();
    holder.execute("ROLLBACK");
    let written = block_on(late).unwrap();
    assert_eq!(written, [WriteResult::Fresh, WriteResult::Trimmed], "slot 3 was fresh before");
    assert_eq!(block_on(engine.read(log, Slot(3), 1)), Err(Error::Trimmed { log, through: Slot(5) }));
    assert_eq!(block_on(write(&engine, &[(log, 3, b"again")])), Ok(vec![WriteResult::Trimmed]));
}

#[test]
fn register_retired_during_a_write_is_not_fresh_again() {
    let server = Server::new();
    let (engine, other) = (server.open(), server.open());
    let (before, log) = (LogId::partition(1), LogId::transaction(7));
    assert_eq!(block_on(write(&engine, &[(log, 3, b"first")])), Ok(vec![WriteResult::Fresh]));
    let holder = hold(&server, before, 1);
    let watcher = server.client();
    let late = write(&other, &[(before, 1, b"late"), (log, 3, b"late"), (log, 4, b"late")]);
    watcher.await_count(WAITING, 1);
    block_on(engine.retire(LogKind::Transaction, 8)).unwrap();
    holder.execute("COMMIT");
    let written = block_on(late).unwrap();
    assert_eq!(written, [taken(b"held"), WriteResult::Trimmed, WriteResult::Trimmed]);
    assert_eq!(block_on(write(&engine, &[(log, 3, b"again")])), Ok(vec![WriteResult::Trimmed]));
    // The next retirement deletes the rows of the late statement.
    block_on(engine.retire(LogKind::Transaction, 8)).unwrap();
    assert_eq!(watcher.count("SELECT count(*) FROM jeton_register WHERE space = 2"), 0);
}

#[test]
fn value_committed_during_a_write_is_taken() {
    let server = Server::new();
    let engine = server.open();
    let log = LogId::partition(1);
    let (holder, watcher) = (hold(&server, log, 1), server.client());
    let late = write(&engine, &[(log, 1, b"late"), (log, 2, b"late")]);
    watcher.await_count(WAITING, 1);
    holder.execute("COMMIT");
    assert_eq!(block_on(late), Ok(vec![taken(b"held"), WriteResult::Fresh]));
}

#[test]
fn batches_in_opposite_order_do_not_deadlock() {
    let server = Server::new();
    let engines = [server.open(), server.open()];
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
