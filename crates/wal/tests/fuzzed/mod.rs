//! A log with changed bytes. The fuzz target includes this file, so that its findings fail here in the same
//! way.
//!
//! The first byte of the input selects what happens with the rest. Either the rest overwrites a valid log at
//! the offset in the next two bytes. Or it becomes frames with valid hashes, because no fuzzer guesses a
//! hash: each frame is a byte with its kind, then records, each with a byte for its length, up to a length of
//! 0.

#![allow(dead_code, reason = "the test uses more than the target")]

use std::sync::LazyLock;

use jeton_wal::disk::{Disk, DiskFile, FaultDisk};
use jeton_wal::{Batch, Error, Extent, Journal, LogId, Options, Slot};
use xxhash_rust::xxh3::{xxh3_64, xxh3_64_with_seed};

const SEGMENT: &str = "log/0000000001.log";
const SEGMENT_BYTES: u32 = 64 << 10;
const BLOCK: usize = 4096;

/// The rest of the input becomes frames.
pub const FRAMED: u8 = 1;
/// The frames follow the existing ones instead of replacing them.
pub const BEHIND: u8 = 2;

/// A frame with a wrong hash.
pub const TORN: u8 = 1;
/// A frame with a wrong number.
pub const OUT_OF_ORDER: u8 = 2;
/// A frame with a wrong hash of its predecessor.
pub const UNCHAINED: u8 = 4;
/// A frame whose records have wrong checks.
pub const UNCHECKED: u8 = 8;

fn options() -> Options {
    Options::small(SEGMENT_BYTES)
}

/// A log with three entries in three frames.
static GOOD: LazyLock<FaultDisk> = LazyLock::new(|| {
    let disk = FaultDisk::new();
    let mut journal = Journal::open(disk.clone(), options()).expect("an empty disk");
    for slot in 1..=3 {
        let mut batch = Batch::new();
        batch.push(LogId(1), Slot(slot), &[slot as u8; 100]);
        let reservation = journal.reserve(1, 100).expect("an empty segment has space");
        journal.append(&batch, reservation).expect("the next slot");
        flush(&mut journal);
    }
    drop(journal);
    disk
});

/// Flushes everything.
fn flush(journal: &mut Journal<FaultDisk>) {
    while let Some(mut flush) = journal.take_flush() {
        flush.run();
        journal.complete(flush).expect("a disk without faults");
    }
}

/// It opens or is refused, with the same result the second time. If it opens, it can be appended to.
pub fn log(data: &[u8]) {
    let disk = changed(data);
    let Ok(journal) = Journal::open(disk.clone(), options()) else { return };
    let before = all(&journal);
    drop(journal);
    let mut journal = Journal::open(disk.clone(), options()).expect("it opened before");
    assert_eq!(all(&journal), before);

    let mut batch = Batch::new();
    for log in [LogId(1), LogId(3)] {
        let extent = journal.extent(log).expect("an open log");
        batch.push(log, extent.end().next(), b"more");
    }
    let appended = journal.reserve(2, 8).and_then(|reservation| journal.append(&batch, reservation));
    let trimmed = journal.trim(LogId(2), Slot(2));
    flush(&mut journal);
    if appended.is_ok() || trimmed.is_ok() {
        let after = all(&journal);
        drop(journal);
        let journal = Journal::open(disk, options()).expect("a log that it wrote itself");
        assert_eq!(all(&journal), after);
    }
}

/// The valid log, changed by the input.
pub fn changed(data: &[u8]) -> FaultDisk {
    let disk = GOOD.copy();
    match data {
        [choice, rest @ ..] if choice & FRAMED != 0 => frames(&disk, choice & BEHIND != 0, rest),
        [_, low, high, bytes @ ..] => {
            let at = u64::from(u16::from_le_bytes([*low, *high]));
            let room = (u64::from(SEGMENT_BYTES) - at) as usize;
            write(&disk, at, &bytes[..bytes.len().min(room)]);
        }
        _ => {}
    }
    disk
}

/// The extents of the logs of the seeds, and all entries; `None` if they cannot be read.
type Content = (Vec<Extent>, Option<Vec<(LogId, Slot, Vec<u8>)>>);

fn all(journal: &Journal<FaultDisk>) -> Content {
    let extents = (0..=3).map(|log| journal.extent(LogId(log)).expect("an open log")).collect();
    let mut entries = Vec::new();
    let read = journal.reader().expect("an open log").for_each(|log, slot, entry| {
        entries.push((log, slot, entry.to_vec()));
        Ok::<_, Error>(())
    });
    (extents, read.ok().map(|()| entries))
}

fn write(disk: &FaultDisk, at: u64, bytes: &[u8]) {
    let file = disk.open(SEGMENT).expect("the first segment");
    file.write_at(bytes, at).expect("written");
    file.sync().expect("synced");
}

/// Turns the rest of the input into frames.
fn frames(disk: &FaultDisk, behind: bool, mut rest: &[u8]) {
    let (mut at, mut sequence, mut previous) = (BLOCK, 1, 0);
    if behind {
        let old = disk.bytes(SEGMENT).expect("the first segment");
        (at, sequence, previous) = (4 * BLOCK, 4, word(&old, 3 * BLOCK));
    }
    let identity = options().identity;
    while let Some((kind, after)) = rest.split_first() {
        rest = after;
        let mut records = Vec::new();
        while let Some((len, after)) = rest.split_first() {
            let (body, after) = after.split_at(after.len().min(usize::from(*len)));
            rest = after;
            if body.is_empty() {
                break;
            }
            let check = xxh3_64(body) as u32 ^ u32::from(kind & UNCHECKED != 0);
            records.extend_from_slice(&check.to_le_bytes());
            records.extend_from_slice(body);
        }
        let mut frame = Vec::new();
        frame.extend_from_slice(b"JFRM");
        frame.extend_from_slice(&(records.len() as u32).to_le_bytes());
        frame.extend_from_slice(&(sequence + u64::from(kind & OUT_OF_ORDER != 0)).to_le_bytes());
        frame.extend_from_slice(&1u64.to_le_bytes());
        frame.extend_from_slice(&(previous ^ u64::from(kind & UNCHAINED != 0)).to_le_bytes());
        frame.extend_from_slice(&records);
        let hash = xxh3_64_with_seed(&frame, identity);
        frame.splice(..0, (hash ^ u64::from(kind & TORN != 0)).to_le_bytes());
        frame.resize(frame.len().next_multiple_of(BLOCK), 0);
        if at + frame.len() > SEGMENT_BYTES as usize {
            return;
        }
        write(disk, at as u64, &frame);
        at += frame.len();
        (sequence, previous) = (sequence + 1, hash);
    }
}

fn word(bytes: &[u8], at: usize) -> u64 {
    let mut word = [0; 8];
    word.copy_from_slice(&bytes[at..at + 8]);
    u64::from_le_bytes(word)
}

/// The segment with the frames of an input.
pub fn segment_of(input: &[u8]) -> Vec<u8> {
    let disk = FaultDisk::new();
    drop(Journal::open(disk.clone(), options()).expect("an empty disk"));
    frames(&disk, false, &input[1..]);
    disk.bytes(SEGMENT).expect("the first segment")
}

/// The input that results in the same frames as this segment has.
pub fn input_of(segment: &[u8], frames: usize) -> Vec<u8> {
    let mut input = vec![FRAMED];
    let mut at = BLOCK;
    for _ in 0..frames {
        let len = word(segment, at + 8) >> 32;
        input.push(0);
        let mut records = &segment[at + 40..at + 40 + len as usize];
        while let Some((body, after)) = records.get(4..).map(|rest| rest.split_at(body_bytes(rest))) {
            input.push(body.len() as u8);
            input.extend_from_slice(body);
            records = after;
        }
        input.push(0);
        at += (40 + len as usize).next_multiple_of(BLOCK);
    }
    input
}

/// The length of a record without its check, if all its numbers are small.
fn body_bytes(record: &[u8]) -> usize {
    match record[0] {
        1 | 5 => 5 + usize::from(record[4]),
        2 => 5,
        4 => 3,
        _ => 2,
    }
}
