//! What a table promises, as its owner states it.

use std::time::Duration;

use forgetful_filter::{Growth, Key, Settings as FilterSettings, Timestamp};

use crate::codec::{DecodeError, Reader, Write};
use crate::id::{Format, Formats};
use crate::store_clock::with_clock_drift;

/// Readings of the time by threads that work side by side differ by less than this.
pub(crate) const SLACK: Duration = Duration::from_secs(60);

/// The false-positive rate of the filter of an exact table: one new id in a thousand is looked up on disk for nothing.
pub const EXACT_FILTER_RATE: f64 = 1e-3;

/// The longest window: about ten years.
pub const WINDOW_MAX: Duration = Duration::from_secs(10 * 366 * 24 * 3600);

/// The shortest window.
pub const WINDOW_MIN: Duration = Duration::from_millis(1);

/// What a table promises.
#[derive(Debug, Clone, PartialEq)]
pub struct TableSettings {
    /// The id formats it takes.
    pub formats: Formats,
    /// How long ids that carry a time are remembered: older ones are refused.
    pub dated_window: Duration,
    /// How long opaque ids are remembered after they came.
    pub opaque_window: Duration,
    /// How far ahead of the store an id may be dated.
    pub skew: Duration,
    /// How long a client of sequenced ids may be idle before its session is forgotten.
    pub session_lease: Duration,
    /// Whether a known id is certainly known.
    pub mode: Mode,
    /// When a write is acknowledged.
    pub durability: Durability,
    /// What to do with a write that has no id.
    pub without_id: MissingIdPolicy,
    /// Ids expected within a window: the size with which the filter begins.
    pub expected_ids: u64,
    /// The most bytes of each of the table's filters.
    pub memory_cap: u64,
}

/// Whether a known id is certainly known.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Mode {
    /// Every id is looked up where it is written down: no new id is taken for a known one.
    Exact,
    /// The filter alone decides: a new id is taken for a known one, and dropped, with at most this probability.
    Probabilistic {
        /// The probability.
        target: f64,
    },
}

/// When a write is acknowledged.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Durability {
    /// When no crash can take it back.
    Strict,
    /// At once: the last writes before a crash may be lost, and reads may show them before.
    Relaxed,
}

/// What to do with a write that has no id.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MissingIdPolicy {
    /// Refuse it.
    Refuse,
    /// Take it: it is made once, and a retry is another write.
    AtMostOnce,
}

/// A setting that cannot be. The message names the setting and says what would be accepted.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[error("{setting}: {why}")]
pub struct SettingsError {
    /// The setting.
    pub setting: &'static str,
    /// What is wrong with it.
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
    /// Whether these settings make sense. Whether there is memory for them is seen when an [`Era`](crate::Era) begins.
    pub fn check(&self) -> Result<(), SettingsError> {
        let wrong = |setting, why: String| Err(SettingsError { setting, why });
        if self.formats.is_empty() && self.without_id == MissingIdPolicy::Refuse {
            return wrong(
                "formats",
                "a table that takes no ids and wants one on every write takes no write".into(),
            );
        }
        for (setting, window) in [
            ("dated_window", self.dated_window),
            ("opaque_window", self.opaque_window),
            ("session_lease", self.session_lease),
        ] {
            if window < WINDOW_MIN || window > WINDOW_MAX {
                return wrong(
                    setting,
                    format!("{window:?} is not between {WINDOW_MIN:?} and {WINDOW_MAX:?}"),
                );
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

    /// When the last id taken until `now` may be forgotten.
    pub(crate) fn promised_until(&self, now: Timestamp) -> Timestamp {
        now.after(self.memory())
    }

    /// How long after it came the longest-lived id may be asked for.
    pub(crate) fn memory(&self) -> Duration {
        with_clock_drift(self.opaque_window).max(self.dated_window + self.skew) + SLACK
    }

    /// All ids taken until `now` are dated before this, also by a thread that does not know yet that it is so late.
    pub(crate) fn dated_before(&self, now: Timestamp) -> Timestamp {
        now.after(self.skew + SLACK)
    }

    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        self.formats.encode(out);
        for duration in [self.dated_window, self.opaque_window, self.skew, self.session_lease] {
            out.put_varint(u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX));
        }
        match self.mode {
            Mode::Exact => out.put_u8(0),
            Mode::Probabilistic { target } => {
                out.put_u8(1);
                out.put_u64(target.to_bits());
            }
        }
        out.put_u8(u8::from(self.durability == Durability::Relaxed));
        out.put_u8(u8::from(self.without_id == MissingIdPolicy::AtMostOnce));
        out.put_varint(self.expected_ids);
        out.put_varint(self.memory_cap);
    }

    pub(crate) fn decode(input: &mut Reader<'_>) -> Result<Self, DecodeError> {
        let formats = Formats::decode(input)?;
        let mut duration = || Ok(Duration::from_nanos(input.varint()?));
        let (dated_window, opaque_window) = (duration()?, duration()?);
        let (skew, session_lease) = (duration()?, duration()?);
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
            durability: if flag(input)? { Durability::Relaxed } else { Durability::Strict },
            without_id: if flag(input)? { MissingIdPolicy::AtMostOnce } else { MissingIdPolicy::Refuse },
            expected_ids: input.varint()?,
            memory_cap: input.varint()?,
        };
        settings.check().map_err(|_| DecodeError("table settings that cannot be"))?;
        Ok(settings)
    }
}

fn flag(input: &mut Reader<'_>) -> Result<bool, DecodeError> {
    match input.u8()? {
        0 => Ok(false),
        1 => Ok(true),
        _ => Err(DecodeError("neither yes nor no")),
    }
}

/// The filters work with fingerprints that are made here; the key that they ask for has nothing to hash.
pub(crate) const UNUSED_KEY: Key = Key::new(*b"ids come hashed.");
