//! What must hold for a log that was changed by somebody. The fuzz target includes this file, so that what it finds fails here in the
//! same way.
//!
//! The first byte of the input says what is done with the rest. Either it is written over a good log, at the place that the next two
//! bytes name. Or it is put into frames whose hashes are right (nobody guesses a hash, and behind it is what there is to read): as
//! often as there is something left, a byte that says what kind of frame, then records, each a byte for its length and so many bytes, until
//! a length of 0.

#![allow(dead_code, reason = "the test uses what the target does not")]

use std::sync::LazyLock;

use jeton_register::disk::{Disk, DiskFile, FaultDisk};
use jeton_register::embedded::{Journal, Options};
use jeton_register::{Batch, Extent, Log, Slot, Space};
use xxhash_rust::xxh3::{xxh3_64, xxh3_64_with_seed};

const SEGMENT: &str = "log/0000000001.log";
const SEGMENT_BYTES: u32 = 64 << 10;
const BLOCK: usize = 4096;

/// The rest is put into frames.
pub const FRAMED: u8 = 1;
/// The frames are put behind those that are there, and not in their place.
pub const BEHIND: u8 = 2;

/// Of a frame: its hash is wrong.
pub const TORN: u8 = 1;
/// Of a frame: it is not the next one.
pub const OUT_OF_ORDER: u8 = 2;
/// Of a frame: the one before it is another.
pub const UNCHAINED: u8 = 4;
/// Of a frame: the checks of its records are wrong.
pub const UNCHECKED: u8 = 8;

fn options() -> Options {
    Options::small(SEGMENT_BYTES)
}

/// A log with three registers in three frames.
static GOOD: LazyLock<FaultDisk> = LazyLock::new(|| {
    let disk = FaultDisk::new();
    let mut journal = Journal::open(disk.clone(), options()).expect("an empty disk");
    for slot in 1..=3 {
        let mut batch = Batch::new();
        batch.push(Log::partition(1), Slot(slot), &[slot as u8; 100]);
        let permit = journal.admit(1, 100).expect("room");
        journal.stage(&batch, permit).expect("a free register");
        settle(&mut journal);
    }
    drop(journal);
    disk
});

/// Brings to disk what is staged.
fn settle(journal: &mut Journal<FaultDisk>) {
    while let Some(mut staged) = journal.take_staged() {
        staged.persist();
        journal.settle(staged).expect("a disk without faults");
    }
}

/// It opens with what is there, or says what is wrong; the same the second time; and if it opened, it can be written.
pub fn log(data: &[u8]) {
    let disk = changed(data);
    let Ok(journal) = Journal::open(disk.clone(), options()) else { return };
    let before = all(&journal);
    drop(journal);
    let mut journal = Journal::open(disk.clone(), options()).expect("it opened before");
    assert_eq!(all(&journal), before);

    let mut batch = Batch::new();
    for log in [Log::partition(1), Log::transaction(3)] {
        let next = Slot(journal.extent(log).expect("an open log").last.0.saturating_add(1));
        batch.push(log, next, b"more");
    }
    let written = journal.admit(2, 8).and_then(|permit| journal.stage(&batch, permit));
    let retired = journal.retire(Space::Transaction, 2);
    settle(&mut journal);
    if written.is_ok() || retired.is_ok() {
        let after = all(&journal);
        drop(journal);
        let journal = Journal::open(disk, options()).expect("what it wrote itself");
        assert_eq!(all(&journal), after);
    }
}

/// The good log, changed as the input says.
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

/// Registers with their values.
type Registers = Vec<(Slot, Vec<u8>)>;

/// All there is of the logs that the seeds speak of, damage included: it is told the same way again.
fn all(journal: &Journal<FaultDisk>) -> Vec<(Extent, Option<Registers>)> {
    let logs = [0, 1, 2].map(Log::partition).into_iter().chain([1, 2, 3].map(Log::transaction));
    logs.map(|log| {
        let extent = journal.extent(log).expect("an open log");
        let from = Slot(extent.trimmed.0.saturating_add(1));
        let read = journal.read(log, from, 100).and_then(|reading| reading.run());
        let values =
            read.ok().map(|read| read.into_iter().map(|(slot, value)| (slot, value.to_vec())).collect());
        (extent, values)
    })
    .collect()
}

fn write(disk: &FaultDisk, at: u64, bytes: &[u8]) {
    let file = disk.open(SEGMENT).expect("the first segment");
    file.write_at(bytes, at).expect("written");
    file.sync().expect("synced");
}

/// Puts the rest of the input into frames of the log's own form.
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

/// The segment that the frames of an input make.
pub fn segment_of(input: &[u8]) -> Vec<u8> {
    let disk = FaultDisk::new();
    drop(Journal::open(disk.clone(), options()).expect("an empty disk"));
    frames(&disk, false, &input[1..]);
    disk.bytes(SEGMENT).expect("the first segment")
}

/// The records of the frames in a segment that the product wrote, as the input that makes the same frames.
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

/// How long a record is without its check, if all its numbers are small.
fn body_bytes(record: &[u8]) -> usize {
    match record[0] {
        1 | 5 => 5 + usize::from(record[4]),
        2 => 5,
        4 => 3,
        _ => 2,
    }
}
