//! The filter that threads share.
//!
//! Inserts and lookups never wait: they work on the published list of segments. What is due (refresh, sweep,
//! resize) is done by whichever insert or lookup finds it due and gets the rotator's lock at the first try; the
//! others go on meanwhile. [`check_and_insert`](ForgetfulFilter::check_and_insert) takes the lock of the id's
//! stripe; `maintain`, `status` and `snapshot` wait for the rotator's. See [`crate::segment`] for why no insert is lost across a refresh.

use std::io;
use std::sync::Arc;

use crate::key::{Fingerprint, Key};
use crate::lock_stripes::LockStripes;
use crate::rotation::{Rotator, SWEEP_ROWS};
use crate::segment::{Inserted, Segment};
use crate::settings::{Settings, SettingsError};
use crate::snapshot::{self, Kind, SnapshotError};
use crate::status::Status;
use crate::sync::{self, AtomicU64, Mutex, MutexGuard, Ordering, Snapshotted};
use crate::timestamp::{TickScale, Timestamp};

/// What a filter says of an id.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[must_use]
pub enum Membership {
    /// Certainly not inserted within the window.
    New,
    /// Inserted within the window; or, with the small probability that [`Status::false_positive_rate`] estimates, not
    /// at all; or inserted a little longer ago.
    Maybe,
}

/// Remembers ids by their arrival. Several threads can share it.
///
/// ```
/// use std::time::Duration;
/// use forgetful_filter::{Key, Timestamp, Settings, Membership};
///
/// # fn main() -> Result<(), forgetful_filter::SettingsError> {
/// let key = Key::new(*b"sixteen secret b"); // draw yours from the system's randomness
/// let seen = Settings::for_window(Duration::from_secs(600)).build(key)?;
/// let now = Timestamp::from_secs(1);
///
/// // Several threads race on the same id: exactly one of them is told that it is new.
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
    /// The latest tick that the rotator has worked through; never goes back.
    tick: AtomicU64,
    /// The tick at which the rotator has something to do again. Inserts read it; it changes a few times a window.
    due: AtomicU64,
    /// Not zero while expired lanes wait to be swept.
    chores: AtomicU64,
    segments: Snapshotted<Vec<Arc<Segment>>>,
    rotator: Mutex<Rotator>,
    stripes: LockStripes,
}

impl ForgetfulFilter {
    pub(crate) fn new(settings: Settings, key: Key) -> Result<Self, SettingsError> {
        Ok(Self::with_rotator(Rotator::new(&settings)?, key))
    }

    fn with_rotator(rotator: Rotator, key: Key) -> Self {
        Self {
            key,
            ticks: rotator.plan().ticks,
            tick: AtomicU64::new(rotator.tick()),
            due: AtomicU64::new(0),
            chores: AtomicU64::new(u64::from(rotator.sweeping())),
            segments: Snapshotted::new(rotator.segments().to_vec()),
            rotator: Mutex::new(rotator),
            stripes: LockStripes::new(),
        }
    }

    /// The fingerprint of an id under the filter's key.
    #[inline]
    pub fn fingerprint(&self, id: &[u8]) -> Fingerprint {
        self.key.fingerprint(id)
    }

    /// Remembers the id from `now` on, whether or not it was known. Never waits.
    pub fn insert(&self, id: &[u8], now: Timestamp) {
        self.insert_fingerprint(self.fingerprint(id), now);
    }

    /// Whether the id may have been inserted within the window before `now`; `false` is certain for every insert
    /// that returned before this call began. Never waits.
    pub fn contains(&self, id: &[u8], now: Timestamp) -> bool {
        self.contains_fingerprint(self.fingerprint(id), now)
    }

    /// Looks the id up, and remembers it from `now` on if it is new: of all threads that bring one id within a
    /// window, one is told [`Membership::New`] (or none, if the id is mistaken for a known one).
    pub fn check_and_insert(&self, id: &[u8], now: Timestamp) -> Membership {
        self.check_and_insert_fingerprint(self.fingerprint(id), now)
    }

    /// [`check_and_insert`](Self::check_and_insert), for an id already hashed.
    pub fn check_and_insert_fingerprint(&self, fingerprint: Fingerprint, now: Timestamp) -> Membership {
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

    /// Brings the memory near that lookups and inserts of these ids will touch, and changes nothing. The processor waits for all of them
    /// at once instead of for one after the other.
    #[inline]
    pub fn prefetch(&self, ids: impl Iterator<Item = Fingerprint>) {
        if let Some(current) = self.segments.load().last() {
            std::hint::black_box(ids.fold(0, |sum, fingerprint| sum | current.prefetch(fingerprint)));
        }
    }

    /// Does now what inserts would do on the way: refresh, sweep, let go of memory. Waits for the rotator.
    pub fn maintain(&self, now: Timestamp) {
        let mut rotator = self.lock_rotator();
        self.advance(&mut rotator, self.ticks.at(now));
        rotator.sweep_all();
        self.chores.store(0, Ordering::Relaxed);
    }

    /// Memory, fill, and the false-positive rate to expect now.
    pub fn status(&self) -> Status {
        self.lock_rotator().status()
    }

    /// The memory of the filter: as in [`status`](Self::status), without all the rest.
    pub fn bytes(&self) -> usize {
        self.lock_rotator().bytes()
    }

    /// The filter as bytes. Holds every id whose insert returned before this call began; those under way may be
    /// in it or not.
    pub fn snapshot(&self) -> Vec<u8> {
        snapshot::to_vec(&snapshot::arrival::State::of(&self.lock_rotator(), &self.key))
    }

    /// Writes what [`snapshot`](Self::snapshot) returns, without a copy of it in memory. Inserts and lookups do not wait for it;
    /// `maintain` and `status` do, and what is due (refresh, growth) is done when it has ended.
    pub fn write_snapshot(&self, out: &mut dyn io::Write) -> io::Result<()> {
        snapshot::write(&snapshot::arrival::State::of(&self.lock_rotator(), &self.key), out)
    }

    /// A filter from the bytes of a [`snapshot`](Self::snapshot) of either form, at the same time or later.
    pub fn restore(bytes: &[u8], key: Key, now: Timestamp, memory_cap: usize) -> Result<Self, SnapshotError> {
        let rotator = snapshot::from_slice(Kind::Arrival, bytes, |body| {
            snapshot::arrival::decode(body, &key, now, memory_cap)
        })?;
        Ok(Self::with_rotator(rotator, key))
    }

    /// As [`restore`](Self::restore), in passing from where it can be read; reads no byte more than the snapshot has.
    pub fn read_snapshot(
        input: &mut dyn io::Read,
        key: Key,
        now: Timestamp,
        memory_cap: usize,
    ) -> Result<Self, SnapshotError> {
        let rotator = snapshot::read(Kind::Arrival, input, |body| {
            snapshot::arrival::decode(body, &key, now, memory_cap)
        })?;
        Ok(Self::with_rotator(rotator, key))
    }

    /// The tick of this operation, after doing what it makes due if nobody else is at it.
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
        self.tick.store(rotator.tick(), Ordering::Relaxed);
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

    fn lock_rotator(&self) -> MutexGuard<'_, Rotator> {
        sync::lock(&self.rotator)
    }
}

/// Small enough for Miri, which watches every access; `tests/concurrency.rs` has the large ones.
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
