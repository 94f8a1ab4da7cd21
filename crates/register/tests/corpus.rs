//! What the fuzzer has found so far, without the fuzzer: every input of its corpus still keeps its promises.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod fuzzed;
#[path = "../../../fuzz/replay.rs"]
mod replay;

use fuzzed::{BEHIND, FRAMED, OUT_OF_ORDER, TORN, UNCHAINED, UNCHECKED};
use jeton_register::disk::FaultDisk;
use jeton_register::embedded::{Journal, OpenError, Options};
use jeton_register::{Batch, Log, Slot};

const SEGMENT: &str = "log/0000000001.log";

/// A log of a few frames: registers of two partitions, a gap, and a trim.
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
    for (partition, slot) in [(1, 1), (1, 2), (2, 1), (1, 4), (1, 3), (2, 9)] {
        let mut batch = Batch::new();
        batch.push(Log::partition(partition), Slot(slot), b"value");
        let permit = journal.admit(1, 5).unwrap();
        journal.stage(&batch, permit).unwrap();
        settle(&mut journal);
    }
    journal.trim(Log::partition(1), Slot(2)).unwrap();
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
    let over = |at: u16, bytes: &[u8]| [&[0][..], &at.to_le_bytes(), bytes].concat();
    vec![
        ("framed", framed),
        ("behind", behind(0)),
        ("torn", behind(TORN)),
        ("out-of-order", behind(OUT_OF_ORDER)),
        ("unchained", behind(UNCHAINED)),
        ("unchecked", behind(UNCHECKED)),
        ("header", over(0, b"JETONLOG")),
        ("other-version", over(8, &[2])),
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
    let cases: [(&str, &[&[u8]]); 5] = [
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
