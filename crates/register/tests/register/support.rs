//! What the tests of the journal share: a seeded source of chance, and a hand that drives a journal to the end of its work.

use jeton_register::disk::Disk;
use jeton_register::embedded::{Fatal, Journal, Options};
use jeton_register::{Batch, Failure, Log, Permit, Slot, Written};

/// The smallest segments: everything that happens at their ends happens often.
pub const SEGMENT_BYTES: u32 = 64 << 10;

pub fn options() -> Options {
    Options::small(SEGMENT_BYTES)
}

/// SplitMix64.
pub fn chance(seed: u64) -> impl FnMut() -> u64 {
    let mut state = seed;
    move || {
        state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = state;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }
}

pub fn log(number: u16) -> Log {
    Log::partition(number)
}

/// Does all work that is due. The error is the journal's last word.
pub fn drive<D: Disk>(journal: &mut Journal<D>) -> Result<(), Fatal> {
    loop {
        if let Some(mut errand) = journal.take_errand() {
            errand.run();
            journal.end_errand(errand)?;
        } else if let Some(mut staged) = journal.take_staged() {
            staged.persist();
            journal.settle(staged)?;
        } else {
            return Ok(());
        }
    }
}

/// Admits, stages and drives one batch; on a refusal for want of a segment, drives and tries again.
pub fn write<D: Disk>(journal: &mut Journal<D>, batch: &Batch) -> Result<Vec<Written>, Failure> {
    let (written, sequence) = stage(journal, batch)?;
    drive(journal).map_err(|fatal| Failure::Unknown(fatal.0))?;
    if sequence > journal.durable() {
        return Err(Failure::Unknown("all work was done that could be, and the batch is not durable".into()));
    }
    Ok(written)
}

pub fn stage<D: Disk>(
    journal: &mut Journal<D>,
    batch: &Batch,
) -> Result<(Vec<Written>, jeton_register::embedded::Sequence), Failure> {
    let permit = match admit(journal, batch) {
        Err(Failure::Busy(_)) => {
            drive(journal).map_err(|fatal| Failure::Unknown(fatal.0))?;
            admit(journal, batch)?
        }
        other => other?,
    };
    journal.stage(batch, permit)
}

pub fn admit<D: Disk>(journal: &mut Journal<D>, batch: &Batch) -> Result<Permit, Failure> {
    journal.admit(batch.len(), batch.value_bytes())
}

pub fn one(number: u16, slot: u64, value: &[u8]) -> Batch {
    let mut batch = Batch::new();
    batch.push(log(number), Slot(slot), value);
    batch
}

pub fn read_all<D: Disk>(journal: &Journal<D>, number: u16) -> Vec<(Slot, bytes::Bytes)> {
    let extent = journal.extent(log(number)).expect("the journal is alive");
    let mut from = extent.trimmed.next();
    let mut all = Vec::new();
    loop {
        let part = journal.read(log(number), from, 1000).unwrap().run().unwrap();
        let Some((last, _)) = part.last() else { return all };
        from = last.next();
        all.extend(part);
    }
}
