//! The corpus of the fuzz target `log`, without the fuzzer.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod fuzzed;
#[path = "../../../testing/fuzz/replay.rs"]
mod replay;

use fuzzed::{BEHIND, FRAMED, OUT_OF_ORDER, TORN, UNCHAINED, UNCHECKED};
use jeton_wal::disk::FaultDisk;
use jeton_wal::{Batch, Journal, LogId, OpenError, Options, Slot};

const SEGMENT: &str = "log/0000000001.log";

/// A log of a few frames: entries of two logs, trims, and a trim beyond the end.
fn written() -> (Vec<u8>, usize) {
    let disk = FaultDisk::new();
    let mut journal = Journal::open(disk.clone(), Options::small(64 << 10)).unwrap();
    let mut frames = 0;
    let mut flush = |journal: &mut Journal<FaultDisk>| {
        while let Some(mut flush) = journal.take_flush() {
            flush.run();
            journal.complete(flush).unwrap();
            frames += 1;
        }
    };
    for (log, slot) in [(1, 1), (1, 2), (2, 1), (1, 3), (1, 4), (2, 2)] {
        let mut batch = Batch::new();
        batch.push(LogId(log), Slot(slot), b"value");
        let reservation = journal.reserve(1, 5).unwrap();
        journal.append(&batch, reservation).unwrap();
        flush(&mut journal);
    }
    journal.trim(LogId(1), Slot(2)).unwrap();
    flush(&mut journal);
    journal.trim(LogId(2), Slot(9)).unwrap();
    journal.trim(LogId(3), Slot(5)).unwrap();
    flush(&mut journal);
    (disk.bytes(SEGMENT).unwrap(), frames)
}

fn logs() -> replay::Seeds {
    let (segment, frames) = written();
    let framed = fuzzed::input_of(&segment, frames);
    let behind = |kind: u8| {
        // Slot 4 of log 1: the body of an entry's record.
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
        ("other-version", over(8, &[9])),
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
fn corpus_of_the_fuzz_target() {
    replay::seeds("log", &logs());
    replay::each("log", fuzzed::log);
}

/// The seeds result in the frames that a journal writes.
#[test]
fn seeds_have_the_format_of_the_journal() {
    let (segment, frames) = written();
    let made = fuzzed::segment_of(&fuzzed::input_of(&segment, frames));
    let differs = made.iter().zip(&segment).position(|(made, written)| made != written);
    assert_eq!(differs, None, "offset in the segment; {frames} frames");
}

/// Opens the valid log with one more frame of these records.
fn opened(records: &[&[u8]]) -> Result<Journal<FaultDisk>, OpenError> {
    let mut input = vec![FRAMED | BEHIND, 0];
    for body in records {
        input.push(body.len() as u8);
        input.extend_from_slice(body);
    }
    Journal::open(fuzzed::changed(&input), Options::small(64 << 10))
}

#[test]
fn records_that_no_writer_writes_are_refused() {
    assert!(opened(&[]).is_ok());
    assert!(opened(&[&[1, 1, 1, 4, 0]]).is_ok());
    assert!(opened(&[&[2, 1, 1, 9, 3], &[1, 1, 1, 10, 0]]).is_ok(), "a log continues after its trim point");
    let cases: [(&str, &[&[u8]]); 8] = [
        ("an entry leaves a gap", &[&[1, 1, 1, 5, 0]]),
        ("an entry is repeated", &[&[1, 1, 1, 3, 0]]),
        ("an entry is trimmed", &[&[2, 1, 1, 9, 3], &[1, 1, 1, 4, 0]]),
        ("the id of a log is too large", &[&[1, 1, 255, 255, 127, 1, 0]]),
        ("a slot is too high", &[&[2, 1, 1, 255, 255, 255, 255, 255, 255, 255, 255, 255, 1, 3]]),
        ("a segment releases itself", &[&[3, 1]]),
        ("a segment is released that does not exist yet", &[&[3, 32]]),
        ("the kind of a record is unknown", &[&[6, 1, 1, 4, 0]]),
    ];
    for (case, records) in cases {
        let error = opened(records).err();
        assert!(matches!(error, Some(OpenError::Damaged { .. })), "{case}: {error:?}");
    }
    let old: [(&str, &[&[u8]]); 4] = [
        ("a register of a session", &[&[1, 2, 3, 65, 1, b'v']]),
        ("a trim of a session", &[&[2, 2, 3, 64, 65]]),
        ("a retirement", &[&[4, 2, 2]]),
        ("a register that was moved", &[&[5, 2, 3, 65, 1, b'v']]),
    ];
    for (case, records) in old {
        let error = opened(records).err();
        assert!(matches!(error, Some(OpenError::OldRegisters { .. })), "{case}: {error:?}");
    }
}
