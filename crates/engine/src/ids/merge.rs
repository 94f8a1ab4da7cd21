//! A merge: several runs of one tier of a generation become one run of the next tier, incrementally.

use std::sync::Arc;

use jeton_wal::disk::Disk;

use super::Error;
use super::bucket::buckets_for;
use super::header::entry_at;
use super::run::Run;
use super::scan::Scan;
use super::writer::RunWriter;

/// A merge in progress. Dropping it leaves nothing behind.
pub(super) struct Merge<D: Disk> {
    inputs: Vec<Arc<Run<D>>>,
    tier: u8,
    /// Newest first, so that of equal keys the newest comes first. Without those at their end.
    scans: Vec<Scan<D>>,
    keys: Vec<u128>,
    writer: RunWriter<D>,
}

/// A merge whose result is durable but not listed yet.
pub(super) struct Merged<D: Disk> {
    /// The merged runs, oldest first.
    pub(super) inputs: Vec<Arc<Run<D>>>,
    pub(super) output: Arc<Run<D>>,
    pub(super) tier: u8,
}

impl<D: Disk> Merge<D> {
    /// Starts to merge these runs, oldest first, into a run with this number.
    pub(super) fn start(inputs: Vec<Arc<Run<D>>>, tier: u8, number: u64) -> Result<Self, Error> {
        assert!(!inputs.is_empty(), "a merge has something to merge");
        let (mut scans, mut keys) = (Vec::new(), Vec::new());
        for run in inputs.iter().rev() {
            let mut scan = Scan::new(run)?;
            if let Some(key) = scan.advance()? {
                scans.push(scan);
                keys.push(key);
            }
        }
        let ids = inputs.iter().map(|run| run.header.ids).sum();
        let record_bytes = inputs.iter().map(|run| run.header.size - entry_at(run.header.buckets)).sum();
        let buckets = buckets_for(ids, record_bytes);
        let writer = RunWriter::create(&inputs[0].store, number, inputs[0].header.generation, buckets)?;
        Ok(Self { inputs, tier, scans, keys, writer })
    }

    pub(super) fn inputs(&self) -> &[Arc<Run<D>>] {
        &self.inputs
    }

    /// Copies about `bytes` bytes; true once everything is copied.
    pub(super) fn step(&mut self, bytes: u64) -> Result<bool, Error> {
        let mut copied = 0;
        while let Some(next) = smallest(&self.keys) {
            if copied >= bytes.max(1) {
                return Ok(false);
            }
            // The same key in an older run comes right after this one, and the writer skips it.
            let scan = &mut self.scans[next];
            let record = scan.record();
            self.writer.push_record(self.keys[next], record)?;
            copied += record.len() as u64;
            match scan.advance()? {
                Some(key) => self.keys[next] = key,
                None => {
                    self.scans.remove(next);
                    self.keys.remove(next);
                }
            }
        }
        Ok(true)
    }

    /// Makes the result durable.
    pub(super) fn finish(self) -> Result<Merged<D>, Error> {
        let Self { inputs, tier, scans, writer, .. } = self;
        assert!(scans.is_empty(), "a merge ends when all is copied");
        Ok(Merged { inputs, output: Arc::new(writer.finish()?), tier })
    }
}

/// Index of the smallest key, the first of equal ones. With few scans a linear search is faster than a heap.
#[inline]
fn smallest(keys: &[u128]) -> Option<usize> {
    let (mut at, mut least) = (0, *keys.first()?);
    for (other, key) in keys.iter().enumerate().skip(1) {
        if *key < least {
            (at, least) = (other, *key);
        }
    }
    Some(at)
}
