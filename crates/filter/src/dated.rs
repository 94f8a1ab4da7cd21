//! The filter for ids that carry a time.
//!
//! Inserts and lookups work on published generations and do not block, except that the first id of a
//! generation waits for the allocation of its slice. An insert needs no second check: slices are never
//! reused, and a slice that was retired meanwhile contained expired ids only. If the generation is gone, the
//! filter rejects the id instead of calling it new.

use std::io;

use crate::budget::Budget;
use crate::dated_rotation::{DatedIdError, DatedParams, DatedRotator};
use crate::filter::Membership;
use crate::generations::{Generations, any_contains};
use crate::key::{Fingerprint, Key};
use crate::lock_stripes::LockStripes;
use crate::same_methods::same_methods;
use crate::settings::{Settings, SettingsError};
use crate::snapshot::dated::State;
use crate::snapshot::{self, SnapshotError};
use crate::status::Status;
use crate::sync::{self, AtomicU64, Mutex, MutexGuard, Ordering, Snapshotted};
use crate::timestamp::Timestamp;

/// The shared time advances in steps of a generation divided by this number, so that it is rarely written.
const NOW_STEPS: u64 = 64;

/// Remembers ids by the time they carry (UUIDv7, ULID, ...). Threads can share it.
///
/// The time of an id selects one generation, so a lookup touches the words of that generation only. The
/// filter rejects ids older than the window; therefore it calls an id new at most once, however late the id
/// arrives.
///
/// ```
/// use std::time::Duration;
/// use forgetful_filter::{Key, Timestamp, DatedIdError, Settings, Membership};
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let key = Key::new(*b"sixteen secret b"); // use random bytes of the system
/// let seen = Settings::for_window(Duration::from_secs(86_400))
///     .skew(Duration::from_secs(5))
///     .build_dated(key)?;
///
/// let (dated, now) = (Timestamp::from_secs(100), Timestamp::from_secs(103)); // the id was created 3 s ago
/// assert_eq!(seen.check_and_insert(b"018bcfe5-6800-7", dated, now)?, Membership::New);
/// let retry = seen.check_and_insert(b"018bcfe5-6800-7", dated, Timestamp::from_secs(3_600))?;
/// assert_eq!(retry, Membership::Maybe);
///
/// // After two days the id has expired.
/// let late = seen.check_and_insert(b"018bcfe5-6800-7", dated, Timestamp::from_secs(172_800));
/// assert_eq!(late, Err(DatedIdError::Expired));
/// # Ok(())
/// # }
/// ```
pub struct DatedFilter {
    key: Key,
    plan: DatedParams,
    now_step: u64,
    /// The latest time seen, to within one step; it never decreases.
    now: AtomicU64,
    /// Nanoseconds at which the oldest generation retires.
    retires_at: AtomicU64,
    generations: Snapshotted<Generations>,
    rotator: Mutex<DatedRotator>,
    stripes: LockStripes,
}

impl DatedFilter {
    pub(crate) fn new(settings: Settings, key: Key, budget: &Budget) -> Result<Self, SettingsError> {
        Ok(Self::with_rotator(DatedRotator::new(settings, budget)?, key))
    }

    fn with_rotator(rotator: DatedRotator, key: Key) -> Self {
        Self {
            key,
            plan: rotator.plan.clone(),
            now_step: rotator.plan.period_ns / NOW_STEPS,
            now: AtomicU64::new(rotator.now.as_nanos()),
            retires_at: AtomicU64::new(rotator.plan.end_of(rotator.generations.first)),
            generations: Snapshotted::new(rotator.generations.clone()),
            rotator: Mutex::new(rotator),
            stripes: LockStripes::new(),
        }
    }

    same_methods!(DatedRotator, State);

    /// Remembers the id, even if it is known.
    pub fn insert(&self, id: &[u8], dated: Timestamp, now: Timestamp) -> Result<(), DatedIdError> {
        self.insert_fingerprint(self.fingerprint(id), dated, now)
    }

    /// Whether the id may have been inserted. `false` is certain for every insert that returned before this
    /// call started. An error means that the id is outside the window or too far ahead.
    pub fn contains(&self, id: &[u8], dated: Timestamp, now: Timestamp) -> Result<bool, DatedIdError> {
        self.contains_fingerprint(self.fingerprint(id), dated, now)
    }

    /// Looks up the id and inserts it if it is new. Of all threads that ever pass the same id, one gets
    /// [`Membership::New`] (none, if the id is a false positive).
    pub fn check_and_insert(
        &self,
        id: &[u8],
        dated: Timestamp,
        now: Timestamp,
    ) -> Result<Membership, DatedIdError> {
        let fingerprint = self.fingerprint(id);
        let _one_at_a_time = self.stripes.lock(fingerprint);
        if self.contains_fingerprint(fingerprint, dated, now)? {
            return Ok(Membership::Maybe);
        }
        self.insert_fingerprint(fingerprint, dated, now)?;
        Ok(Membership::New)
    }

    /// [`insert`](Self::insert), for an id already hashed.
    pub fn insert_fingerprint(
        &self,
        fingerprint: Fingerprint,
        dated: Timestamp,
        now: Timestamp,
    ) -> Result<(), DatedIdError> {
        let now = self.reach(now);
        self.plan.check(dated, now)?;
        let number = self.plan.number(dated);
        loop {
            let full = {
                let generations = self.generations.load();
                let slices = generations.get(number).ok_or(DatedIdError::Expired)?;
                slices.last().map(|slice| slice.insert(fingerprint))
            };
            match full {
                Some(false) => return Ok(()),
                Some(true) => {
                    if let Some(mut rotator) = sync::try_lock(&self.rotator) {
                        self.make_room(&mut rotator, number, now)?;
                    }
                    return Ok(());
                }
                None => self.make_room(&mut self.lock_rotator(), number, now)?,
            }
        }
    }

    /// [`contains`](Self::contains), for an id already hashed.
    #[inline]
    pub fn contains_fingerprint(
        &self,
        fingerprint: Fingerprint,
        dated: Timestamp,
        now: Timestamp,
    ) -> Result<bool, DatedIdError> {
        self.plan.check(dated, self.reach(now))?;
        let generations = self.generations.load();
        let slices = generations.get(self.plan.number(dated)).ok_or(DatedIdError::Expired)?;
        Ok(any_contains(slices, fingerprint))
    }

    /// Prefetches the memory that lookups and inserts of these ids will touch, so that their cache misses
    /// overlap.
    #[inline]
    pub fn prefetch(&self, ids: impl Iterator<Item = (Fingerprint, Timestamp)>) {
        let generations = self.generations.load();
        let mut sum = 0;
        for (fingerprint, dated) in ids {
            if let Some([older @ .., newest]) = generations.get(self.plan.number(dated)) {
                sum |= newest.prefetch(fingerprint);
                // For most new ids the first word decides.
                sum |= older.iter().fold(0, |sum, slice| sum | slice.first_word(fingerprint));
            }
        }
        std::hint::black_box(sum);
    }

    /// Drops generations that have expired by `now`. For idle times; never required.
    pub fn maintain(&self, now: Timestamp) {
        self.advance(&mut self.lock_rotator(), now);
    }

    /// The filter as bytes. Contains every id whose insert returned before this call started; concurrent
    /// inserts may be missing.
    pub fn snapshot(&self) -> Vec<u8> {
        snapshot::to_vec(&self.state(), &self.key)
    }

    /// Writes the bytes of [`snapshot`](Self::snapshot) without a copy in memory. No other operation waits
    /// for it.
    pub fn write_snapshot(&self, out: &mut dyn io::Write) -> io::Result<()> {
        snapshot::write(&self.state(), &self.key, out)
    }

    fn state(&self) -> State {
        State::of(&self.lock_rotator())
    }

    /// The time of this operation. Retires expired generations if no other thread does.
    #[inline]
    fn reach(&self, now: Timestamp) -> Timestamp {
        let known = self.now.load(Ordering::Relaxed);
        if now.as_nanos() > known.saturating_add(self.now_step) {
            self.now.fetch_max(now.as_nanos(), Ordering::Relaxed);
        }
        if now.as_nanos() >= self.retires_at.load(Ordering::Relaxed)
            && let Some(mut rotator) = sync::try_lock(&self.rotator)
        {
            self.advance(&mut rotator, now);
        }
        now.max(Timestamp::from_nanos(known))
    }

    fn advance(&self, rotator: &mut DatedRotator, now: Timestamp) {
        if rotator.advance(now) {
            self.generations.store(rotator.generations.clone());
        }
        self.retires_at.store(self.plan.end_of(rotator.generations.first), Ordering::Relaxed);
    }

    /// Advances the rotator to `now` first: another thread may have held its lock at the first attempt.
    /// Otherwise the list of generations could span more than can be live.
    fn make_room(&self, rotator: &mut DatedRotator, number: u64, now: Timestamp) -> Result<(), DatedIdError> {
        self.advance(rotator, now);
        if rotator.make_room(number)? {
            self.generations.store(rotator.generations.clone());
        }
        Ok(())
    }
}

/// Small enough for Miri; `tests/concurrency.rs` has larger ones.
#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use std::time::Duration;

    /// Ids of each thread, spread over three windows.
    const IDS: u64 = if cfg!(miri) { 60 } else { 3_000 };

    #[test]
    fn threads_share_a_filter_while_generations_expire() {
        let settings =
            Settings::for_window(Duration::from_micros(10)).expected_ids(1).false_positive_rate(0.1);
        let filter = settings.build_dated(Key::new([5; 16])).expect("valid settings");
        std::thread::scope(|scope| {
            for thread in 0..2_u64 {
                let filter = &filter;
                scope.spawn(move || {
                    for n in 0..IDS {
                        let id = (thread << 32 | n).to_le_bytes();
                        let now = Timestamp::from_nanos(n * 30_000 / IDS);
                        // The other thread may be a window ahead; then the filter rejects the id.
                        match filter.insert(&id, now, now) {
                            Ok(()) => assert_ne!(filter.contains(&id, now, now), Ok(false)),
                            Err(error) => assert_eq!(error, DatedIdError::Expired),
                        }
                    }
                });
            }
        });
        filter.maintain(Timestamp::from_nanos(30_000));
        assert!(filter.status().refreshes_by_age > 10, "{:?}", filter.status());
        let copy = DatedFilter::restore(&filter.snapshot(), Key::new([5; 16]), Timestamp::ZERO, 1 << 20);
        assert!(copy.is_ok_and(|copy| copy.status().ids == filter.status().ids));
    }

    /// While another thread holds the rotator's lock, an insert after a long pause cannot retire generations
    /// before it opens one. The list of generations must not grow by the length of the pause.
    #[test]
    fn a_long_pause_does_not_grow_the_list_of_generations() {
        let settings = Settings::for_window(Duration::from_micros(10)).false_positive_rate(0.1);
        let filter = settings.build_dated(Key::new([5; 16])).expect("valid settings");
        filter.insert(b"before", Timestamp::ZERO, Timestamp::ZERO).expect("within the window");
        let later = Timestamp::from_nanos(1_000_000_000);
        std::thread::scope(|scope| {
            let held = filter.lock_rotator();
            let inserter = scope.spawn(|| filter.insert(b"after", later, later));
            // The inserter publishes the new time after its attempt to lock the rotator.
            while filter.now.load(Ordering::Relaxed) < later.as_nanos() {
                std::thread::yield_now();
            }
            for _ in 0..if cfg!(miri) { 10 } else { 10_000 } {
                std::thread::yield_now();
            }
            drop(held);
            assert_eq!(inserter.join().ok(), Some(Ok(())));
        });
        let listed = filter.lock_rotator().generations.list.len();
        assert!(listed < 20, "{listed} generations are listed");
        assert_eq!(filter.contains(b"after", later, later), Ok(true));
    }
}
