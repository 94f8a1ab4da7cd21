//! The wal with one submitting thread, and the CPU cost of an append.

use std::path::Path;
use std::time::{Duration, Instant};

use futures_executor::block_on;
use jeton_wal::disk::RealDisk;
use jeton_wal::{Batch, Journal, LogId, Options, Slot, Wal};

use crate::{GROUP, LOGS, Subject, VALUE};

/// How many slots of a log are kept. The rest is trimmed, so that segments are reused as in production.
const KEPT: u64 = 100_000;

/// Creates consecutive batches.
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
                batch.push(LogId(log as u16), Slot(slot), &VALUE);
            }
        }
        self.next += (GROUP / LOGS) as u64;
        batch
    }

    /// The next trim point, if a trim is due.
    pub fn trim(&self) -> Option<Slot> {
        let due = self.next > KEPT && (self.next / (GROUP / LOGS) as u64).is_multiple_of(1000);
        due.then(|| Slot(self.next - KEPT))
    }
}

/// The wal, with one batch after the other.
pub struct Ours {
    wal: Wal<RealDisk>,
    writer: Writer,
}

impl Ours {
    pub fn new(folder: &Path) -> Self {
        let disk = RealDisk::new(folder).expect("the folder can be made");
        let wal = Wal::open(disk, Options::default()).expect("the wal opens");
        Self { wal, writer: Writer::new() }
    }
}

impl Subject for Ours {
    fn name(&self) -> &str {
        "ours, one submitting thread"
    }

    fn group(&mut self) -> usize {
        let batch = self.writer.batch();
        let reservation = loop {
            match self.wal.reserve(batch.len(), batch.entry_bytes()) {
                Ok(reservation) => break reservation,
                Err(_) => std::thread::yield_now(),
            }
        };
        let durable = self.wal.append(&batch, reservation).expect("the space is reserved");
        block_on(durable).expect("the disk works");
        if let Some(through) = self.writer.trim() {
            let trims: Vec<_> = (0..LOGS).map(|log| (LogId(log as u16), through)).collect();
            block_on(self.wal.trim(&trims).expect("space for trims")).expect("the disk works");
        }
        batch.len()
    }
}

/// Prints the CPU time of an append and of hashing its frame, per entry: medians over batches, because of
/// preempted threads.
pub fn print_cost_of_staging(folder: &Path) {
    let disk = RealDisk::new(folder).expect("the folder can be made");
    let mut journal = Journal::open(disk, Options::default()).expect("the store opens");
    let mut writer = Writer::new();
    let (mut staging, mut hashing) = (Vec::new(), Vec::new());
    for _ in 0..1000 {
        let batch = writer.batch();
        let start = Instant::now();
        let reservation = journal.reserve(batch.len(), batch.entry_bytes()).expect("one segment is enough");
        journal.append(&batch, reservation).expect("the space is reserved");
        staging.push(start.elapsed());
        let start = Instant::now();
        let mut flush = journal.take_flush().expect("a batch was appended");
        hashing.push(start.elapsed());
        flush.run();
        journal.complete(flush).expect("the disk works");
    }
    let each = |mut batches: Vec<Duration>| {
        batches.sort();
        batches[batches.len() / 2] / GROUP as u32
    };
    println!("append: {:?} an entry; hashing its frame: {:?} an entry\n", each(staging), each(hashing));
}
