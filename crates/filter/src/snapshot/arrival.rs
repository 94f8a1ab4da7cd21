//! The body of a snapshot of an arrival-time filter.
//!
//! Settings (see [`super::settings`]), check value of the key, tick, what the keeper did so far (3 numbers), number
//! of segments; for each: rows, probes, bits, open lane (8 for none), number of lanes kept; for each of these:
//! lane, tick of the first and the latest id, count, words. All numbers have eight bytes.

use std::sync::Arc;

use super::bytes::Reader;
use super::{Kind, SnapshotError, open, seal, settings};
use crate::keeper::{Keeper, Rounds, SEGMENTS_MAX};
use crate::key::Key;
use crate::line::{LANES, LINE_BYTES};
use crate::moment::Moment;
use crate::plan::Plan;
use crate::probe::Layout;
use crate::segment::{SavedLane, Segment, lanes_of};

/// Stands for no lane where one is named.
const NO_LANE: u64 = LANES as u64;

pub(crate) fn encode(keeper: &Keeper, key: &Key) -> Vec<u8> {
    let mut body = Vec::new();
    settings::encode(&keeper.settings, &mut body);
    let mut put = |number: u64| body.extend_from_slice(&number.to_le_bytes());
    put(key.check_value());
    put(keeper.tick());
    put(keeper.rounds.refreshes_by_age);
    put(keeper.rounds.refreshes_by_fill);
    put(keeper.rounds.resizes);
    put(keeper.segments().len() as u64);
    for segment in keeper.segments() {
        put(segment.rows() as u64);
        put(u64::from(segment.layout().probes));
        put(u64::from(segment.layout().bits));
        put(segment.open_lane().map_or(NO_LANE, |lane| lane as u64));
        let kept: Vec<(usize, SavedLane)> = lanes_of(segment.live())
            .filter_map(|lane| {
                let (first, last) = (segment.first(lane)?, segment.last(lane)?);
                // The stamps are set one after the other; between the two they may be out of order.
                Some((lane, SavedLane { first: first.min(last), last, count: segment.count(lane) }))
            })
            .collect();
        put(kept.len() as u64);
        for (lane, saved) in kept {
            put(lane as u64);
            put(saved.first);
            put(saved.last);
            put(saved.count);
            segment.words(lane).for_each(&mut put);
        }
    }
    seal(Kind::Arrival, &body)
}

pub(crate) fn decode(
    bytes: &[u8],
    key: &Key,
    now: Moment,
    memory_cap: usize,
) -> Result<Keeper, SnapshotError> {
    let mut body = Reader::new(open(Kind::Arrival, bytes)?);
    let settings = settings::decode(&mut body, memory_cap)?;
    let plan = Plan::new(&settings).map_err(settings::refused)?;
    if body.number("key check")? != key.check_value() {
        return Err(SnapshotError::OtherKey);
    }
    let tick = body.number("tick")?.max(plan.ticks.at(now));
    let rounds = Rounds {
        refreshes_by_age: body.count("refreshes by age")?,
        refreshes_by_fill: body.count("refreshes by fill")?,
        resizes: body.count("resizes")?,
    };
    let count = body.index("number of segments", SEGMENTS_MAX)?;
    let mut segments = Vec::new();
    let mut bytes_left = plan.memory_cap;
    for index in 0..count {
        let segment = decode_segment(&mut body, &plan, tick, bytes_left)?;
        bytes_left -= segment.bytes();
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
    body.end()?;
    let mut keeper = Keeper::with_segments(settings, plan, segments, tick);
    keeper.rounds = rounds;
    Ok(keeper)
}

/// A segment, without the lanes that have expired by `tick`.
fn decode_segment(
    body: &mut Reader<'_>,
    plan: &Plan,
    tick: u64,
    bytes_left: usize,
) -> Result<Segment, SnapshotError> {
    let rows = body.index("rows", usize::MAX / LINE_BYTES)?.max(1);
    if rows > bytes_left / LINE_BYTES {
        let needed = (plan.memory_cap - bytes_left).saturating_add(rows * LINE_BYTES);
        return Err(SnapshotError::TooLarge { needed, memory_cap: plan.memory_cap });
    }
    let layout = Layout::checked(body.number("probes")?, body.number("bits")?)
        .ok_or(SnapshotError::Invalid("probes and bits"))?;
    let open = body.index("open lane", LANES)?;
    let open = (open < LANES).then_some(open);
    let segment = Segment::new(rows, layout, plan.density.ids_in(rows), plan.window_ticks, open)
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
        let words = body.words(rows).ok_or(SnapshotError::Invalid("words of a lane"))?;
        if tick.saturating_sub(saved.last) <= plan.window_ticks {
            segment.restore_lane(lane, &saved, words);
        }
    }
    Ok(segment)
}
