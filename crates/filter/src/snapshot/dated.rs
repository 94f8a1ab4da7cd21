//! The body of a snapshot of a dated filter.
//!
//! Settings (see [`super::settings`]), check value of the key, latest moment, generations retired and slices added so
//! far, first generation, number of generations; for each: number of slices; for each of these: lines, probes,
//! bits, count, words. All numbers have eight bytes.

use std::sync::Arc;

use super::bytes::Reader;
use super::{Kind, SnapshotError, open, seal, settings};
use crate::dated_keeper::{DatedKeeper, SLICES_MAX};
use crate::generations::Generations;
use crate::key::Key;
use crate::line::{LANES, LINE_BYTES};
use crate::moment::Moment;
use crate::probe::Layout;
use crate::settings::GENERATIONS;
use crate::sizing::Density;
use crate::slice::Slice;

/// A window, as much again of skew, and the generations at both ends that are alive in part.
const LISTED_MAX: usize = 2 * *GENERATIONS.end() as usize + 2;

pub(crate) fn encode(keeper: &DatedKeeper, key: &Key) -> Vec<u8> {
    let mut body = Vec::new();
    settings::encode(&keeper.settings, &mut body);
    let mut put = |number: u64| body.extend_from_slice(&number.to_le_bytes());
    put(key.check_value());
    put(keeper.now.as_nanos());
    put(keeper.retired);
    put(keeper.resizes);
    put(keeper.generations.first);
    put(keeper.generations.list.len() as u64);
    for slices in &keeper.generations.list {
        put(slices.len() as u64);
        for slice in slices {
            put(slice.lines() as u64);
            put(u64::from(slice.layout().probes));
            put(u64::from(slice.layout().bits));
            put(slice.count());
            slice.words().for_each(&mut put);
        }
    }
    seal(Kind::Dated, &body)
}

pub(crate) fn decode(
    bytes: &[u8],
    key: &Key,
    now: Moment,
    memory_cap: usize,
) -> Result<DatedKeeper, SnapshotError> {
    let mut body = Reader::new(open(Kind::Dated, bytes)?);
    let settings = settings::decode(&mut body, memory_cap)?;
    let mut keeper = DatedKeeper::new(settings).map_err(settings::refused)?;
    if body.number("key check")? != key.check_value() {
        return Err(SnapshotError::OtherKey);
    }
    keeper.now = Moment::from_nanos(body.number("latest moment")?).max(now);
    keeper.retired = body.count("generations retired")?;
    keeper.resizes = body.count("slices added")?;
    let first = body.number("first generation")?;
    let listed = body.index("number of generations", LISTED_MAX)?;
    let mut generations = Generations { first, list: Vec::new() };
    let mut needed = 0_usize;
    for _ in 0..listed {
        let slices = body.index("number of slices", SLICES_MAX)?;
        let slices: Vec<Arc<Slice>> =
            (0..slices).map(|held| decode_slice(&mut body, &keeper, held)).collect::<Result<_, _>>()?;
        needed = needed.saturating_add(slices.iter().map(|slice| slice.bytes()).sum());
        generations.list.push(slices);
    }
    if needed > keeper.settings.memory_cap {
        return Err(SnapshotError::TooLarge { needed, memory_cap: keeper.settings.memory_cap });
    }
    body.end()?;
    keeper.generations = generations;
    keeper.advance(now);
    Ok(keeper)
}

fn decode_slice(
    body: &mut Reader<'_>,
    keeper: &DatedKeeper,
    held: usize,
) -> Result<Arc<Slice>, SnapshotError> {
    let lines = body.index("lines", keeper.settings.memory_cap / LINE_BYTES)?;
    let layout = Layout::checked(body.number("probes")?, body.number("bits")?)
        .ok_or(SnapshotError::Invalid("probes and bits"))?;
    let count = body.count("count")?;
    let words = lines.checked_mul(LANES).ok_or(SnapshotError::Invalid("lines"))?;
    let words = body.words(words).ok_or(SnapshotError::Invalid("words of a slice"))?;
    let density = Density { layout, ..keeper.plan.density(held) };
    let slice = Slice::new(lines.max(1), density).map_err(|_| SnapshotError::OutOfMemory)?;
    slice.refill(count, words);
    Ok(Arc::new(slice))
}
