//! A majority that does not respond, and requests that are executed late.

use std::time::{Duration, Instant};

use jeton_register::conformance::block_on;
use jeton_register::{Error, LogId, Registers, Slot, WriteResult};

use super::support::{Keyspace, insist, short_timeouts, taken, write};

#[test]
fn without_a_majority_writes_fail_and_go_on_after_it() {
    let Some(mut keyspace) = Keyspace::new() else { return };
    let engine = keyspace.open_with(short_timeouts());
    let logs: Vec<LogId> = (0..6).map(LogId::stripe).collect();
    for log in &logs {
        assert_eq!(insist(&engine, *log, 1, b"before"), WriteResult::Fresh);
    }
    for round in 0..2 {
        keyspace.cluster().pause(0);
        keyspace.cluster().pause(1);
        for log in &logs {
            let error = write(&engine, &[(*log, 2 + round, b"during")]).unwrap_err();
            let good = matches!(error, Error::Busy(_) | Error::Unavailable(_) | Error::Unknown(_));
            assert!(good, "{error}");
        }
        let error = block_on(engine.read(logs[0], Slot(1), 1)).unwrap_err();
        assert!(matches!(error, Error::Unavailable(_)), "{error}");
        keyspace.cluster().resume(0);
        keyspace.cluster().resume(1);
        let returned = Instant::now();
        for log in &logs {
            let written = insist(&engine, *log, 2 + round, b"during");
            assert!(written == WriteResult::Fresh || written == taken(b"during"), "{written:?}");
        }
        let took = returned.elapsed();
        println!("writes go on {took:?} after the return of the majority");
        assert!(took < Duration::from_secs(5), "{took:?}");
    }
    assert_eq!(block_on(engine.extent(logs[5])).unwrap().last, Slot(3));
}

/// The coordinator is paused with the write, and executes it when another engine has gone on.
#[test]
fn write_of_a_paused_coordinator_is_late_or_refused() {
    let Some(mut keyspace) = Keyspace::new() else { return };
    let (engine, other) = (keyspace.open_with(short_timeouts()), keyspace.open_with(short_timeouts()));
    let mut unknown = 0;
    for log in (0..6).map(LogId::stripe) {
        assert_eq!(insist(&engine, log, 1, b"first"), WriteResult::Fresh);
        let node = usize::from(log.id as u8) % 3;
        keyspace.cluster().pause(node);
        let late = write(&engine, &[(log, 2, b"late")]);
        unknown += usize::from(matches!(late, Err(Error::Unknown(_))));
        let claim = insist(&other, log, 2, b"claim");
        keyspace.cluster().resume(node);
        let there = block_on(other.read(log, Slot(2), 1)).unwrap().remove(0).1;
        // The late write was executed before the claim, or never.
        assert_eq!(claim, if there == "claim" { WriteResult::Fresh } else { taken(b"late") });
        assert!(late.is_err() || claim == taken(b"late"), "{late:?}, {claim:?}");
        assert_eq!(insist(&engine, log, 2, b"late"), WriteResult::Taken(there));
        assert_eq!(insist(&engine, log, 3, b"next"), WriteResult::Fresh);
    }
    assert!(unknown > 0, "no coordinator was paused");
}
