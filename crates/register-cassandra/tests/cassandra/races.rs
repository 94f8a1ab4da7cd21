//! Engines that write the same log, each with a control row that is out of date.

use jeton_register::conformance::block_on;
use jeton_register::{Blob, Error, LogId, LogKind, Registers, Slot, WriteResult};

use super::support::{Keyspace, insist, taken, write};

#[test]
fn engines_append_to_one_dense_log_in_turn() {
    let Some(keyspace) = Keyspace::new() else { return };
    let engines = [keyspace.open(), keyspace.open()];
    let log = LogId::stripe(1);
    for slot in 1..=10u64 {
        let (winner, loser) = (&engines[slot as usize % 2], &engines[(slot as usize + 1) % 2]);
        assert_eq!(insist(winner, log, slot, b"winner"), WriteResult::Fresh);
        assert_eq!(insist(loser, log, slot, b"loser"), taken(b"winner"));
        assert_eq!(insist(loser, log, slot + 2, b"loser"), WriteResult::Gap);
    }
    // The other engine does not know of the trim.
    block_on(engines[0].trim(log, Slot(7))).unwrap();
    assert_eq!(insist(&engines[1], log, 7, b"late"), WriteResult::Trimmed);
    assert_eq!(insist(&engines[1], log, 11, b"next"), WriteResult::Fresh);
    assert_eq!(block_on(engines[0].read(log, Slot(7), 9)), Err(Error::Trimmed { log, through: Slot(7) }));
    assert_eq!(block_on(engines[0].read(log, Slot(8), 9)).unwrap().len(), 4);
}

#[test]
fn of_concurrent_claims_one_is_fresh() {
    let Some(keyspace) = Keyspace::new() else { return };
    let engines: Vec<_> = (0..4).map(|_| keyspace.open()).collect();
    for log in [LogId::stripe(2), LogId::partition(2)] {
        for slot in 1..=5 {
            let values: Vec<String> = (0..4).map(|engine| format!("engine {engine}")).collect();
            let results: Vec<WriteResult> = std::thread::scope(|scope| {
                let claims: Vec<_> = engines
                    .iter()
                    .zip(&values)
                    .map(|(engine, value)| scope.spawn(move || insist(engine, log, slot, value.as_bytes())))
                    .collect();
                claims.into_iter().map(|claim| claim.join().unwrap()).collect()
            });
            let there = block_on(engines[0].read(log, Slot(slot), 1)).unwrap().remove(0).1;
            for (result, own) in results.iter().zip(&values) {
                let is_winner = there == own.as_bytes();
                // With an unknown outcome before, the winner finds its own value.
                let good = match result {
                    WriteResult::Fresh => is_winner,
                    WriteResult::Taken(value) => *value == there,
                    _ => false,
                };
                assert!(good, "{log} slot {slot}: {results:?}, but {there:?} is there");
            }
        }
    }
}

#[test]
fn groups_of_many_logs_and_large_batches_are_written() {
    let Some(keyspace) = Keyspace::new() else { return };
    let engine = keyspace.open();
    let value = vec![7; 300_000];
    // More than one conditional batch for the first log.
    let mut writes: Vec<(LogId, u64, &[u8])> =
        (1..=12).map(|slot| (LogId::stripe(3), slot, &value[..])).collect();
    writes.extend((0..40).map(|log| (LogId::stripe(100 + log), 1, &b"small"[..])));
    writes.push((LogId::stripe(4), 2, b"gap"));
    let written = write(&engine, &writes).unwrap();
    let (last, others) = written.split_last().unwrap();
    assert_eq!(*last, WriteResult::Gap);
    assert!(others.iter().all(|result| *result == WriteResult::Fresh), "{others:?}");
    // Limited by bytes.
    let read = block_on(engine.read(LogId::stripe(3), Slot(1), 100)).unwrap();
    assert_eq!(read.len(), 12);
}

#[test]
fn sessions_retired_meanwhile_are_trimmed() {
    let Some(keyspace) = Keyspace::new() else { return };
    let engines = [keyspace.open(), keyspace.open()];
    let session = |id: u128| LogId::transaction((1 << 120) + (id << 100));
    for id in 0..20 {
        assert_eq!(insist(&engines[0], session(id), 1, b"kept"), WriteResult::Fresh);
    }
    block_on(engines[1].retire(LogKind::Transaction, session(10).id)).unwrap();
    for id in 0..20 {
        let expected = if id < 10 { WriteResult::Trimmed } else { taken(b"kept") };
        assert_eq!(insist(&engines[0], session(id), 1, b"late"), expected, "{id}");
        let read = block_on(engines[0].read(session(id), Slot(1), 1));
        assert_eq!(read.is_err(), id < 10, "{id}: {read:?}");
    }
}

#[test]
fn blobs_with_a_prefix_are_listed_in_order() {
    let Some(keyspace) = Keyspace::new() else { return };
    let engine = keyspace.open();
    for (version, name) in ["node-b", "other", "node-c", "node-a"].into_iter().enumerate() {
        let blob = Blob { version: version as u64, bytes: name.into() };
        assert_eq!(block_on(engine.put_blob(name, blob)), Ok(true));
    }
    let listed = block_on(engine.blobs("node-")).unwrap();
    let listed: Vec<(&str, u64)> = listed.iter().map(|(name, blob)| (&name[..], blob.version)).collect();
    assert_eq!(listed, [("node-a", 3), ("node-b", 0), ("node-c", 2)]);
    assert_eq!(block_on(engine.blobs("x")), Ok(Vec::new()));
}
