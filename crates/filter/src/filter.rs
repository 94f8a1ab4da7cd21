//! The filter by arrival time.
//!
//! Inserts and lookups do not block: they work on a published list of segments. Due maintenance (refresh,
//! sweep, resize) is done by the insert or lookup that finds it due and gets the rotator's lock at the first
//! try; the others continue. [`check_and_insert`](ForgetfulFilter::check_and_insert) takes the lock of the
//! id's stripe. `maintain`, `status` and `snapshot` wait for the rotator's lock. [`crate::segment`] explains
//! why a refresh loses no insert.

use std::io;
use std::sync::Arc;

use crate::budget::Budget;
use crate::key::{Fingerprint, Key};
use crate::lock_stripes::LockStripes;
use crate::rotation::{Rotator, SWEEP_ROWS};
use crate::same_methods::same_methods;
use crate::segment::{Inserted, Segment};
use crate::settings::{Settings, SettingsError};
use crate::snapshot::arrival::State;
use crate::snapshot::{self, SnapshotError};
use crate::status::Status;
use crate::sync::{self, AtomicU64, Mutex, MutexGuard, Ordering, Snapshotted};
use crate::timestamp::{TickScale, Timestamp};

/// The result of a lookup.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[must_use]
pub enum Membership {
    /// The id was certainly not inserted within the window.
    New,
    /// The id was inserted within the window or shortly before it; or it is a false positive, with the
    /// probability that [`Status::false_positive_rate`] estimates.
    Maybe,
}

/// Remembers ids by their arrival time. Threads can share it.
///
/// ```
/// use std::time::Duration;
/// use forgetful_filter::{Key, Timestamp, Settings, Membership};
///
/// # fn main() -> Result<(), forgetful_filter::SettingsError> {
/// let key = Key::new(*b"sixteen secret b"); // use random bytes of the system
/// let seen = Settings::for_window(Duration::from_secs(600)).build(key)?;
/// let now = Timestamp::from_secs(1);
///
/// // Several threads race on the same id: exactly one of them gets `New`.
/// let winners: usize = std::thread::scope(|scope| {
///     let racers: Vec<_> =
///         (0..4).map(|_| scope.spawn(|| seen.check_and_insert(b"order-17", now))).collect();
///     racers.into_iter().filter_map(|r| r.join().ok()).filter(|s| *s == Membership::New).count()
/// });
/// assert_eq!(winners, 1);
/// # Ok(())
/// # }
/// ```
pub struct ForgetfulFilter {
    key: Key,
    ticks: TickScale,
    /// The latest tick that maintenance has reached; it never decreases.
    tick: AtomicU64,
    /// The tick at which maintenance is due. Inserts read it; it changes a few times per window.
    due: AtomicU64,
    /// Non-zero while expired lanes need sweeping.
    chores: AtomicU64,
    segments: Snapshotted<Vec<Arc<Segment>>>,
    rotator: Mutex<Rotator>,
    stripes: LockStripes,
}

impl ForgetfulFilter {
    pub(crate) fn new(settings: Settings, key: Key, budget: &Budget) -> Result<Self, SettingsError> {
        Ok(Self::with_rotator(Rotator::new(&settings, budget)?, key))
    }

    fn with_rotator(rotator: Rotator, key: Key) -> Self {
        Self {
            key,
            ticks: rotator.plan.ticks,
            tick: AtomicU64::new(rotator.tick),
            due: AtomicU64::new(0),
            chores: AtomicU64::new(u64::from(rotator.sweeping())),
            segments: Snapshotted::new(rotator.segments.clone()),
            rotator: Mutex::new(rotator),
            stripes: LockStripes::new(),
        }
    }

    same_methods!(Rotator, State<'_>);

    /// Remembers the id from `now` on, even if it is known. Does not block.
    pub fn insert(&self, id: &[u8], now: Timestamp) {
        self.insert_fingerprint(self.fingerprint(id), now);
    }

    /// Whether the id may have been inserted within the window before `now`. `false` is certain for every
    /// insert that returned before this call started. Does not block.
    pub fn contains(&self, id: &[u8], now: Timestamp) -> bool {
        self.contains_fingerprint(self.fingerprint(id), now)
    }

    /// Looks up the id and inserts it if it is new. Of all threads that pass the same id within a window, one
    /// gets [`Membership::New`] (none, if the id is a false positive). A known id is not renewed: its window
    /// counts from its first arrival.
    ///
    /// If an exact store shows that [`Membership::Maybe`] was a false positive, call
    /// [`insert`](Self::insert), which inserts unconditionally.
    pub fn check_and_insert(&self, id: &[u8], now: Timestamp) -> Membership {
        let fingerprint = self.fingerprint(id);
        let _one_at_a_time = self.stripes.lock(fingerprint);
        if self.contains_fingerprint(fingerprint, now) {
            return Membership::Maybe;
        }
        self.insert_fingerprint(fingerprint, now);
        Membership::New
    }

    /// [`insert`](Self::insert), for an id already hashed.
    #[inline]
    pub fn insert_fingerprint(&self, fingerprint: Fingerprint, now: Timestamp) {
        let tick = self.reach(now);
        loop {
            let inserted = match self.segments.load().last() {
                Some(current) => current.insert(fingerprint, tick),
                None => Inserted::Closed,
            };
            match inserted {
                Inserted::Done { full: false } => break,
                Inserted::Done { full: true } => {
                    self.try_advance(tick);
                    break;
                }
                // A new segment was published before this one was closed.
                Inserted::Closed => continue,
            }
        }
        if self.chores.load(Ordering::Relaxed) != 0 {
            self.try_sweep();
        }
    }

    /// [`contains`](Self::contains), for an id already hashed.
    #[inline]
    pub fn contains_fingerprint(&self, fingerprint: Fingerprint, now: Timestamp) -> bool {
        let tick = self.reach(now);
        self.segments.load().iter().rev().any(|segment| segment.contains(fingerprint, tick))
    }

    /// Prefetches the memory that lookups and inserts of these ids will touch, so that their cache misses
    /// overlap.
    #[inline]
    pub fn prefetch(&self, ids: impl Iterator<Item = Fingerprint>) {
        if let Some(current) = self.segments.load().last() {
            std::hint::black_box(ids.fold(0, |sum, fingerprint| sum | current.prefetch(fingerprint)));
        }
    }

    /// Performs due maintenance now: refresh, sweep, release of memory. For idle times; never required.
    /// Blocks.
    pub fn maintain(&self, now: Timestamp) {
        let mut rotator = self.lock_rotator();
        self.advance(&mut rotator, self.ticks.at(now));
        rotator.sweep_all();
        self.chores.store(0, Ordering::Relaxed);
    }

    /// The filter as bytes. Contains every id whose insert returned before this call started; concurrent
    /// inserts may be missing.
    pub fn snapshot(&self) -> Vec<u8> {
        snapshot::to_vec(&State::of(&self.lock_rotator()), &self.key)
    }

    /// Writes the bytes of [`snapshot`](Self::snapshot) without a copy in memory. Inserts and lookups
    /// continue; `maintain`, `status` and due maintenance wait.
    pub fn write_snapshot(&self, out: &mut dyn io::Write) -> io::Result<()> {
        snapshot::write(&State::of(&self.lock_rotator()), &self.key, out)
    }

    /// The tick of this operation. Performs due maintenance if no other thread does.
    #[inline]
    fn reach(&self, now: Timestamp) -> u64 {
        let tick = self.ticks.at(now);
        if tick >= self.due.load(Ordering::Relaxed) {
            self.try_advance(tick);
        }
        tick.max(self.tick.load(Ordering::Relaxed))
    }

    #[cold]
    fn try_advance(&self, tick: u64) {
        if let Some(mut rotator) = sync::try_lock(&self.rotator) {
            self.advance(&mut rotator, tick);
        }
    }

    fn advance(&self, rotator: &mut Rotator, tick: u64) {
        rotator.advance(tick, &mut |segments| self.segments.store(segments.to_vec()));
        self.tick.store(rotator.tick, Ordering::Relaxed);
        self.due.store(rotator.due(), Ordering::Relaxed);
        self.chores.store(u64::from(rotator.sweeping()), Ordering::Relaxed);
    }

    #[cold]
    fn try_sweep(&self) {
        if let Some(mut rotator) = sync::try_lock(&self.rotator) {
            rotator.sweep_some(SWEEP_ROWS);
            self.chores.store(u64::from(rotator.sweeping()), Ordering::Relaxed);
        }
    }
}

/// Small enough for Miri; `tests/concurrency.rs` has larger ones.
#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use std::time::Duration;

    /// Ids of each thread within the window: more than the first segment holds.
    const IDS: u64 = if cfg!(miri) { 200 } else { 4_000 };

    #[test]
    fn threads_share_a_filter_through_refreshes_and_a_resize() {
        let settings =
            Settings::for_window(Duration::from_micros(100)).expected_ids(1).false_positive_rate(0.1);
        let filter = settings.build(Key::new([5; 16])).expect("valid settings");
        std::thread::scope(|scope| {
            for thread in 0..2_u64 {
                let filter = &filter;
                scope.spawn(move || {
                    for n in 0..IDS {
                        let id = (thread << 32 | n).to_le_bytes();
                        let now = Timestamp::from_nanos(n * 100_000 / IDS);
                        filter.insert(&id, now);
                        assert!(filter.contains(&id, now));
                    }
                });
            }
        });
        filter.maintain(Timestamp::from_nanos(100_000));
        let status = filter.status();
        assert!(status.resizes > 0 && status.refreshes_by_age > 0, "{status:?}");
        let copy = ForgetfulFilter::restore(&filter.snapshot(), Key::new([5; 16]), Timestamp::ZERO, 1 << 20);
        assert!(
            copy.is_ok_and(|copy| copy.contains(&(IDS - 1).to_le_bytes(), Timestamp::from_nanos(100_000)))
        );
    }

    #[test]
    fn a_race_has_one_winner() {
        let settings = Settings::for_window(Duration::from_secs(1)).false_positive_rate(0.1);
        let filter = settings.build(Key::new([5; 16])).expect("valid settings");
        for id in 0..if cfg!(miri) { 5 } else { 20_u8 } {
            let wins: usize = std::thread::scope(|scope| {
                let racers =
                    [(), ()].map(|()| scope.spawn(|| filter.check_and_insert(&[id], Timestamp::ZERO)));
                racers.into_iter().filter_map(|r| r.join().ok()).filter(|s| *s == Membership::New).count()
            });
            assert!(wins <= 1);
        }
    }
}
