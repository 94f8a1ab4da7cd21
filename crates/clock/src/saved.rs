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

use crate::bytes::{Malformed, Reader, WHOLE, put, read_whole};
use crate::clock::BloomClock;
use crate::generation::Generation;
use crate::hash;
use crate::identity::Identity;
use crate::shape::{Shape, TickKey};

/// The first byte.
const SAVED: u8 = 4;

/// No saved clock has more bytes: a counter has up to five, and all else fits into 128.
#[cfg(feature = "serde")]
pub(crate) const SAVED_BYTES_MAX: usize = 128 + 5 * crate::shape::COUNTERS_MAX;

/// A clock that was stopped. There is one for each [`BloomClock::save`], and it cannot be copied; but what it is written to can, so see
/// [`BloomClock::restore`].
///
/// ```
/// use bloom_clock::{BloomClock, Clock, Identity, Saved, Shape};
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let folder = std::env::temp_dir().join(format!("bloom-clock-{}", std::process::id()));
/// # std::fs::create_dir_all(&folder)?;
/// # let file = folder.join("clock");
/// let shape = Shape::new(64)?;
/// let mut clock = BloomClock::begin(shape, Identity::from_random(*b"random bytes: 01"));
/// let last = clock.tick().clone();
/// std::fs::write(&file, clock.save().into_bytes())?; // the process ends
///
/// let saved = Saved::read(&std::fs::read(&file)?, &shape)?; // it begins again
/// let mut clock = BloomClock::restore(saved, || std::fs::remove_file(&file))?;
/// assert_eq!(clock.now(), &last);
/// clock.tick();
/// # std::fs::remove_dir_all(&folder)?;
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
#[must_use = "the clock goes on from this, or its process takes a new identity"]
pub struct Saved(BloomClock);

impl BloomClock {
    /// Stops the clock, to go on later.
    pub fn save(self) -> Saved {
        Saved(self)
    }

    /// Goes on from where a clock was stopped, once what it was saved to is gone for good: `erase` must see to that, on the disk too, and there is no clock
    /// if it fails. Whoever goes on twice from the same copy has two clocks of one name, and causes are denied.
    pub fn restore<E>(saved: Saved, erase: impl FnOnce() -> Result<(), E>) -> Result<Self, E> {
        erase()?;
        Ok(saved.0)
    }
}

impl Saved {
    /// What the clock has in common with those that it is compared with.
    pub fn shape(&self) -> Shape {
        self.0.shape
    }

    /// The bytes to keep.
    pub fn into_bytes(self) -> Vec<u8> {
        self.bytes()
    }

    pub(crate) fn bytes(&self) -> Vec<u8> {
        let BloomClock { shape, identity, events, now, .. } = &self.0;
        let mut out = vec![SAVED];
        put(shape.counters as u64, &mut out);
        put(shape.hashes.into(), &mut out);
        out.push(match shape.key {
            TickKey::Event => 0,
            TickKey::Process => 1,
        });
        put(shape.limit.into(), &mut out);
        out.extend(identity.number().to_le_bytes());
        put(*events, &mut out);
        now.write(&mut out);
        let check = hash::check(&out);
        out.extend(check.to_le_bytes());
        out
    }

    /// The clock of this shape that these bytes are.
    pub fn read(bytes: &[u8], shape: &Shape) -> Result<Self, Malformed> {
        Self::read_any(bytes, |found| found == shape)
    }

    /// The clock that these bytes are, if the shape of it is wanted: no memory is taken before.
    pub(crate) fn read_any(bytes: &[u8], wanted: impl FnOnce(&Shape) -> bool) -> Result<Self, Malformed> {
        let (bytes, check) = bytes.split_last_chunk().ok_or(Malformed("it ends too early"))?;
        if hash::check(bytes) != u64::from_le_bytes(*check) {
            return Err(Malformed("it is damaged"));
        }
        let mut input = Reader(bytes);
        if input.byte()? != SAVED {
            return Err(Malformed("another kind of bytes, or a later version"));
        }
        let shape = read_shape(&mut input)?;
        if !wanted(&shape) {
            return Err(Malformed("a clock of another shape"));
        }
        let identity = Identity::from_random(input.bytes()?);
        let events = input.number()?;
        if input.byte()? != WHOLE {
            return Err(Malformed("another kind of bytes, or a later version"));
        }
        let now = read_whole(&mut input, &shape)?;
        input.finish()?;
        if events > EVENTS_MAX || now.generation > Generation::SAVED_MAX {
            return Err(Malformed("more events or generations than there can have been"));
        }
        // As long as no generation ended, the counters have all that it ever counted.
        if now.generation == Generation::default()
            && u128::from(now.sum()) < u128::from(events) * u128::from(shape.hashes)
        {
            return Err(Malformed("fewer counted than there were events"));
        }
        Ok(Self(BloomClock::at(shape, identity, events, now)))
    }
}

/// More than any process has; and the number after it is far from the end of all numbers.
const EVENTS_MAX: u64 = u64::MAX >> 1;

fn read_shape(input: &mut Reader<'_>) -> Result<Shape, Malformed> {
    const IMPOSSIBLE: Malformed = Malformed("a shape that cannot be");
    let counters = usize::try_from(input.number()?).map_err(|_| IMPOSSIBLE)?;
    let hashes = u32::try_from(input.number()?).map_err(|_| IMPOSSIBLE)?;
    let key = match input.byte()? {
        0 => TickKey::Event,
        1 => TickKey::Process,
        _ => return Err(IMPOSSIBLE),
    };
    let limit = u32::try_from(input.number()?).map_err(|_| IMPOSSIBLE)?;
    let shape = Shape::new(counters).and_then(|shape| shape.hashes(hashes));
    shape.and_then(|shape| shape.key(key).limit(limit)).map_err(|_| IMPOSSIBLE)
}
