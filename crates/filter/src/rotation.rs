//! Maintenance of an arrival-time filter: refresh, sweep, grow and shrink.
//!
//! The rotator owns the list of segments, oldest first; the last one takes new ids. The filter calls it under
//! a lock that inserts only *try* to take. Invariants:
//!
//! - **Retention.** A lane or segment is dropped only when its latest id is older than the window
//!   ([`Segment::expire`]). A resize opens a new segment and never moves or drops an id.
//! - **Clean start.** A lane is swept before it is opened.
//! - **Bounds.** At most [`SEGMENTS_MAX`] segments and `memory_cap` bytes. Beyond them, ids go into the open
//!   lane: the filter reports [`Pressure`] and its false-positive rate rises, but it forgets nothing.
//! - A resize *publishes* the new segment before it *closes* the old one, so an insert always finds an open
//!   lane.
//! - Inserts sweep a few rows each. If inserts are rare, the refresh sweeps the rest at once.

use std::sync::Arc;

use crate::approx_count::ApproxCount;
use crate::budget::{Account, Budget};
use crate::cache_line::{LANES, LINE_BYTES, OutOfMemory};
use crate::parameters::FilterParams;
use crate::segment::{Segment, lanes_of};
use crate::settings::{Growth, Settings, SettingsError};
use crate::status::{LastPressure, Pressure, Status};
use crate::sync::Ordering;

/// Maximum of live segments; every segment adds a probe to each lookup.
pub(crate) const SEGMENTS_MAX: usize = 4;

/// Minimum and maximum growth factor of a new segment, by the number of live segments. A rising
/// load outgrows a doubled size within the window, and the number of segments is limited. A short burst looks
/// like a much larger load.
const GROW: [(f64, f64); SEGMENTS_MAX - 1] = [(2.0, 8.0), (4.0, 16.0), (16.0, 64.0)];

/// A full lane causes growth if the load exceeds the capacity by this factor. Below it, an early refresh is
/// enough.
const GROW_ABOVE: f64 = 1.05;

/// A load below this share of the capacity for `SHRINK_AFTER` refreshes causes shrinking.
const SHRINK_BELOW: f64 = 0.25;
const SHRINK_AFTER: u32 = 4;

/// Rows swept by one insert. A sweep must finish within a thousandth of a window; at a steady full load that
/// is about one insert per 30 rows.
pub(crate) const SWEEP_ROWS: usize = 64;

/// Maintenance counters for [`Status`].
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct MaintenanceCounts {
    pub(crate) refreshes_by_age: u64,
    pub(crate) refreshes_by_fill: u64,
    pub(crate) resizes: u64,
}

/// Expired lanes of the current segment that are not zeroed yet.
#[derive(Debug, Clone, Copy, Default)]
struct Sweep {
    /// Lanes of the current pass, and its next row.
    lanes: u8,
    row: usize,
    /// Lanes that expired after the pass started.
    waiting: u8,
}

pub(crate) struct Rotator {
    pub(crate) settings: Settings,
    pub(crate) plan: FilterParams,
    /// Oldest first.
    pub(crate) segments: Vec<Arc<Segment>>,
    sweep: Sweep,
    /// The latest tick seen; it never decreases.
    pub(crate) tick: u64,
    /// Tick at which the open lane was opened, and consecutive refreshes at which it was nearly empty.
    opened: u64,
    quiet_refreshes: u32,
    quiet_peak: f64,
    pressure: LastPressure,
    pub(crate) counts: MaintenanceCounts,
    account: Account,
}

/// Receives the new list of segments before the old one is closed.
pub(crate) type Publish<'a> = &'a mut dyn FnMut(&[Arc<Segment>]);

impl Rotator {
    pub(crate) fn new(settings: &Settings, budget: &Budget) -> Result<Self, SettingsError> {
        let plan = FilterParams::new(settings)?;
        let account = Account::open(budget, plan.rows * LINE_BYTES)?;
        let segment = new_segment(&plan, plan.rows)
            .map_err(|OutOfMemory| SettingsError::OutOfMemory { bytes: plan.rows * LINE_BYTES })?;
        Ok(Self::with_segments(settings.clone(), plan, vec![Arc::new(segment)], 0, account))
    }

    /// A rotator of existing segments, the last of which is open.
    pub(crate) fn with_segments(
        settings: Settings,
        plan: FilterParams,
        segments: Vec<Arc<Segment>>,
        tick: u64,
        account: Account,
    ) -> Self {
        let open = segments.last().and_then(|segment| Some((segment, segment.open_lane()?)));
        assert!(open.is_some(), "one segment is open");
        let opened = open.and_then(|(segment, lane)| segment.first(lane)).unwrap_or(tick);
        Self {
            settings,
            plan,
            segments,
            sweep: Sweep::default(),
            tick,
            opened,
            quiet_refreshes: 0,
            quiet_peak: 0.0,
            pressure: LastPressure::default(),
            counts: MaintenanceCounts::default(),
            account,
        }
    }

    /// The segment that takes new ids.
    fn current(&self) -> &Arc<Segment> {
        &self.segments[self.segments.len() - 1]
    }

    pub(crate) fn sweeping(&self) -> bool {
        self.sweep.lanes | self.sweep.waiting != 0
    }

    /// The next tick at which [`advance`](Self::advance) has work to do.
    pub(crate) fn due(&self) -> u64 {
        let current = self.current();
        let first = current.open_lane().and_then(|open| current.first(open));
        // An empty lane gets its first id later than now.
        let from = first.map_or(self.tick, |first| first.max(self.opened));
        let refresh = from.saturating_add(self.plan.refresh_ticks);
        let expiry = self.segments.iter().map(|segment| segment.next_expiry());
        expiry.fold(refresh, u64::min).max(self.tick.saturating_add(1))
    }

    /// Performs the work due at `tick`. An earlier tick than the latest counts as the latest.
    pub(crate) fn advance(&mut self, tick: u64, publish: Publish<'_>) {
        self.tick = self.tick.max(tick);
        self.pressure.reach(self.tick);
        self.expire(publish);
        if self.refresh(publish) {
            // A lane that was idle for a window closes and expires in one step.
            self.expire(publish);
        }
        if self.is_empty() && self.shrink_to_start(publish) {
            self.expire(publish);
        }
    }

    /// Sweeps a few rows of expired lanes.
    pub(crate) fn sweep_some(&mut self, rows_max: usize) {
        if self.sweep.lanes == 0 {
            self.sweep = Sweep { lanes: self.sweep.waiting, row: 0, waiting: 0 };
        }
        if self.sweep.lanes != 0 {
            match self.current().sweep(self.sweep.lanes, self.sweep.row, rows_max) {
                Some(row) => self.sweep.row = row,
                None => self.sweep.lanes = 0,
            }
        }
    }

    pub(crate) fn sweep_all(&mut self) {
        while self.sweeping() {
            self.sweep_some(usize::MAX);
        }
    }

    pub(crate) fn status(&self) -> Status {
        let live = || {
            self.segments.iter().flat_map(|segment| lanes_of(segment.live()).map(move |lane| (segment, lane)))
        };
        let survives: f64 = live().map(|(segment, lane)| 1.0 - segment.probability(lane)).product();
        Status {
            bytes: self.bytes(),
            memory_cap: self.plan.memory_cap,
            segments: self.segments.len(),
            generations: live().filter(|(segment, lane)| segment.last(*lane).is_some()).count(),
            ids: live().map(|(segment, lane)| segment.counts[lane].get()).sum(),
            false_positive_rate: 1.0 - survives,
            target: self.plan.target,
            pressure: self.pressure.get(),
            refreshes_by_age: self.counts.refreshes_by_age,
            refreshes_by_fill: self.counts.refreshes_by_fill,
            resizes: self.counts.resizes,
        }
    }

    pub(crate) fn bytes(&self) -> usize {
        self.segments.iter().map(|segment| segment.lines.bytes()).sum()
    }

    fn lane_ids_max(&self) -> u64 {
        self.plan.fill_limit.ids_in(self.current().lines.len()).max(1)
    }

    /// Drops lanes and segments whose ids are all older than the window.
    fn expire(&mut self, publish: Publish<'_>) {
        self.sweep.waiting |= self.current().expire(self.tick);
        let (before, newest) = (self.segments.len(), Arc::clone(self.current()));
        self.segments.retain(|segment| {
            Arc::ptr_eq(segment, &newest) || {
                segment.expire(self.tick);
                segment.live() != 0
            }
        });
        if self.segments.len() < before {
            self.account.charge(self.bytes());
            publish(&self.segments);
        }
    }

    /// Closes the open lane if it is old or full enough; returns whether it did.
    fn refresh(&mut self, publish: Publish<'_>) -> bool {
        let segment = Arc::clone(self.current());
        let Some(open) = segment.open_lane() else { return false };
        let Some(first) = segment.first(open) else { return false };
        // A delayed insert can leave an old stamp in a fresh lane.
        let age = self.tick.saturating_sub(first.max(self.opened));
        let count = segment.counts[open].get();
        let due = age >= self.plan.refresh_ticks;
        let full = count >= self.lane_ids_max();
        if !due && !full {
            return false;
        }
        if self.plan.growth == Growth::Fixed && !due {
            // A load that matches the expectation can fill a lane slightly early.
            if count as f64 > self.lane_ids_max() as f64 * GROW_ABOVE {
                self.record_pressure(Pressure::Fixed);
            }
            segment.alarm.store(ApproxCount::next_alarm(count), Ordering::Relaxed);
            return false;
        }

        let demand = count as f64 * self.plan.refresh_ticks as f64 / age.max(1) as f64;
        let resized = match self.wanted_rows(demand, full) {
            Some(rows) => self.resize(rows, publish),
            None => Ok(false),
        };
        if let Err(pressure) = resized {
            self.record_pressure(pressure);
        }
        // When memory is short, early refreshes would use up the lanes of the ring and overfill the last one.
        // It is better to fill the lanes evenly over time.
        let in_time = due || !matches!(resized, Err(Pressure::MemoryCap | Pressure::OutOfMemory));
        let refreshed =
            resized == Ok(true) || in_time && (self.turn(open) || self.repeat_size(resized, publish));
        if !refreshed {
            segment.alarm.store(ApproxCount::next_alarm(count), Ordering::Relaxed);
            return false;
        }
        if full && !due {
            self.counts.refreshes_by_fill += 1;
        } else {
            self.counts.refreshes_by_age += 1;
        }
        true
    }

    /// The size for `demand` (ids per lane at the current rate), if it differs from the current size.
    fn wanted_rows(&mut self, demand: f64, full: bool) -> Option<usize> {
        if self.plan.growth == Growth::Fixed {
            return None;
        }
        let capacity = self.lane_ids_max() as f64;
        if full && demand > capacity * GROW_ABOVE {
            self.quiet_refreshes = 0;
            let present = self.current().lines.len() as f64;
            let rows = self.plan.rows_for(demand) as f64;
            let (least, most) = GROW[self.segments.len().min(GROW.len()) - 1];
            return Some(rows.clamp(present * least, present * most) as usize);
        }
        if demand >= capacity * SHRINK_BELOW {
            self.quiet_refreshes = 0;
            return None;
        }
        self.quiet_peak = if self.quiet_refreshes == 0 { demand } else { self.quiet_peak.max(demand) };
        self.quiet_refreshes += 1;
        let rows = self.plan.rows_for(self.quiet_peak);
        (self.quiet_refreshes >= SHRINK_AFTER && rows * 2 < self.current().lines.len()).then_some(rows)
    }

    /// Opens a segment of that size and closes the current one. `Ok(false)` if shrinking can wait.
    fn resize(&mut self, rows: usize, publish: Publish<'_>) -> Result<bool, Pressure> {
        let present = self.current().lines.len();
        let shrinks = rows < present;
        // The last segment is reserved for growth.
        if shrinks && self.segments.len() + 1 >= SEGMENTS_MAX {
            return Ok(false);
        }
        if self.segments.len() >= SEGMENTS_MAX {
            return Err(Pressure::SegmentCap);
        }
        let room = self.plan.memory_cap.min(self.account.room()).saturating_sub(self.bytes()) / LINE_BYTES;
        let rows = rows.min(room);
        let fits = rows > 0 && (shrinks || rows >= present);
        if !fits || self.account.try_charge(self.bytes() + rows * LINE_BYTES).is_err() {
            return if shrinks { Ok(false) } else { Err(Pressure::MemoryCap) };
        }
        let segment = new_segment(&self.plan, rows).map_err(|OutOfMemory| {
            self.account.charge(self.segments.iter().map(|segment| segment.lines.bytes()).sum());
            Pressure::OutOfMemory
        })?;
        let closing = Arc::clone(self.current());
        self.segments.push(Arc::new(segment));
        publish(&self.segments);
        closing.turn(None);
        self.sweep = Sweep::default();
        self.opened = self.tick;
        self.quiet_refreshes = 0;
        self.counts.resizes += 1;
        Ok(true)
    }

    /// Closes the open lane of the current segment and opens the next one, if that is free or can be swept.
    fn turn(&mut self, open: usize) -> bool {
        let next = (open + 1) % LANES;
        let segment = Arc::clone(self.current());
        if segment.live() & 1 << next != 0 {
            return false;
        }
        if (self.sweep.lanes | self.sweep.waiting) & 1 << next != 0 {
            self.sweep_all();
        }
        segment.turn(Some(next));
        segment.alarm.store(self.lane_ids_max(), Ordering::Relaxed);
        self.opened = self.tick;
        true
    }

    /// Early refreshes have used up all lanes: opens another segment of the same size, or waits.
    fn repeat_size(&mut self, resized: Result<bool, Pressure>, publish: Publish<'_>) -> bool {
        if self.plan.growth == Growth::Fixed || resized.is_err() {
            return false;
        }
        let rows = self.current().lines.len();
        self.resize(rows, publish).unwrap_or_else(|pressure| {
            self.record_pressure(pressure);
            false
        })
    }

    /// Records that the load exceeds the limits, until its ids have expired.
    fn record_pressure(&mut self, pressure: Pressure) {
        let lifetime = self.plan.window_ticks + self.plan.refresh_ticks;
        self.pressure.note(pressure, self.tick.saturating_add(lifetime));
    }

    /// Whether the filter contains no id.
    fn is_empty(&self) -> bool {
        let current = self.current();
        self.segments.len() == 1 && lanes_of(current.live()).all(|lane| current.last(lane).is_none())
    }

    /// Releases memory of a past load; returns whether it did.
    fn shrink_to_start(&mut self, publish: Publish<'_>) -> bool {
        self.plan.growth == Growth::Elastic
            && self.current().lines.len() > self.plan.rows
            && self.resize(self.plan.rows, publish) == Ok(true)
    }
}

fn new_segment(plan: &FilterParams, rows: usize) -> Result<Segment, OutOfMemory> {
    Segment::new(rows, plan.fill_limit.layout, plan.fill_limit.ids_in(rows), plan.window_ticks, Some(0))
}
