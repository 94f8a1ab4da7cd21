//! Table settings.

use std::time::Duration;

use forgetful_filter::{Growth, Key, Settings as FilterSettings, Timestamp};

use crate::codec::{DecodeError, Reader, Write};
use crate::id::{Format, Formats};
use crate::store_clock::with_clock_drift;

/// Clock readings of concurrent threads differ by less than this.
pub(crate) const SLACK: Duration = Duration::from_secs(60);

/// False-positive rate of the filter of an exact table: one new id in a thousand causes an
/// unnecessary lookup on disk.
pub const EXACT_FILTER_RATE: f64 = 1e-3;

/// Maximum window: about ten years.
pub const WINDOW_MAX: Duration = Duration::from_secs(10 * 366 * 24 * 3600);

pub const WINDOW_MIN: Duration = Duration::from_millis(1);

#[derive(Debug, Clone, PartialEq)]
pub struct TableSettings {
    pub formats: Formats,
    /// How long dated ids are recorded. Older ids are rejected.
    pub dated_window: Duration,
    /// How long opaque ids are recorded after they arrive.
    pub opaque_window: Duration,
    /// How far in the future an id may be dated.
    pub skew: Duration,
    /// How long a client of sequenced ids may be idle before its session expires.
    pub session_lease: Duration,
    pub mode: Mode,
    pub durability: Durability,
    pub without_id: MissingIdPolicy,
    /// Ids expected within a window: the initial size of the filter.
    pub expected_ids: u64,
    /// Maximum bytes of each of the table's filters.
    pub memory_cap: u64,
}

#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Mode {
    /// The id index verifies every hit: no new id is mistaken for a known one.
    Exact,
    /// The filter alone decides: a new id is mistaken for a known one, and dropped, with at most this
    /// probability.
    Probabilistic { target: f64 },
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Durability {
    /// After it is durable.
    Strict,
    /// At once: a crash may lose the last writes, and reads may see them before.
    Relaxed,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MissingIdPolicy {
    Refuse,
    /// Apply it at most once; a retry is another write.
    AtMostOnce,
    /// As `AtMostOnce` over RESP, whose commands have no ids in Redis; as `Refuse` over HTTP. The server
    /// distinguishes the protocols.
    RespOnly,
}

/// An invalid setting. The message names the setting and the accepted range.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[error("{setting}: {why}")]
pub struct SettingsError {
    pub setting: &'static str,
    pub why: String,
}

impl Default for TableSettings {
    fn default() -> Self {
        Self {
            formats: Formats::only(Format::Uuid7),
            dated_window: Duration::from_secs(24 * 3600),
            opaque_window: Duration::from_secs(600),
            skew: Duration::from_secs(60),
            session_lease: Duration::from_secs(7 * 24 * 3600),
            mode: Mode::Exact,
            durability: Durability::Strict,
            without_id: MissingIdPolicy::Refuse,
            expected_ids: 10_000,
            memory_cap: 1 << 30,
        }
    }
}

impl TableSettings {
    /// Checks the ranges. An [`Era`](crate::Era) checks the memory when it begins.
    pub fn check(&self) -> Result<(), SettingsError> {
        let wrong = |setting, why: String| Err(SettingsError { setting, why });
        if self.formats.is_empty() && self.without_id == MissingIdPolicy::Refuse {
            let why = "a table that accepts no id formats and requires an id accepts no write";
            return wrong("formats", why.into());
        }
        for (setting, window) in [
            ("dated_window", self.dated_window),
            ("opaque_window", self.opaque_window),
            ("session_lease", self.session_lease),
        ] {
            if window < WINDOW_MIN || window > WINDOW_MAX {
                let why = format!("{window:?} is not between {WINDOW_MIN:?} and {WINDOW_MAX:?}");
                return wrong(setting, why);
            }
        }
        if self.skew > self.dated_window {
            let window = self.dated_window;
            return wrong("skew", format!("{:?} is longer than the dated window of {window:?}", self.skew));
        }
        if let Mode::Probabilistic { target } = self.mode
            && !(1e-9..=0.1).contains(&target)
        {
            return wrong("mode", format!("the target {target} is not between 1e-9 and 0.1"));
        }
        if !(1..=1 << 40).contains(&self.expected_ids) {
            return wrong("expected_ids", format!("{} is not between 1 and 2^40", self.expected_ids));
        }
        Ok(())
    }

    fn filter(&self, window: Duration) -> FilterSettings {
        let rate = match self.mode {
            Mode::Exact => EXACT_FILTER_RATE,
            Mode::Probabilistic { target } => target,
        };
        FilterSettings::for_window(window)
            .false_positive_rate(rate)
            .expected_ids(self.expected_ids)
            .memory_cap(usize::try_from(self.memory_cap).unwrap_or(usize::MAX))
            .growth(Growth::Elastic)
    }

    pub(crate) fn dated_filter(&self) -> FilterSettings {
        self.filter(self.dated_window + SLACK).skew(self.skew + SLACK)
    }

    pub(crate) fn opaque_filter(&self) -> FilterSettings {
        self.filter(with_clock_drift(self.opaque_window) + SLACK)
    }

    /// The latest time until which an id accepted up to `now` must be recorded.
    pub(crate) fn promised_until(&self, now: Timestamp) -> Timestamp {
        now.after(self.memory())
    }

    /// How long the longest-lived id is recorded after it arrives.
    pub(crate) fn memory(&self) -> Duration {
        with_clock_drift(self.opaque_window).max(self.dated_window + self.skew) + SLACK
    }

    /// Upper bound of the dates of all ids accepted up to `now`, also by a thread whose clock reading is
    /// older.
    pub(crate) fn dated_before(&self, now: Timestamp) -> Timestamp {
        now.after(self.skew + SLACK)
    }

    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        self.formats.encode(out);
        for duration in [self.dated_window, self.opaque_window, self.skew, self.session_lease] {
            out.put_duration(duration);
        }
        match self.mode {
            Mode::Exact => out.put_u8(0),
            Mode::Probabilistic { target } => {
                out.put_u8(1);
                out.put_u64(target.to_bits());
            }
        }
        out.put_u8(u8::from(self.durability == Durability::Relaxed));
        out.put_u8(match self.without_id {
            MissingIdPolicy::Refuse => 0,
            MissingIdPolicy::AtMostOnce => 1,
            MissingIdPolicy::RespOnly => 2,
        });
        out.put_varint(self.expected_ids);
        out.put_varint(self.memory_cap);
    }

    pub(crate) fn decode(input: &mut Reader<'_>) -> Result<Self, DecodeError> {
        let formats = Formats::decode(input)?;
        let (dated_window, opaque_window) = (input.duration()?, input.duration()?);
        let (skew, session_lease) = (input.duration()?, input.duration()?);
        let mode = match input.u8()? {
            0 => Mode::Exact,
            1 => Mode::Probabilistic { target: f64::from_bits(input.u64()?) },
            _ => return Err(DecodeError("an unknown mode")),
        };
        let settings = Self {
            formats,
            dated_window,
            opaque_window,
            skew,
            session_lease,
            mode,
            durability: if input.flag()? { Durability::Relaxed } else { Durability::Strict },
            without_id: match input.u8()? {
                0 => MissingIdPolicy::Refuse,
                1 => MissingIdPolicy::AtMostOnce,
                2 => MissingIdPolicy::RespOnly,
                _ => return Err(DecodeError("an unknown policy for writes without an id")),
            },
            expected_ids: input.varint()?,
            memory_cap: input.varint()?,
        };
        settings.check().map_err(|_| DecodeError("invalid table settings"))?;
        Ok(settings)
    }
}

/// The filters take fingerprints; their own hash key is unused.
pub(crate) const UNUSED_KEY: Key = Key::new(*b"ids come hashed.");
