//! The body of a snapshot of an arrival-time filter.
//!
//! After settings and check value of the key: tick, maintenance counters (3 numbers), number
//! of segments. For each segment: rows, probes, bits, open lane (8 for none), number of lanes. For each lane:
//! index, tick of the first and the latest id, count, words. All numbers have eight bytes.

use std::io;
use std::sync::Arc;

use super::{Body, Reader, Sink, SnapshotError, settings};
use crate::budget::{Account, Budget};
use crate::cache_line::{LANES, LINE_BYTES};
use crate::parameters::FilterParams;
use crate::probe::Layout;
use crate::rotation::{MaintenanceCounts, Rotator, SEGMENTS_MAX};
use crate::segment::{SavedLane, Segment, lanes_of};
use crate::settings::Settings;
use crate::sync::Ordering;
use crate::timestamp::Timestamp;

/// Encodes the absence of a lane.
const NO_LANE: u64 = LANES as u64;

/// The state to write. It borrows the rotator, because a lane must not be swept while it is written.
pub(crate) struct State<'a> {
    rotator: &'a Rotator,
    /// The lanes of each segment at the start of the snapshot; concurrent inserts change the stamps.
    lanes: Vec<Vec<(usize, SavedLane)>>,
}

impl<'a> State<'a> {
    pub(crate) fn of(rotator: &'a Rotator) -> Self {
        let kept = |segment: &Arc<Segment>| {
            let lanes = lanes_of(segment.live()).filter_map(|lane| {
                let (first, last) = (segment.first(lane)?, segment.last(lane)?);
                // The stamps are set one after the other and may be out of order in between.
                Some((lane, SavedLane { first: first.min(last), last, count: segment.counts[lane].get() }))
            });
            lanes.collect()
        };
        let lanes = rotator.segments.iter().map(kept).collect();
        Self { rotator, lanes }
    }
}

impl Body for State<'_> {
    const KIND: u16 = 1;
    type Rotator = Rotator;

    fn settings(&self) -> &Settings {
        &self.rotator.settings
    }

    fn walk(&self, sink: &mut impl Sink) -> io::Result<()> {
        let counts = &self.rotator.counts;
        sink.number(self.rotator.tick)?;
        sink.counts(&[counts.refreshes_by_age, counts.refreshes_by_fill, counts.resizes])?;
        sink.number(self.lanes.len() as u64)?;
        for (segment, kept) in self.rotator.segments.iter().zip(&self.lanes) {
            let Layout { probes, bits } = segment.layout;
            sink.numbers(&[segment.lines.len() as u64, u64::from(probes), u64::from(bits)])?;
            sink.number(segment.open_lane().map_or(NO_LANE, |lane| lane as u64))?;
            sink.number(kept.len() as u64)?;
            for (lane, saved) in kept {
                sink.numbers(&[*lane as u64, saved.first, saved.last])?;
                sink.counts(&[saved.count])?;
                sink.words(segment.lines.len(), segment.words(*lane))?;
            }
        }
        Ok(())
    }

    fn decode(
        body: &mut Reader<'_>,
        settings: Settings,
        now: Timestamp,
        budget: &Budget,
    ) -> Result<Rotator, SnapshotError> {
        let plan = FilterParams::new(&settings).map_err(settings::to_snapshot_error)?;
        let mut account = Account::open(budget, plan.rows * LINE_BYTES)?;
        let tick = body.number("tick")?.max(plan.ticks.at(now));
        let counts = MaintenanceCounts {
            refreshes_by_age: body.count("refreshes by age")?,
            refreshes_by_fill: body.count("refreshes by fill")?,
            resizes: body.count("resizes")?,
        };
        let count = body.index("number of segments", SEGMENTS_MAX)?;
        let mut segments = Vec::new();
        let mut bytes_left = plan.memory_cap;
        for index in 0..count {
            let segment = decode_segment(body, &plan, tick, bytes_left, &mut account)?;
            bytes_left -= segment.lines.bytes();
            let newest = index + 1 == count;
            if newest != segment.open_lane().is_some() {
                return Err(SnapshotError::Invalid("open lane"));
            }
            if newest || segment.live() != 0 {
                segments.push(Arc::new(segment));
            }
        }
        if segments.is_empty() {
            return Err(SnapshotError::Invalid("number of segments"));
        }
        account.charge(segments.iter().map(|segment| segment.lines.bytes()).sum());
        let mut rotator = Rotator::with_segments(settings, plan, segments, tick, account);
        rotator.counts = counts;
        Ok(rotator)
    }
}

/// Decodes a segment without the lanes that have expired by `tick`.
fn decode_segment(
    body: &mut Reader<'_>,
    plan: &FilterParams,
    tick: u64,
    bytes_left: usize,
    account: &mut Account,
) -> Result<Segment, SnapshotError> {
    let rows = body.index("rows", usize::MAX / LINE_BYTES)?.max(1);
    let needed = (plan.memory_cap - bytes_left).saturating_add(rows * LINE_BYTES);
    if rows > bytes_left / LINE_BYTES {
        return Err(SnapshotError::TooLarge { needed, memory_cap: plan.memory_cap });
    }
    account.try_charge(needed)?;
    let layout = body.layout()?;
    let open = body.index("open lane", LANES)?;
    let open = (open < LANES).then_some(open);
    let segment = Segment::new(rows, layout, plan.fill_limit.ids_in(rows), plan.window_ticks, open)
        .map_err(|_| SnapshotError::OutOfMemory)?;
    let lanes = body.index("number of lanes", LANES)?;
    for _ in 0..lanes {
        let lane = body.index("lane", LANES - 1)?;
        let saved = SavedLane {
            first: body.number("first tick")?,
            last: body.number("latest tick")?,
            count: body.count("count")?,
        };
        if saved.first > saved.last {
            return Err(SnapshotError::Invalid("stamps of a lane"));
        }
        let kept = tick.saturating_sub(saved.last) <= plan.window_ticks;
        body.words("words of a lane", rows, |row, word| {
            if kept {
                segment.lines.row(row).0[lane].store(word, Ordering::Relaxed);
            }
        })?;
        if kept {
            segment.revive(lane, &saved);
        }
    }
    Ok(segment)
}
