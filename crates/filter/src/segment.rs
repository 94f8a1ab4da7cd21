//! A segment: a ring of eight generations of equal size, interleaved as lanes of the same cache lines.
//!
//! One lane is *open* and takes new ids. A lane is *live* while an id in it can be younger than the window;
//! lookups ignore the other lanes. Invariants:
//!
//! - **No lost insert.** An insert that returned [`Inserted::Done`] stamped its lane with its tick and then
//!   wrote all bits while the lane was open. So the rotator, when it closes the lane, reads a stamp at least
//!   as late as every completed insert. Insert and close are store/load pairs in opposite order (stamp, then
//!   epoch; epoch, then stamp); therefore these four accesses are sequentially consistent.
//! - **No early expiry.** A lane leaves the live mask only when its stamp is older than the window.
//! - An insert that was delayed past a close repeats in the lane that is open then. The bits it left in the
//!   old lane can only cause false positives.

use crate::approx_count::ApproxCount;
use crate::cache_line::{CacheLines, LANES, OutOfMemory, set_bits};
use crate::key::Fingerprint;
use crate::lookup::LaneLookup;
use crate::probe::Layout;
use crate::sizing;
use crate::sync::{AtomicU64, Ordering, order_of_seq_cst_accesses};

/// The live lanes and the open lane in one word, so that a reader sees a consistent state.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Control(u64);

impl Control {
    const OPEN_SHIFT: u32 = 8;
    const EPOCH_SHIFT: u32 = 16;
    const NO_LANE: u64 = LANES as u64;

    fn new(epoch: u64, open: Option<usize>, live: u8) -> Self {
        let open = open.map_or(Self::NO_LANE, |lane| lane as u64);
        Self(epoch << Self::EPOCH_SHIFT | open << Self::OPEN_SHIFT | u64::from(live))
    }

    fn live(self) -> u8 {
        self.0 as u8
    }

    fn open(self) -> Option<usize> {
        let lane = (self.0 >> Self::OPEN_SHIFT) & 0xf;
        (lane < Self::NO_LANE).then_some(lane as usize)
    }

    fn epoch(self) -> u64 {
        self.0 >> Self::EPOCH_SHIFT
    }
}

/// Stamps of one lane: tick + 1, or 0 while the lane is empty.
#[derive(Default)]
struct Lane {
    /// Stamp of the first insert.
    begin: AtomicU64,
    /// Stamp of the latest insert.
    end: AtomicU64,
}

fn stamp_of(tick: u64) -> u64 {
    tick.saturating_add(1)
}

/// The result of an insert.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Inserted {
    /// The id is in the lane.
    Done {
        /// The lane has reached its maximum of ids; a refresh is due.
        full: bool,
    },
    /// The segment is closed; the id belongs into the next one.
    Closed,
}

pub(crate) struct Segment {
    control: AtomicU64,
    /// No live lane expires before this tick, so lookups need not read the stamps.
    quiet_until: AtomicU64,
    window_ticks: u64,
    pub(crate) layout: Layout,
    lookup: LaneLookup,
    lanes: [Lane; LANES],
    pub(crate) lines: CacheLines,
    pub(crate) counts: [ApproxCount; LANES],
    /// Number of ids at which an insert reports a full lane.
    pub(crate) alarm: AtomicU64,
}

impl Segment {
    /// An empty segment, with one open lane or none.
    pub(crate) fn new(
        rows: usize,
        layout: Layout,
        lane_ids_max: u64,
        window_ticks: u64,
        open: Option<usize>,
    ) -> Result<Self, OutOfMemory> {
        let live = open.map_or(0, |lane| 1 << lane);
        Ok(Self {
            control: AtomicU64::new(Control::new(1, open, live).0),
            quiet_until: AtomicU64::new(0),
            window_ticks,
            layout,
            lookup: LaneLookup::new(layout),
            lanes: Default::default(),
            lines: CacheLines::zeroed(rows)?,
            counts: std::array::from_fn(|_| ApproxCount::for_ids(lane_ids_max)),
            alarm: AtomicU64::new(lane_ids_max.max(1)),
        })
    }

    #[inline]
    pub(crate) fn live(&self) -> u8 {
        self.control().live()
    }

    #[inline]
    pub(crate) fn open_lane(&self) -> Option<usize> {
        self.control().open()
    }

    /// The tick of the lane's first id.
    pub(crate) fn first(&self, lane: usize) -> Option<u64> {
        self.lanes[lane].begin.load(Ordering::Relaxed).checked_sub(1)
    }

    /// The tick of the lane's latest id.
    #[inline]
    pub(crate) fn last(&self, lane: usize) -> Option<u64> {
        self.lanes[lane].end.load(Ordering::SeqCst).checked_sub(1)
    }

    /// Whether every id of the lane is older than the window.
    #[inline]
    pub(crate) fn expired(&self, lane: usize, tick: u64) -> bool {
        self.last(lane).is_none_or(|last| tick.saturating_sub(last) > self.window_ticks)
    }

    /// Puts an id into the open lane.
    #[inline]
    pub(crate) fn insert(&self, fingerprint: Fingerprint, tick: u64) -> Inserted {
        loop {
            let control = self.control();
            let Some(lane) = control.open() else { return Inserted::Closed };
            self.stamp(lane, tick);
            let new = self.layout.specialised(|layout| {
                (0..layout.probes).fold(false, |new, probe| {
                    let (row, mask) = layout.probe(fingerprint, probe, self.lines.len());
                    set_bits(&self.lines.row(row).0[lane], mask) | new
                })
            });
            order_of_seq_cst_accesses();
            if self.control().epoch() == control.epoch() {
                let full = new
                    && self.counts[lane]
                        .add(fingerprint)
                        .is_some_and(|count| count >= self.alarm.load(Ordering::Relaxed));
                return Inserted::Done { full };
            }
        }
    }

    /// Touches one word of every row that a lookup or an insert of the id reads.
    #[inline]
    pub(crate) fn prefetch(&self, fingerprint: Fingerprint) -> u64 {
        self.layout.specialised(|layout| {
            (0..layout.probes).fold(0, |all, probe| {
                let (row, _) = layout.probe(fingerprint, probe, self.lines.len());
                all | self.lines.row(row).0[0].load(Ordering::Relaxed)
            })
        })
    }

    /// Whether a live lane has all bits of the id.
    #[inline]
    pub(crate) fn contains(&self, fingerprint: Fingerprint, tick: u64) -> bool {
        let mut lanes = self.live();
        if tick >= self.quiet_until.load(Ordering::Relaxed) {
            lanes &= self.unexpired(tick);
        }
        self.lookup.lanes_holding(&self.lines, fingerprint, lanes) != 0
    }

    /// Closes the open lane and opens `next`, if given. Only the rotator calls this, under its lock.
    ///
    /// `next` must be swept. Its stamps are reset before it becomes visible as open.
    pub(crate) fn turn(&self, next: Option<usize>) {
        let control = self.control();
        let mut live = control.live();
        if let Some(next) = next {
            assert_eq!(live & 1 << next, 0, "a lane that is opened must not be live");
            self.lanes[next].begin.store(0, Ordering::SeqCst);
            self.lanes[next].end.store(0, Ordering::SeqCst);
            self.counts[next].set(0);
            live |= 1 << next;
        }
        self.control.store(Control::new(control.epoch() + 1, next, live).0, Ordering::SeqCst);
        order_of_seq_cst_accesses();
    }

    /// Removes expired closed lanes from the live mask and returns them.
    pub(crate) fn expire(&self, tick: u64) -> u8 {
        let control = self.control();
        let mut expired = 0;
        for lane in lanes_of(control.live()).filter(|lane| control.open() != Some(*lane)) {
            expired |= u8::from(self.expired(lane, tick)) << lane;
        }
        if expired != 0 {
            let live = control.live() & !expired;
            self.control.store(Control::new(control.epoch(), control.open(), live).0, Ordering::SeqCst);
        }
        self.quiet_until.store(self.next_expiry(), Ordering::Relaxed);
        expired
    }

    /// Zeroes the lanes in up to `rows_max` rows from `row` on; returns the next row, or `None` at the end.
    pub(crate) fn sweep(&self, lanes: u8, row: usize, rows_max: usize) -> Option<usize> {
        assert_eq!(self.live() & lanes, 0, "a live lane is never swept");
        let end = self.lines.len().min(row.saturating_add(rows_max));
        for row in row..end {
            for lane in lanes_of(lanes) {
                self.lines.row(row).0[lane].store(0, Ordering::Relaxed);
            }
        }
        (end < self.lines.len()).then_some(end)
    }

    /// The false-positive probability of a lane, estimated from a sample of its words.
    pub(crate) fn probability(&self, lane: usize) -> f64 {
        sizing::measured(self.lines.len(), self.layout, |row| {
            self.lines.row(row).0[lane].load(Ordering::Relaxed)
        })
    }

    /// The words of a lane, in the order of the rows.
    pub(crate) fn words(&self, lane: usize) -> impl Iterator<Item = u64> + '_ {
        (0..self.lines.len()).map(move |row| self.lines.row(row).0[lane].load(Ordering::Relaxed))
    }

    /// Makes a restored lane live but not open.
    pub(crate) fn revive(&self, lane: usize, saved: &SavedLane) {
        self.lanes[lane].begin.store(stamp_of(saved.first), Ordering::SeqCst);
        self.lanes[lane].end.store(stamp_of(saved.last), Ordering::SeqCst);
        self.counts[lane].set(saved.count);
        let control = self.control();
        let live = control.live() | 1 << lane;
        self.control.store(Control::new(control.epoch(), control.open(), live).0, Ordering::SeqCst);
    }

    #[inline]
    fn control(&self) -> Control {
        Control(self.control.load(Ordering::SeqCst))
    }

    /// The first tick at which a live lane can expire.
    pub(crate) fn next_expiry(&self) -> u64 {
        lanes_of(self.live())
            .filter_map(|lane| self.last(lane))
            .map(|last| last.saturating_add(self.window_ticks).saturating_add(1))
            .min()
            .unwrap_or(0)
    }

    #[cold]
    #[inline(never)]
    fn unexpired(&self, tick: u64) -> u8 {
        (0..LANES).filter(|&lane| !self.expired(lane, tick)).fold(0, |mask, lane| mask | 1 << lane)
    }

    /// Stamps the lane with `tick`. Stamps change once per tick, so this is nearly always two loads.
    #[inline]
    fn stamp(&self, lane: usize, tick: u64) {
        let (lane, stamp) = (&self.lanes[lane], stamp_of(tick));
        if lane.end.load(Ordering::SeqCst) < stamp {
            lane.end.fetch_max(stamp, Ordering::SeqCst);
        }
        if lane.begin.load(Ordering::Relaxed) == 0 {
            // The first of two concurrent inserts wins; both have nearly the same tick.
            let _ = lane.begin.compare_exchange(0, stamp, Ordering::Relaxed, Ordering::Relaxed);
        }
    }
}

/// Stamps and count of a lane in a snapshot.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct SavedLane {
    pub(crate) first: u64,
    pub(crate) last: u64,
    pub(crate) count: u64,
}

/// Iterates over the lanes of a mask.
pub(crate) fn lanes_of(mask: u8) -> impl Iterator<Item = usize> {
    (0..LANES).filter(move |lane| mask & 1 << lane != 0)
}
