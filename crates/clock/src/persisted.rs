//! A clock that was stopped, to go on later: what a process keeps over a restart.
//!
//! What must hold: **no clock goes on from where it was before its last event.** Its next events would not cover those that the copy does not know, and
//! these would be told to be no causes of them. So:
//!
//! - Saving stops the clock. There are no events after what was saved.
//! - Going on erases what was saved, before the first event. There is no copy to go on from twice.
//! - A process that crashed has no such copy, or one that was erased. It takes a new [`Identity`], and
//!   [joins](BloomClock::join) with the last stamp that it kept: then all up to that stamp are causes of what it does, and what came after it was of a process
//!   that is no more.
//!
//! To save ahead of time, with some events in reserve, would not be enough: what the clock received since is lost with it.
//!
//! As bytes: a byte 4; the number of counters, how many an event increments, a byte 0 for events that are named by their number and 1 for those that are
//! named by their process alone, the limit; the 16 bytes of the identity; the number of events; the [stamp](crate::Stamp::write) of the last; and 8 bytes of a
//! check, lowest first, so that damage is found (not a forger: he can compute it). Numbers are as in stamps.
//!
//! ```text
//! check = c(last) where c(-1) = the number of bytes, c(i) = mix(c(i - 1) ^ word i)
//! ```
//!
//! of words of 8 bytes, lowest first, the last filled up with zeros; `mix` is that of the counters, the finaliser of SplitMix64.

use crate::clock::BloomClock;
use crate::encoding::{DecodeError, Reader, WHOLE, put, read_whole};
use crate::generation::Generation;
use crate::hash;
use crate::identity::Identity;
use crate::parameters::{ClockParams, TickKey};

/// The first byte.
const SAVED: u8 = 4;

/// No saved clock has more bytes: a counter has up to five, and all else fits into 128.
#[cfg(feature = "serde")]
pub(crate) const PERSISTED_BYTES_MAX: usize = 128 + 5 * crate::parameters::COUNTERS_MAX;

/// A clock that was stopped. There is one for each [`BloomClock::save`], and it cannot be copied; but what it is written to can, so see
/// [`BloomClock::restore`].
///
/// ```
/// use bloom_clock::{BloomClock, Clock, Identity, PersistedClock, ClockParams};
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let folder = std::env::temp_dir().join(format!("bloom-clock-{}", std::process::id()));
/// # std::fs::create_dir_all(&folder)?;
/// # let file = folder.join("clock");
/// let params = ClockParams::new(64)?;
/// let mut clock = BloomClock::begin(params, Identity::from_random(*b"random bytes: 01"));
/// let last = clock.tick().clone();
/// std::fs::write(&file, clock.save().into_bytes())?; // the process ends
///
/// let saved = PersistedClock::read(&std::fs::read(&file)?, &params)?; // it begins again
/// let mut clock = BloomClock::restore(saved, || std::fs::remove_file(&file))?;
/// assert_eq!(clock.now(), &last);
/// clock.tick();
/// # std::fs::remove_dir_all(&folder)?;
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
#[must_use = "the clock goes on from this, or its process takes a new identity"]
pub struct PersistedClock(BloomClock);

impl BloomClock {
    /// Stops the clock, to go on later.
    pub fn save(self) -> PersistedClock {
        PersistedClock(self)
    }

    /// Goes on from where a clock was stopped, once what it was saved to is gone for good: `erase` must see to that, on the disk too, and there is no clock
    /// if it fails. Whoever goes on twice from the same copy has two clocks of one name, and causes are denied.
    pub fn restore<E>(saved: PersistedClock, erase: impl FnOnce() -> Result<(), E>) -> Result<Self, E> {
        erase()?;
        Ok(saved.0)
    }
}

impl PersistedClock {
    /// What the clock has in common with those that it is compared with.
    pub fn params(&self) -> ClockParams {
        self.0.params
    }

    /// The bytes to keep.
    pub fn into_bytes(self) -> Vec<u8> {
        self.bytes()
    }

    pub(crate) fn bytes(&self) -> Vec<u8> {
        let BloomClock { params, identity, events, now, .. } = &self.0;
        let mut out = vec![SAVED];
        put(params.counters as u64, &mut out);
        put(params.hashes.into(), &mut out);
        out.push(match params.key {
            TickKey::Event => 0,
            TickKey::Process => 1,
        });
        put(params.limit.into(), &mut out);
        out.extend(identity.number().to_le_bytes());
        put(*events, &mut out);
        now.write(&mut out);
        let check = hash::check(&out);
        out.extend(check.to_le_bytes());
        out
    }

    /// The clock of this params that these bytes are.
    pub fn read(bytes: &[u8], params: &ClockParams) -> Result<Self, DecodeError> {
        Self::read_any(bytes, |found| found == params)
    }

    /// The clock that these bytes are, if the params of it is wanted: no memory is taken before.
    pub(crate) fn read_any(
        bytes: &[u8],
        wanted: impl FnOnce(&ClockParams) -> bool,
    ) -> Result<Self, DecodeError> {
        let (bytes, check) = bytes.split_last_chunk().ok_or(DecodeError("it ends too early"))?;
        if hash::check(bytes) != u64::from_le_bytes(*check) {
            return Err(DecodeError("it is damaged"));
        }
        let mut input = Reader(bytes);
        if input.byte()? != SAVED {
            return Err(DecodeError("another kind of bytes, or a later version"));
        }
        let params = read_params(&mut input)?;
        if !wanted(&params) {
            return Err(DecodeError("a clock of another params"));
        }
        let identity = Identity::from_random(input.bytes()?);
        let events = input.number()?;
        if input.byte()? != WHOLE {
            return Err(DecodeError("another kind of bytes, or a later version"));
        }
        let now = read_whole(&mut input, &params)?;
        input.finish()?;
        if events > EVENTS_MAX || now.generation > Generation::SAVED_MAX {
            return Err(DecodeError("more events or generations than there can have been"));
        }
        // As long as no generation ended, the counters have all that it ever counted.
        if now.generation == Generation::default()
            && u128::from(now.sum()) < u128::from(events) * u128::from(params.hashes)
        {
            return Err(DecodeError("fewer counted than there were events"));
        }
        Ok(Self(BloomClock::at(params, identity, events, now)))
    }
}

/// More than any process has; and the number after it is far from the end of all numbers.
const EVENTS_MAX: u64 = u64::MAX >> 1;

fn read_params(input: &mut Reader<'_>) -> Result<ClockParams, DecodeError> {
    const IMPOSSIBLE: DecodeError = DecodeError("a params that cannot be");
    let counters = usize::try_from(input.number()?).map_err(|_| IMPOSSIBLE)?;
    let hashes = u32::try_from(input.number()?).map_err(|_| IMPOSSIBLE)?;
    let key = match input.byte()? {
        0 => TickKey::Event,
        1 => TickKey::Process,
        _ => return Err(IMPOSSIBLE),
    };
    let limit = u32::try_from(input.number()?).map_err(|_| IMPOSSIBLE)?;
    let params = ClockParams::new(counters).and_then(|params| params.hashes(hashes));
    params.and_then(|params| params.key(key).limit(limit)).map_err(|_| IMPOSSIBLE)
}
