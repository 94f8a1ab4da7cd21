//! Maintenance of a dated filter: opens generations and slices, retires expired generations.
//!
//! Invariants:
//!
//! - **New at most once.** An id is looked up in its generation or rejected. A generation is retired only
//!   when every id dated in it is older than the window; later ids of that generation are rejected.
//! - **Bounds.** At most [`SLICES_MAX`] slices per generation and `memory_cap` bytes. Beyond them, ids go
//!   into the last slice: the filter reports [`Pressure`], its false-positive rate rises, it forgets nothing.
//!   Every other generation of the window can always get a slice of minimum size.

use std::sync::Arc;

use crate::approx_count::ApproxCount;
use crate::budget::{Account, Budget};
use crate::cache_line::{LANES, LINE_BYTES, OutOfMemory};
use crate::generations::Generations;
use crate::parameters::HEADROOM;
use crate::settings::{Growth, Settings, SettingsError};
use crate::sizing::FillLimit;
use crate::slice::Slice;
use crate::status::{LastPressure, Pressure, Status};
use crate::sync::Ordering;
use crate::timestamp::Timestamp;

/// Maximum of slices per generation. Their shares of the target sum to less than 1, see [`share`].
pub(crate) const SLICES_MAX: usize = 16;

/// While slices are small, the next one holds this many times the ids of the previous one, and at least the
/// expected number, so that a surge needs few slices.
const SMALL_SLICE_GROWTH: f64 = 6.0;

/// After a slice of 1 MiB the next one holds no more than all previous ones together. Ids are spread over a
/// whole slice, so all of a slice is resident after its first thousand ids.
const LARGE_LINES: usize = 16_384;

/// Minimum size of a slice: 1 KiB.
const LINES_MIN: usize = 16;

/// A new generation is sized for the largest of this many previous ones.
const DEMAND_FROM: usize = 3;

/// Why a dated id was rejected. The filter is unchanged.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum DatedIdError {
    /// The id is dated before the window. Whether it was inserted is unknown.
    Expired,
    /// The id is dated further ahead than the allowed skew.
    FromFuture,
    /// The allocation for the id's generation failed.
    OutOfMemory,
}

impl std::fmt::Display for DatedIdError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Expired => "the id is dated before the window",
            Self::FromFuture => "the id is dated further ahead than the allowed skew",
            Self::OutOfMemory => "no memory for the id's generation",
        })
    }
}

impl std::error::Error for DatedIdError {}

/// Times and sizes derived from the settings.
#[derive(Debug, Clone)]
pub(crate) struct DatedParams {
    pub(crate) window_ns: u64,
    skew_ns: u64,
    pub(crate) period_ns: u64,
    fill_limits: [FillLimit; SLICES_MAX],
    generation_ids: f64,
    /// Maximum of live generations: window, skew, and the partial generations at both ends.
    generations_max: usize,
    /// Bytes that the expected ids need.
    expected_bytes: usize,
}

impl DatedParams {
    pub(crate) fn new(settings: &Settings) -> Result<Self, SettingsError> {
        settings.check()?;
        let window_ns = settings.window_ns();
        let period_ns = window_ns.div_ceil(u64::from(settings.generations));
        let (share, headroom): (fn(usize) -> f64, f64) = match settings.growth {
            Growth::Elastic => (share, HEADROOM),
            Growth::Fixed => (|_| 1.0, 1.0),
        };
        let fill_limits =
            std::array::from_fn(|slice| FillLimit::for_probability(settings.target * share(slice)));
        let generation_ids = settings.expected_ids as f64 * period_ns as f64 / window_ns as f64 * headroom;
        let skew_ns = settings.skew_ns();
        let generations_max = window_ns.saturating_add(skew_ns).div_ceil(period_ns) as usize + 2;
        let expected_bytes = 0;
        let mut plan = Self {
            window_ns,
            skew_ns,
            period_ns,
            fill_limits,
            generation_ids,
            generations_max,
            expected_bytes,
        };
        // At most, the window and the generation that is about to retire are live.
        let full = settings.generations as usize + 1;
        let expected = plan.lines_for(0, generation_ids) as f64 * full as f64;
        let reserved = generations_max.saturating_sub(full) * LINES_MIN;
        plan.expected_bytes = settings.check_lines(expected + reserved as f64)? * LINE_BYTES;
        Ok(plan)
    }

    /// The number of the generation of an id.
    #[inline]
    pub(crate) fn number(&self, dated: Timestamp) -> u64 {
        dated.as_nanos() / self.period_ns
    }

    /// The oldest generation with a date within the window.
    pub(crate) fn first(&self, now: Timestamp) -> u64 {
        now.as_nanos().saturating_sub(self.window_ns) / self.period_ns
    }

    /// Nanoseconds at which [`first`](Self::first) advances from `first`.
    pub(crate) fn end_of(&self, first: u64) -> u64 {
        first.saturating_add(1).saturating_mul(self.period_ns).saturating_add(self.window_ns)
    }

    #[inline]
    pub(crate) fn check(&self, dated: Timestamp, now: Timestamp) -> Result<(), DatedIdError> {
        let (dated, now) = (dated.as_nanos(), now.as_nanos());
        if dated.saturating_add(self.window_ns) < now {
            Err(DatedIdError::Expired)
        } else if dated > now.saturating_add(self.skew_ns) {
            Err(DatedIdError::FromFuture)
        } else {
            Ok(())
        }
    }

    pub(crate) fn fill_limit(&self, slice: usize) -> FillLimit {
        self.fill_limits[slice.min(SLICES_MAX - 1)]
    }

    fn lines_for(&self, slice: usize, ids: f64) -> usize {
        self.fill_limit(slice).slots_for(ids).div_ceil(LANES).max(LINES_MIN)
    }
}

/// The share of the target that a slice of a growing generation has. The inverse squares sum to π²/6 = 1.645,
/// so all slices together stay within the target, and a late slice, which holds most ids, needs few bits more
/// than the first.
fn share(slice: usize) -> f64 {
    0.6 / ((slice + 1) as f64).powi(2)
}

pub(crate) struct DatedRotator {
    pub(crate) settings: Settings,
    pub(crate) plan: DatedParams,
    pub(crate) generations: Generations,
    /// The latest time seen; it never decreases.
    pub(crate) now: Timestamp,
    pressure: LastPressure,
    pub(crate) retired: u64,
    pub(crate) resizes: u64,
    pub(crate) account: Account,
}

impl DatedRotator {
    pub(crate) fn new(settings: Settings, budget: &Budget) -> Result<Self, SettingsError> {
        let plan = DatedParams::new(&settings)?;
        let account = Account::open(budget, plan.expected_bytes)?;
        Ok(Self {
            settings,
            plan,
            generations: Generations { first: 0, list: Vec::new() },
            now: Timestamp::ZERO,
            pressure: LastPressure::default(),
            retired: 0,
            resizes: 0,
            account,
        })
    }

    /// Retires expired generations; returns whether the list changed.
    pub(crate) fn advance(&mut self, now: Timestamp) -> bool {
        self.now = self.now.max(now);
        self.pressure.reach(self.now.as_nanos());
        let first = self.plan.first(self.now);
        let before = self.generations.list.len();
        let changed = self.generations.retire_before(first);
        self.retired += (before - self.generations.list.len()) as u64;
        if changed {
            self.account.charge(self.bytes());
        }
        changed
    }

    /// Adds the first slice of a generation, or another one if the last is full. Returns whether the list
    /// changed.
    pub(crate) fn make_room(&mut self, number: u64) -> Result<bool, DatedIdError> {
        let Some(slices) = self.generations.get(number) else { return Ok(false) };
        let Some(last) = slices.last() else { return self.open_first(number).map(|()| true) };
        let (held, count) = (slices.len(), last.count.get());
        if count < last.ids_max {
            return Ok(false);
        }
        let relief = match self.settings.growth {
            Growth::Fixed => Err(Pressure::Fixed),
            Growth::Elastic if held == SLICES_MAX => Err(Pressure::SegmentCap),
            Growth::Elastic => {
                let ids = if last.lines.len() < LARGE_LINES {
                    last.ids_max as f64 * SMALL_SLICE_GROWTH
                } else {
                    slices.iter().map(|slice| slice.ids_max as f64).sum()
                }
                .max(self.plan.generation_ids);
                let lines = self.plan.lines_for(held, ids);
                let fits = lines <= self.lines_left()
                    && self.account.try_charge(self.bytes() + lines * LINE_BYTES).is_ok();
                if fits { Ok(lines) } else { Err(Pressure::MemoryCap) }
            }
        };
        let last = Arc::clone(last);
        let opened = relief.and_then(|lines| {
            Slice::new(lines, self.plan.fill_limit(held)).map_err(|OutOfMemory| Pressure::OutOfMemory)
        });
        match opened {
            Ok(slice) => {
                self.push(number, slice);
                self.resizes += 1;
                Ok(true)
            }
            Err(pressure) => {
                self.account.charge(self.bytes());
                self.record_pressure(pressure);
                last.alarm.store(ApproxCount::next_alarm(count), Ordering::Relaxed);
                Ok(false)
            }
        }
    }

    pub(crate) fn status(&self) -> Status {
        let probability = |slices: &[Arc<Slice>]| {
            1.0 - slices.iter().map(|slice| 1.0 - slice.probability()).product::<f64>()
        };
        let used = || self.generations.list.iter().filter(|slices| !slices.is_empty());
        Status {
            bytes: self.bytes(),
            memory_cap: self.settings.memory_cap,
            segments: self.generations.slices().count(),
            generations: used().count(),
            ids: self.generations.slices().map(|slice| slice.count.get()).sum(),
            // A lookup searches one generation, so the fullest one is the worst case.
            false_positive_rate: used().map(|slices| probability(slices)).fold(0.0, f64::max),
            target: self.settings.target,
            pressure: self.pressure.get(),
            refreshes_by_age: self.retired,
            refreshes_by_fill: 0,
            resizes: self.resizes,
        }
    }

    pub(crate) fn bytes(&self) -> usize {
        self.generations.slices().map(|slice| slice.lines.bytes()).sum()
    }

    /// Cache lines available for one more slice, with a minimum slice reserved for each generation that has
    /// none yet.
    fn lines_left(&self) -> usize {
        let used = self.generations.list.iter().filter(|slices| !slices.is_empty()).count();
        let reserved = self.plan.generations_max.saturating_sub(used + 1) * LINES_MIN;
        let limit = self.settings.memory_cap.min(self.account.room());
        (limit.saturating_sub(self.bytes()) / LINE_BYTES).saturating_sub(reserved)
    }

    fn open_first(&mut self, number: u64) -> Result<(), DatedIdError> {
        let demand = self.plan.lines_for(0, self.demand(number));
        let lines = demand.min(self.lines_left()).max(LINES_MIN);
        if lines < demand {
            self.record_pressure(Pressure::MemoryCap);
        }
        let slice = Slice::new(lines, self.plan.fill_limit(0));
        self.push(number, slice.map_err(|OutOfMemory| DatedIdError::OutOfMemory)?);
        // Also beyond the budget: a slice of minimum size costs less than a filter without the id.
        self.account.charge(self.bytes());
        Ok(())
    }

    fn push(&mut self, number: u64, slice: Slice) {
        if let Some(slices) = self.generations.get_mut(number) {
            slices.push(Arc::new(slice));
        }
    }

    /// Records that the load exceeds the limits, until its ids have expired.
    fn record_pressure(&mut self, pressure: Pressure) {
        let DatedParams { window_ns, skew_ns, period_ns, .. } = self.plan;
        let until =
            [window_ns, skew_ns, period_ns].into_iter().fold(self.now.as_nanos(), u64::saturating_add);
        self.pressure.note(pressure, until);
    }

    /// Ids to expect in a new generation: the largest recent count, if there is one.
    fn demand(&self, number: u64) -> f64 {
        if self.settings.growth == Growth::Fixed {
            return self.plan.generation_ids;
        }
        let before = usize::try_from(number - self.generations.first).unwrap_or(usize::MAX);
        let earlier = self.generations.list.iter().take(before).filter(|slices| !slices.is_empty());
        let counts: Vec<u64> =
            earlier.map(|slices| slices.iter().map(|slice| slice.count.get()).sum()).collect();
        // The first generation is partial and does not count.
        match counts.iter().rev().take(DEMAND_FROM).max() {
            Some(count) if counts.len() > 1 => *count as f64 * HEADROOM,
            _ => self.plan.generation_ids,
        }
    }
}
