//! A stopped clock, which a process keeps over a restart.
//!
//! Invariant: **no clock continues from a state before its last event.** Its next events would not cover the
//! events after that state, so these would be reported as no causes of them. Therefore:
//!
//! - Saving stops the clock, so there are no later events.
//! - Restoring erases the saved bytes before the first event, so no copy can be restored twice.
//! - A process that crashed has no saved clock. It takes a new [`Identity`] and [joins](BloomClock::join)
//!   with the last stamp it kept. Everything up to that stamp is a cause of its later events; later events
//!   before the crash belong to the old identity.
//!
//! Saving periodically with some event numbers in reserve would not be enough, because the stamps received
//! since would be lost.
//!
//! Encoding: a byte 4; the number of counters; counters per event; a byte for the key (0 event, 1 process);
//! the limit; the 16 bytes of the identity; the number of events; the [stamp](crate::Stamp::write) of the
//! last event; a checksum of 8 bytes, little-endian. The checksum detects damage, not forgery. Numbers are
//! encoded as in stamps.
//!
//! ```text
//! check = c(last) where c(-1) = the number of bytes, c(i) = mix(c(i - 1) ^ word i)
//! ```
//!
//! of little-endian words of 8 bytes, the last one padded with zeros; `mix` is the finaliser of SplitMix64,
//! as in the mapping of events to counters.

use crate::clock::BloomClock;
use crate::encoding::{DecodeError, Reader, put, read_whole};
use crate::generation::Generation;
use crate::hash;
use crate::identity::Identity;
use crate::parameters::{ClockParams, TickKey};

/// First byte of a persisted clock.
const SAVED: u8 = 4;

/// A stopped clock. Each [`BloomClock::save`] creates one, which cannot be copied; the bytes can, so see
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
/// std::fs::write(&file, clock.save().into_bytes())?; // shutdown
///
/// let saved = PersistedClock::read(&std::fs::read(&file)?, &params)?; // start
/// let mut clock = BloomClock::restore(saved, || std::fs::remove_file(&file))?;
/// assert_eq!(clock.now(), &last);
/// clock.tick();
/// # std::fs::remove_dir_all(&folder)?;
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
#[must_use = "the clock continues from this, or its process takes a new identity"]
pub struct PersistedClock(BloomClock);

impl BloomClock {
    /// Stops the clock.
    pub fn save(self) -> PersistedClock {
        PersistedClock(self)
    }

    /// Continues a stopped clock after `erase` has removed the saved bytes durably. Fails if `erase` fails.
    /// Restoring the same bytes twice creates two clocks with one identity, and true causes are reported as
    /// none.
    pub fn restore<E>(saved: PersistedClock, erase: impl FnOnce() -> Result<(), E>) -> Result<Self, E> {
        erase()?;
        Ok(saved.0)
    }
}

impl PersistedClock {
    /// The parameters of the clock.
    pub fn params(&self) -> ClockParams {
        self.0.params
    }

    /// The encoding.
    pub fn into_bytes(self) -> Vec<u8> {
        let BloomClock { params, identity, events, now, .. } = self.0;
        let mut out = vec![SAVED];
        put(params.counters as u64, &mut out);
        put(params.hashes.into(), &mut out);
        out.push(match params.key {
            TickKey::Event => 0,
            TickKey::Process => 1,
        });
        put(params.limit.into(), &mut out);
        out.extend(identity.number().to_le_bytes());
        put(events, &mut out);
        now.write(&mut out);
        let check = hash::check(&out);
        out.extend(check.to_le_bytes());
        out
    }

    /// Decodes a clock with these parameters. Other parameters are rejected before the allocation.
    pub fn read(bytes: &[u8], params: &ClockParams) -> Result<Self, DecodeError> {
        let (bytes, check) = bytes.split_last_chunk().ok_or(DecodeError("truncated"))?;
        if hash::check(bytes) != u64::from_le_bytes(*check) {
            return Err(DecodeError("checksum mismatch"));
        }
        let mut input = Reader(bytes);
        input.kind(SAVED)?;
        if read_params(&mut input)? != *params {
            return Err(DecodeError("other parameters than expected"));
        }
        let identity = Identity::from_random(input.bytes()?);
        let events = input.number()?;
        let now = read_whole(&mut input, params)?;
        input.finish()?;
        if events > EVENTS_MAX || now.generation > Generation::SAVED_MAX {
            return Err(DecodeError("impossible number of events or generations"));
        }
        // Before the first generation ends, the counters contain every event.
        if now.generation == Generation::default()
            && u128::from(now.sum()) < u128::from(events) * u128::from(params.hashes)
        {
            return Err(DecodeError("fewer increments than events"));
        }
        Ok(Self(BloomClock::at(*params, identity, events, now)))
    }
}

/// Maximum number of events. No process reaches it, and as many follow.
const EVENTS_MAX: u64 = u64::MAX >> 1;

fn read_params(input: &mut Reader<'_>) -> Result<ClockParams, DecodeError> {
    const IMPOSSIBLE: DecodeError = DecodeError("invalid parameters");
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
