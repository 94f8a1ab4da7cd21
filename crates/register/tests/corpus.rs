//! What the fuzzer has found so far, without the fuzzer: every input of its corpus still keeps its promises.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod fuzzed;
#[path = "../../../testing/fuzz/replay.rs"]
mod replay;

use fuzzed::{BEHIND, FRAMED, OUT_OF_ORDER, TORN, UNCHAINED, UNCHECKED};
use jeton_register::disk::{Disk, DiskFile, FaultDisk};
use jeton_register::embedded::{Journal, OpenError, Options};
use jeton_register::{Batch, Log, Slot, Space};

const SEGMENT: &str = "log/0000000001.log";

/// A log of a few frames: registers of two partitions and of sessions, a gap, trims, and a session that is retired.
fn written() -> (Vec<u8>, usize) {
    let disk = FaultDisk::new();
    let mut journal = Journal::open(disk.clone(), Options::small(64 << 10)).unwrap();
    let mut frames = 0;
    let mut settle = |journal: &mut Journal<FaultDisk>| {
        while let Some(mut staged) = journal.take_staged() {
            staged.persist();
            journal.settle(staged).unwrap();
            frames += 1;
        }
    };
    let (partition, session) = (Log::partition, Log::transaction);
    let partitions =
        [(1, 1), (1, 2), (2, 1), (1, 4), (1, 3), (2, 9)].map(|(log, slot)| (partition(log), slot));
    let sessions = [(1, 1), (2, 65), (2, 1), (3, 2)].map(|(log, slot)| (session(log), slot));
    for (log, slot) in partitions.into_iter().chain(sessions) {
        let mut batch = Batch::new();
        batch.push(log, Slot(slot), b"value");
        let permit = journal.admit(1, 5).unwrap();
        journal.stage(&batch, permit).unwrap();
        settle(&mut journal);
    }
    journal.trim(Log::partition(1), Slot(2)).unwrap();
    settle(&mut journal);
    journal.trim(Log::transaction(2), Slot(1)).unwrap();
    journal.retire(Space::Transaction, 2).unwrap();
    settle(&mut journal);
    (disk.bytes(SEGMENT).unwrap(), frames)
}

fn logs() -> replay::Seeds {
    let (segment, frames) = written();
    let framed = fuzzed::input_of(&segment, frames);
    let behind = |kind: u8| {
        // Slot 4 of partition 1: the body of a register's record.
        let body = [1, 1, 1, 4, 2, b'v', b'4'];
        [&[FRAMED | BEHIND, kind, body.len() as u8][..], &body, &[0]].concat()
    };
    let framed_behind = |records: &[&[u8]]| {
        let mut input = vec![FRAMED | BEHIND, 0];
        for body in records {
            input.push(body.len() as u8);
            input.extend_from_slice(body);
        }
        input.push(0);
        input
    };
    let over = |at: u16, bytes: &[u8]| [&[0][..], &at.to_le_bytes(), bytes].concat();
    vec![
        ("framed", framed),
        ("behind", behind(0)),
        ("torn", behind(TORN)),
        ("out-of-order", behind(OUT_OF_ORDER)),
        ("unchained", behind(UNCHAINED)),
        ("unchecked", behind(UNCHECKED)),
        ("header", over(0, b"JETONLOG")),
        ("other-version", over(8, &[3])),
        ("retired", framed_behind(&[&[1, 2, 3, 65, 1, b'v'], &[4, 2, 2]])),
        ("carried", framed_behind(&[&[1, 2, 3, 65, 1, b'v'], &[5, 2, 3, 65, 1, b'v']])),
        ("session-trimmed", framed_behind(&[&[1, 2, 3, 65, 1, b'v'], &[2, 2, 3, 64, 65]])),
        ("last-frame", over(3 * 4096 + 60, &[0])),
        ("frame-between", over(2 * 4096 + 60, &[0])),
        ("header-of-frame", over(4096 + 12, &[255; 4])),
        ("released", [&[FRAMED | BEHIND, 0, 2, 3, 0, 0][..]].concat()),
    ]
}

#[test]
fn logs_that_were_changed() {
    replay::seeds("log", &logs());
    replay::each("log", fuzzed::log);
}

/// The seeds are more than noise: the frames that are made of them are those that the product wrote.
#[test]
fn frames_are_made_as_the_log_makes_them() {
    let (segment, frames) = written();
    let made = fuzzed::segment_of(&fuzzed::input_of(&segment, frames));
    let differs = made.iter().zip(&segment).position(|(made, written)| made != written);
    assert_eq!(differs, None, "at this place of the segment; {frames} frames");
}

/// Opens the good log with one more frame of these records.
fn opened(records: &[&[u8]]) -> Result<Journal<FaultDisk>, OpenError> {
    let mut input = vec![FRAMED | BEHIND, 0];
    for body in records {
        input.push(body.len() as u8);
        input.extend_from_slice(body);
    }
    Journal::open(fuzzed::changed(&input), Options::small(64 << 10))
}

#[test]
fn records_that_the_log_never_writes_are_damage() {
    assert!(opened(&[]).is_ok());
    assert!(opened(&[&[1, 1, 1, 4, 0]]).is_ok());
    assert!(opened(&[&[1, 1, 1, 132, 32, 0]]).is_ok(), "as many slots are empty as a writer may leave");
    assert!(opened(&[&[1, 2, 3, 255, 255, 127, 0]]).is_ok(), "a session may begin anywhere");
    let carried: &[&[u8]] = &[&[1, 2, 3, 65, 1, b'v'], &[5, 2, 3, 65, 1, b'v'], &[5, 2, 4, 1, 0], &[4, 2, 9]];
    assert!(opened(carried).is_ok(), "a register is carried that is there, and one that is not any more");
    let cases: [(&str, &[&[u8]]); 11] = [
        ("a partition is retired", &[&[4, 1, 9]]),
        ("a register of a retired session is written", &[&[4, 2, 9], &[1, 2, 8, 1, 0]]),
        ("a register of a retired session is carried", &[&[4, 2, 9], &[5, 2, 8, 1, 0]]),
        ("a retired session is trimmed", &[&[4, 2, 9], &[2, 2, 8, 1, 1]]),
        ("a partition's register is carried", &[&[5, 1, 1, 4, 0]]),
        ("a trimmed register is carried", &[&[1, 2, 3, 1, 0], &[2, 2, 3, 1, 1], &[5, 2, 3, 1, 0]]),
        ("the segment that says so is released", &[&[3, 1]]),
        ("a segment is released that is not there yet", &[&[3, 32]]),
        (
            "a register is so far above the others that there is no memory for the gap",
            &[&[1, 1, 1, 255, 255, 255, 255, 255, 255, 255, 255, 127, 0]],
        ),
        ("a register leaves more slots empty than a writer may", &[&[1, 1, 1, 133, 32, 0]]),
        (
            "a trim makes the gap look small, and there is no memory for it",
            &[
                &[2, 1, 1, 0, 255, 255, 255, 255, 255, 255, 255, 255, 127],
                &[1, 1, 1, 255, 255, 255, 255, 255, 255, 255, 255, 127, 0],
            ],
        ),
    ];
    for (case, records) in cases {
        let error = opened(records).err();
        assert!(matches!(error, Some(OpenError::Damaged { .. })), "{case}: {error:?}");
    }
}

/// A store as version 1 of the format has it, which knows nothing of sessions.
#[test]
fn a_store_of_the_first_version_opens_and_goes_on() {
    let mut bytes = include_bytes!("fixtures/version-1.log").to_vec();
    assert_eq!(bytes[8], 1, "the version that the file was written in");
    bytes.resize(64 << 10, 0);
    let disk = FaultDisk::new();
    let file = disk.create(SEGMENT, bytes.len() as u64).unwrap();
    file.write_at(&bytes, 0).unwrap();
    file.sync().unwrap();
    disk.sync_names("log").unwrap();
    let values = |journal: &Journal<FaultDisk>, log: Log| -> Vec<(u64, Vec<u8>)> {
        let from = journal.extent(log).unwrap().trimmed.next();
        let read = journal.read(log, from, 100).unwrap().run().unwrap();
        read.into_iter().map(|(slot, value)| (slot.0, value.to_vec())).collect()
    };
    let value = |slot: u64| (slot, format!("value {slot}").into_bytes());
    for round in 0..2 {
        let mut journal = Journal::open(disk.clone(), Options::small(64 << 10)).unwrap();
        assert_eq!(values(&journal, Log::partition(1)), [value(3), value(4)]);
        assert_eq!(values(&journal, Log::partition(2)), [value(1), value(9)]);
        // New kinds of records go behind the old ones, in the same segment.
        let mut batch = Batch::new();
        batch.push(Log::transaction(7), Slot(65 + round), b"new");
        let permit = journal.admit(1, 3).unwrap();
        journal.stage(&batch, permit).unwrap();
        journal.retire(Space::Transaction, 5 + u128::from(round)).unwrap();
        while let Some(mut staged) = journal.take_staged() {
            staged.persist();
            journal.settle(staged).unwrap();
        }
        assert_eq!(values(&journal, Log::transaction(7)).len() as u64, round + 1);
    }
}
