//! The body of a snapshot of a dated filter.
//!
//! After settings and check value of the key: latest time, generations retired and slices
//! added, first generation, number of generations. For each generation: number of slices. For each slice:
//! lines, probes, bits, count, words. All numbers have eight bytes.

use std::io;
use std::sync::Arc;

use super::{Body, Reader, Sink, SnapshotError, settings};
use crate::budget::Budget;
use crate::cache_line::{LANES, LINE_BYTES};
use crate::dated_rotation::{DatedRotator, SLICES_MAX};
use crate::generations::Generations;
use crate::probe::Layout;
use crate::settings::{GENERATIONS, Settings};
use crate::sizing::FillLimit;
use crate::slice::Slice;
use crate::sync::Ordering;
use crate::timestamp::Timestamp;

/// A window, as much again of skew, and the partial generations at both ends.
const LISTED_MAX: usize = 2 * *GENERATIONS.end() as usize + 2;

/// The state to write. It shares the slices, so no operation waits while they are written.
pub(crate) struct State {
    settings: Settings,
    now: Timestamp,
    retired: u64,
    resizes: u64,
    generations: Generations,
}

impl State {
    pub(crate) fn of(rotator: &DatedRotator) -> Self {
        Self {
            settings: rotator.settings.clone(),
            now: rotator.now,
            retired: rotator.retired,
            resizes: rotator.resizes,
            generations: rotator.generations.clone(),
        }
    }
}

impl Body for State {
    const KIND: u16 = 2;
    type Rotator = DatedRotator;

    fn settings(&self) -> &Settings {
        &self.settings
    }

    fn walk(&self, sink: &mut impl Sink) -> io::Result<()> {
        sink.number(self.now.as_nanos())?;
        sink.counts(&[self.retired, self.resizes])?;
        sink.numbers(&[self.generations.first, self.generations.list.len() as u64])?;
        for slices in &self.generations.list {
            sink.number(slices.len() as u64)?;
            for slice in slices {
                let (lines, Layout { probes, bits }) = (slice.lines.len(), slice.layout);
                sink.numbers(&[lines as u64, u64::from(probes), u64::from(bits)])?;
                sink.counts(&[slice.count.get()])?;
                sink.words(lines * LANES, slice.words())?;
            }
        }
        Ok(())
    }

    fn decode(
        body: &mut Reader<'_>,
        settings: Settings,
        now: Timestamp,
        budget: &Budget,
    ) -> Result<DatedRotator, SnapshotError> {
        let mut rotator = DatedRotator::new(settings, budget).map_err(settings::to_snapshot_error)?;
        rotator.now = Timestamp::from_nanos(body.number("latest time")?).max(now);
        rotator.retired = body.count("generations retired")?;
        rotator.resizes = body.count("slices added")?;
        let first = body.number("first generation")?;
        let listed = body.index("number of generations", LISTED_MAX)?;
        let mut generations = Generations { first, list: Vec::new() };
        let mut needed = 0_usize;
        for _ in 0..listed {
            let slices = body.index("number of slices", SLICES_MAX)?;
            let mut list = Vec::new();
            for held in 0..slices {
                list.push(Arc::new(decode_slice(body, &mut rotator, held, &mut needed)?));
            }
            generations.list.push(list);
        }
        rotator.generations = generations;
        rotator.advance(now);
        Ok(rotator)
    }
}

fn decode_slice(
    body: &mut Reader<'_>,
    rotator: &mut DatedRotator,
    held: usize,
    needed: &mut usize,
) -> Result<Slice, SnapshotError> {
    let lines = body.index("lines", usize::MAX / LINE_BYTES)?;
    let layout = body.layout()?;
    let count = body.count("count")?;
    *needed = needed.saturating_add(lines.max(1) * LINE_BYTES);
    if *needed > rotator.settings.memory_cap {
        return Err(SnapshotError::TooLarge { needed: *needed, memory_cap: rotator.settings.memory_cap });
    }
    if !body.announces(lines * LANES) {
        return Err(SnapshotError::Invalid("words of a slice"));
    }
    rotator.account.try_charge(*needed)?;
    let fill_limit = FillLimit { layout, ..rotator.plan.fill_limit(held) };
    let slice = Slice::new(lines.max(1), fill_limit).map_err(|_| SnapshotError::OutOfMemory)?;
    body.words("words of a slice", lines * LANES, |place, word| {
        slice.lines.word(place).store(word, Ordering::Relaxed);
    })?;
    slice.count.set(count);
    Ok(slice)
}
