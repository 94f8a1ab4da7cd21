//! The filter for ids that carry their time, for one owner.

use std::io;

use crate::dated_keeper::{DatedKeeper, Refusal};
use crate::filter::Sighting;
use crate::generations::any_contains;
use crate::key::{Fingerprint, Key};
use crate::line::Exclusive;
use crate::moment::Moment;
use crate::settings::{Settings, SettingsError};
use crate::snapshot::{self, Kind, SnapshotError};
use crate::status::Status;

/// Remembers ids by the time they carry (UUIDv7, ULID, ...), for one owner (`&mut self`).
///
/// The id's own time names the one generation to look into, so a lookup touches the words of that generation
/// alone. And since an id that is older than the window is refused, an id is never called new twice, however
/// late it comes.
///
/// ```
/// use std::time::Duration;
/// use forgetful_filter::{Key, Moment, Refusal, Settings, Sighting};
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let key = Key::new(*b"sixteen secret b"); // draw yours from the system's randomness
/// let mut seen = Settings::for_window(Duration::from_secs(86_400))
///     .skew(Duration::from_secs(5))
///     .build_dated(key)?;
///
/// let (dated, now) = (Moment::from_secs(100), Moment::from_secs(103)); // the id was minted 3 s ago
/// assert_eq!(seen.check_and_insert(b"018bcfe5-6800-7", dated, now)?, Sighting::New);
/// assert_eq!(seen.check_and_insert(b"018bcfe5-6800-7", dated, Moment::from_secs(3_600))?, Sighting::Maybe);
///
/// // Two days later nobody knows any more whether it was seen, and so it is refused.
/// let late = seen.check_and_insert(b"018bcfe5-6800-7", dated, Moment::from_secs(172_800));
/// assert_eq!(late, Err(Refusal::Expired));
/// # Ok(())
/// # }
/// ```
pub struct DatedFilter {
    pub(crate) key: Key,
    pub(crate) keeper: DatedKeeper,
}

impl DatedFilter {
    pub(crate) fn new(settings: Settings, key: Key) -> Result<Self, SettingsError> {
        Ok(Self { key, keeper: DatedKeeper::new(settings)? })
    }

    /// The fingerprint of an id under the filter's key.
    #[inline]
    pub fn fingerprint(&self, id: &[u8]) -> Fingerprint {
        self.key.fingerprint(id)
    }

    /// Remembers the id, whether or not it was known.
    pub fn insert(&mut self, id: &[u8], dated: Moment, now: Moment) -> Result<(), Refusal> {
        self.insert_fingerprint(self.fingerprint(id), dated, now)
    }

    /// Whether the id may have been inserted; `false` is certain. An error says why that cannot be known.
    pub fn contains(&self, id: &[u8], dated: Moment, now: Moment) -> Result<bool, Refusal> {
        self.contains_fingerprint(self.fingerprint(id), dated, now)
    }

    /// Looks the id up, and remembers it if it is new.
    pub fn check_and_insert(&mut self, id: &[u8], dated: Moment, now: Moment) -> Result<Sighting, Refusal> {
        self.check_and_insert_fingerprint(self.fingerprint(id), dated, now)
    }

    /// [`check_and_insert`](Self::check_and_insert), for an id already hashed.
    pub fn check_and_insert_fingerprint(
        &mut self,
        fingerprint: Fingerprint,
        dated: Moment,
        now: Moment,
    ) -> Result<Sighting, Refusal> {
        if self.contains_fingerprint(fingerprint, dated, now)? {
            return Ok(Sighting::Maybe);
        }
        self.insert_fingerprint(fingerprint, dated, now)?;
        Ok(Sighting::New)
    }

    /// [`insert`](Self::insert), for an id already hashed.
    pub fn insert_fingerprint(
        &mut self,
        fingerprint: Fingerprint,
        dated: Moment,
        now: Moment,
    ) -> Result<(), Refusal> {
        if now > self.keeper.now {
            self.keeper.advance(now);
        }
        self.keeper.plan.check(dated, self.keeper.now)?;
        let number = self.keeper.plan.number(dated);
        loop {
            let slices = self.keeper.generations.get(number).ok_or(Refusal::Expired)?;
            if let Some(slice) = slices.last() {
                if slice.insert::<Exclusive>(fingerprint) {
                    self.keeper.make_room(number)?;
                }
                return Ok(());
            }
            self.keeper.make_room(number)?;
        }
    }

    /// [`contains`](Self::contains), for an id already hashed.
    #[inline]
    pub fn contains_fingerprint(
        &self,
        fingerprint: Fingerprint,
        dated: Moment,
        now: Moment,
    ) -> Result<bool, Refusal> {
        self.keeper.plan.check(dated, now.max(self.keeper.now))?;
        let number = self.keeper.plan.number(dated);
        let slices = self.keeper.generations.get(number).ok_or(Refusal::Expired)?;
        Ok(any_contains(slices, fingerprint))
    }

    /// Lets go of the generations that have expired by `now`. For idle times; never needed.
    pub fn maintain(&mut self, now: Moment) {
        self.keeper.advance(now);
    }

    /// Memory, fill, and the false-positive rate to expect now.
    pub fn status(&self) -> Status {
        self.keeper.status()
    }

    /// The filter as bytes, to be taken up again with [`restore`](Self::restore).
    pub fn snapshot(&self) -> Vec<u8> {
        snapshot::to_vec(&snapshot::dated::State::of(&self.keeper, &self.key))
    }

    /// Writes what [`snapshot`](Self::snapshot) returns, without a copy of it in memory.
    pub fn write_snapshot(&self, out: &mut dyn io::Write) -> io::Result<()> {
        snapshot::write(&snapshot::dated::State::of(&self.keeper, &self.key), out)
    }

    /// A filter from the bytes of a [`snapshot`](Self::snapshot), at the same time or later on the same timeline.
    /// What has expired by `now` is left out, and refused from then on.
    ///
    /// It comes back with the settings it was built with, except that `memory_cap` is a cap on top of its own: bytes
    /// from elsewhere must not decide how much memory is taken.
    pub fn restore(bytes: &[u8], key: Key, now: Moment, memory_cap: usize) -> Result<Self, SnapshotError> {
        let keeper = snapshot::from_slice(Kind::Dated, bytes, |body| {
            snapshot::dated::decode(body, &key, now, memory_cap)
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
        let keeper =
            snapshot::read(Kind::Dated, input, |body| snapshot::dated::decode(body, &key, now, memory_cap))?;
        Ok(Self { keeper, key })
    }
}
