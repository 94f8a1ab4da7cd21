//! The filter for one owner.

use std::io;

use crate::keeper::{Keeper, SWEEP_ROWS};
use crate::key::{Fingerprint, Key};
use crate::line::Exclusive;
use crate::moment::Moment;
use crate::segment::Inserted;
use crate::settings::{Settings, SettingsError};
use crate::snapshot::{self, Kind, SnapshotError};
use crate::status::Status;

/// What a filter says of an id.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[must_use]
pub enum Sighting {
    /// Certainly not inserted within the window.
    New,
    /// Inserted within the window; or, with the small probability that [`Status::false_positive_rate`] estimates, not
    /// at all; or inserted a little longer ago.
    Maybe,
}

/// Remembers ids by their arrival, for one owner (`&mut self`). Several threads: [`ConcurrentFilter`].
///
/// ```
/// use std::time::Duration;
/// use forgetful_filter::{Key, Moment, Settings, Sighting};
///
/// # fn main() -> Result<(), forgetful_filter::SettingsError> {
/// // Remember ids for ten minutes.
/// let key = Key::new(*b"sixteen secret b"); // draw yours from the system's randomness
/// let mut seen = Settings::for_window(Duration::from_secs(600)).expected_ids(100_000).build(key)?;
///
/// let start = Moment::from_secs(0);
/// assert_eq!(seen.check_and_insert(b"order-17", start), Sighting::New);
/// assert_eq!(seen.check_and_insert(b"order-17", Moment::from_secs(599)), Sighting::Maybe);
/// assert_eq!(seen.check_and_insert(b"order-17", Moment::from_secs(1_200)), Sighting::New);
/// # Ok(())
/// # }
/// ```
///
/// [`ConcurrentFilter`]: crate::ConcurrentFilter
pub struct ForgetfulFilter {
    pub(crate) key: Key,
    pub(crate) keeper: Keeper,
}

impl ForgetfulFilter {
    pub(crate) fn new(settings: Settings, key: Key) -> Result<Self, SettingsError> {
        Ok(Self { key, keeper: Keeper::new(&settings)? })
    }

    /// The fingerprint of an id under the filter's key.
    #[inline]
    pub fn fingerprint(&self, id: &[u8]) -> Fingerprint {
        self.key.fingerprint(id)
    }

    /// Remembers the id from `now` on, whether or not it was known.
    pub fn insert(&mut self, id: &[u8], now: Moment) {
        self.insert_fingerprint(self.fingerprint(id), now);
    }

    /// Whether the id may have been inserted within the window before `now`; `false` is certain.
    pub fn contains(&self, id: &[u8], now: Moment) -> bool {
        self.contains_fingerprint(self.fingerprint(id), now)
    }

    /// Looks the id up, and remembers it from `now` on if it is new. A known id stays as it is: its window counts
    /// from its first arrival.
    ///
    /// Whoever finds out by other means that a [`Sighting::Maybe`] is new after all calls
    /// [`insert`](Self::insert), which asks no questions.
    pub fn check_and_insert(&mut self, id: &[u8], now: Moment) -> Sighting {
        self.check_and_insert_fingerprint(self.fingerprint(id), now)
    }

    /// [`check_and_insert`](Self::check_and_insert), for an id already hashed.
    pub fn check_and_insert_fingerprint(&mut self, fingerprint: Fingerprint, now: Moment) -> Sighting {
        if self.contains_fingerprint(fingerprint, now) {
            return Sighting::Maybe;
        }
        self.insert_fingerprint(fingerprint, now);
        Sighting::New
    }

    /// [`insert`](Self::insert), for an id already hashed.
    #[inline]
    pub fn insert_fingerprint(&mut self, fingerprint: Fingerprint, now: Moment) {
        let tick = self.keeper.plan().ticks.at(now);
        if tick > self.keeper.tick() {
            self.keeper.advance(tick, &mut |_| {});
        }
        let inserted = self.keeper.current().insert::<Exclusive>(fingerprint, self.keeper.tick());
        debug_assert_ne!(inserted, Inserted::Closed, "the current segment is open");
        if inserted == (Inserted::Done { full: true }) {
            self.keeper.advance(tick, &mut |_| {});
        }
        if self.keeper.sweeping() {
            self.keeper.sweep_some(SWEEP_ROWS);
        }
    }

    /// [`contains`](Self::contains), for an id already hashed.
    #[inline]
    pub fn contains_fingerprint(&self, fingerprint: Fingerprint, now: Moment) -> bool {
        let tick = self.keeper.plan().ticks.at(now).max(self.keeper.tick());
        self.keeper.segments().iter().rev().any(|segment| segment.contains(fingerprint, tick))
    }

    /// Does now what inserts would do on the way: refresh, sweep, let go of memory. For idle times; never needed.
    pub fn maintain(&mut self, now: Moment) {
        let tick = self.keeper.plan().ticks.at(now);
        self.keeper.advance(tick, &mut |_| {});
        self.keeper.sweep_all();
    }

    /// Memory, fill, and the false-positive rate to expect now.
    pub fn status(&self) -> Status {
        self.keeper.status()
    }

    /// The filter as bytes, to be taken up again with [`restore`](Self::restore).
    pub fn snapshot(&self) -> Vec<u8> {
        snapshot::to_vec(&snapshot::arrival::State::of(&self.keeper, &self.key))
    }

    /// Writes what [`snapshot`](Self::snapshot) returns, without a copy of it in memory.
    pub fn write_snapshot(&self, out: &mut dyn io::Write) -> io::Result<()> {
        snapshot::write(&snapshot::arrival::State::of(&self.keeper, &self.key), out)
    }

    /// A filter from the bytes of a [`snapshot`](Self::snapshot), at the same time or later on the same timeline.
    /// What has expired by `now` is left out.
    ///
    /// It comes back with the settings it was built with, except that `memory_cap` is a cap on top of its own: bytes
    /// from elsewhere must not decide how much memory is taken.
    pub fn restore(bytes: &[u8], key: Key, now: Moment, memory_cap: usize) -> Result<Self, SnapshotError> {
        let keeper = snapshot::from_slice(Kind::Arrival, bytes, |body| {
            snapshot::arrival::decode(body, &key, now, memory_cap)
        })?;
        Ok(Self { keeper, key })
    }

    /// As [`restore`](Self::restore), in passing from where it can be read; reads no byte more than the snapshot has.
    pub fn read_snapshot(
        input: &mut dyn io::Read,
        key: Key,
        now: Moment,
        memory_cap: usize,
    ) -> Result<Self, SnapshotError> {
        let keeper = snapshot::read(Kind::Arrival, input, |body| {
            snapshot::arrival::decode(body, &key, now, memory_cap)
        })?;
        Ok(Self { keeper, key })
    }
}
