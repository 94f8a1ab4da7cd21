//! Our own log: from one submitting thread, and the cost of staging alone.

use std::path::Path;
use std::time::{Duration, Instant};

use jeton_register::disk::RealDisk;
use jeton_register::embedded::{Embedded, Journal, Options};
use jeton_register::{Batch, Log, Registers, Slot, block_on};

use crate::{GROUP, LOGS, Subject, VALUE};

/// How many slots of a log are kept: the rest is trimmed, so that segments are used again as they are in service.
const KEPT: u64 = 100_000;

/// Makes batches that go on where the last one ended.
pub struct Writer {
    next: u64,
}

impl Writer {
    pub fn new() -> Self {
        Self { next: 1 }
    }

    pub fn batch(&mut self) -> Batch {
        let mut batch = Batch::new();
        for slot in self.next..self.next + (GROUP / LOGS) as u64 {
            for log in 0..LOGS {
                batch.push(Log::partition(log as u16), Slot(slot), &VALUE);
            }
        }
        self.next += (GROUP / LOGS) as u64;
        batch
    }

    /// What can be trimmed by now, now and then.
    pub fn trim(&self) -> Option<Slot> {
        let due = self.next > KEPT && (self.next / (GROUP / LOGS) as u64).is_multiple_of(1000);
        due.then(|| Slot(self.next - KEPT))
    }
}

/// The embedded engine, given one batch after the other.
pub struct Ours {
    engine: Embedded<RealDisk>,
    writer: Writer,
}

impl Ours {
    pub fn new(folder: &Path) -> Self {
        let disk = RealDisk::new(folder).expect("the folder can be made");
        let engine = Embedded::open(disk, Options::default()).expect("the store opens");
        Self { engine, writer: Writer::new() }
    }
}

impl Subject for Ours {
    fn name(&self) -> &str {
        "ours, one submitting thread"
    }

    fn group(&mut self) -> usize {
        let batch = self.writer.batch();
        let permit = loop {
            match self.engine.admit(batch.len(), batch.value_bytes()) {
                Ok(permit) => break permit,
                Err(_) => std::thread::yield_now(),
            }
        };
        let written = block_on(self.engine.write(batch, permit)).expect("the disk works");
        if let Some(through) = self.writer.trim() {
            for log in 0..LOGS {
                block_on(self.engine.trim(Log::partition(log as u16), through)).expect("the disk works");
            }
        }
        written.len()
    }
}

/// Prints what it costs to decide and stage a register, and what to hash its frame, without the disk: medians over batches, because a
/// thread that is put to sleep in the middle of one says nothing about either.
pub fn print_cost_of_staging(folder: &Path) {
    let disk = RealDisk::new(folder).expect("the folder can be made");
    let mut journal = Journal::open(disk, Options::default()).expect("the store opens");
    let mut writer = Writer::new();
    let (mut staging, mut hashing) = (Vec::new(), Vec::new());
    for _ in 0..1000 {
        let batch = writer.batch();
        let start = Instant::now();
        let permit = journal.admit(batch.len(), batch.value_bytes()).expect("one segment is enough");
        journal.stage(&batch, permit).expect("one segment is enough");
        staging.push(start.elapsed());
        let start = Instant::now();
        let mut staged = journal.take_staged().expect("something was staged");
        hashing.push(start.elapsed());
        staged.persist();
        journal.settle(staged).expect("the disk works");
    }
    let each = |mut batches: Vec<Duration>| {
        batches.sort();
        batches[batches.len() / 2] / GROUP as u32
    };
    println!("staging: {:?} a register; hashing its frame: {:?} a register\n", each(staging), each(hashing));
}
