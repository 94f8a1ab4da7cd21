//! Settings of a filter, and their validation.

use std::fmt;
use std::time::Duration;

use crate::budget::{Budget, OverBudget};
use crate::dated::DatedFilter;
use crate::filter::ForgetfulFilter;
use crate::key::Key;
use crate::timestamp::nanos;

/// The longest window: some 73 years. Twice this still fits the timeline.
pub const WINDOW_MAX: Duration = Duration::from_nanos(1 << 61);

/// The smallest false-positive target. Below it, 64-bit fingerprints themselves collide too often.
pub const TARGET_MIN: f64 = 1e-9;

/// The fewest and the most generations of a dated filter.
pub const GENERATIONS: std::ops::RangeInclusive<u32> = 2..=64;

/// What happens when more ids arrive than expected.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Growth {
    /// Memory follows the load up to the memory cap, so the false-positive target holds through a surge. Half
    /// of the target is reserved for the time in which two sizes are live.
    #[default]
    Elastic,
    /// Memory stays as sized for the expected ids: the smallest filter for a known, steady rate. Under a
    /// higher load the false-positive rate rises and the filter reports pressure; it forgets nothing.
    Fixed,
}

/// An invalid setting. The message names the setting and the accepted range.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum SettingsError {
    /// The window is zero.
    WindowZero,
    /// The window is longer than [`WINDOW_MAX`].
    WindowTooLong(Duration),
    /// The false-positive target is not a number between [`TARGET_MIN`] and 0.5.
    TargetOutOfRange(f64),
    /// The number of expected ids is zero.
    ExpectedIdsZero,
    /// The number of expected ids needs more memory than can be addressed.
    ExpectedIdsTooMany(u64),
    /// The memory cap is below what the expected ids need at the target.
    MemoryCapTooSmall {
        /// The cap, in bytes.
        cap: usize,
        /// Bytes that window, target and expected ids require.
        needed: usize,
    },
    /// The number of generations of a dated filter is outside [`GENERATIONS`].
    GenerationsOutOfRange(u32),
    /// The skew is longer than the window.
    SkewTooLong {
        /// The skew.
        skew: Duration,
        /// The window.
        window: Duration,
    },
    /// The filter does not fit into its budget.
    OverBudget(OverBudget),
    /// The allocator could not provide the memory.
    OutOfMemory {
        /// Bytes requested.
        bytes: usize,
    },
}

impl fmt::Display for SettingsError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::WindowZero => f.write_str("window: must be longer than zero"),
            Self::WindowTooLong(window) => {
                write!(f, "window: {window:?} is longer than {WINDOW_MAX:?}")
            }
            Self::TargetOutOfRange(target) => {
                write!(f, "false_positive_rate: {target} is not between {TARGET_MIN:e} and 0.5")
            }
            Self::ExpectedIdsZero => f.write_str("expected_ids: must be at least 1"),
            Self::ExpectedIdsTooMany(ids) => {
                write!(f, "expected_ids: {ids} need more memory than can be addressed")
            }
            Self::MemoryCapTooSmall { cap, needed } => {
                write!(f, "memory_cap: {cap} bytes; window, target and expected_ids need {needed}")
            }
            Self::GenerationsOutOfRange(n) => {
                write!(f, "generations: {n} is not between {} and {}", GENERATIONS.start(), GENERATIONS.end())
            }
            Self::SkewTooLong { skew, window } => {
                write!(f, "skew: {skew:?} is longer than the window, {window:?}")
            }
            Self::OverBudget(over) => write!(f, "{over}"),
            Self::OutOfMemory { bytes } => write!(f, "no memory for {bytes} bytes"),
        }
    }
}

impl std::error::Error for SettingsError {}

impl From<OverBudget> for SettingsError {
    fn from(over: OverBudget) -> Self {
        Self::OverBudget(over)
    }
}

/// Settings of a filter. Start with [`Settings::for_window`], end with one of the `build` methods.
///
/// ```
/// use std::time::Duration;
/// use forgetful_filter::{Key, Settings};
///
/// # fn main() -> Result<(), forgetful_filter::SettingsError> {
/// let key = Key::new(*b"sixteen secret b"); // use random bytes of the system
/// let filter = Settings::for_window(Duration::from_secs(600))
///     .false_positive_rate(1e-4)
///     .expected_ids(50_000)
///     .memory_cap(16 << 20)
///     .build(key)?;
/// assert_eq!(filter.status().segments, 1);
///
/// let zero = Settings::for_window(Duration::ZERO).build(key);
/// assert_eq!(zero.err().map(|e| e.to_string()).as_deref(), Some("window: must be longer than zero"));
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone, PartialEq)]
pub struct Settings {
    pub(crate) window: Duration,
    pub(crate) target: f64,
    pub(crate) expected_ids: u64,
    pub(crate) memory_cap: usize,
    pub(crate) growth: Growth,
    pub(crate) skew: Duration,
    pub(crate) generations: u32,
}

macro_rules! setters {
    ($($(#[$doc:meta])* $name:ident($field:ident: $type:ty);)*) => {$(
        $(#[$doc])*
        pub const fn $name(mut self, $field: $type) -> Self {
            self.$field = $field;
            self
        }
    )*};
}

impl Settings {
    /// A filter remembers every id for at least `window`.
    pub const fn for_window(window: Duration) -> Self {
        Self {
            window,
            target: 1e-3,
            expected_ids: 10_000,
            memory_cap: 256 << 20,
            growth: Growth::Elastic,
            skew: Duration::ZERO,
            generations: 16,
        }
    }

    setters! {
        /// False-positive rate: the share of new ids that may be called known. Default 1e-3.
        false_positive_rate(target: f64);

        /// Expected ids per window, which is the initial size. Default 10,000.
        expected_ids(expected_ids: u64);

        /// Maximum bytes of filter memory. Default 256 MiB. At the cap the filter reports pressure; it does
        /// not forget.
        memory_cap(memory_cap: usize);

        /// Whether memory follows the load. Default [`Growth::Elastic`].
        growth(growth: Growth);

        /// Dated ids only: how far ahead of the filter's time an id may be dated. Default zero.
        skew(skew: Duration);

        /// Dated ids only: generations per window. Default 16. With more generations, ids are forgotten
        /// sooner after the window, and the overhead of `1/generations` of the memory shrinks.
        generations(generations: u32);
    }

    /// Builds a filter by arrival time.
    pub fn build(self, key: Key) -> Result<ForgetfulFilter, SettingsError> {
        self.build_within(key, &Budget::default())
    }

    /// As [`build`](Self::build), charged to a budget.
    pub fn build_within(self, key: Key, budget: &Budget) -> Result<ForgetfulFilter, SettingsError> {
        ForgetfulFilter::new(self, key, budget)
    }

    /// Builds a filter for ids that carry a time.
    pub fn build_dated(self, key: Key) -> Result<DatedFilter, SettingsError> {
        self.build_dated_within(key, &Budget::default())
    }

    /// As [`build_dated`](Self::build_dated), charged to a budget.
    pub fn build_dated_within(self, key: Key, budget: &Budget) -> Result<DatedFilter, SettingsError> {
        DatedFilter::new(self, key, budget)
    }

    pub(crate) fn window_ns(&self) -> u64 {
        nanos(self.window)
    }

    pub(crate) fn skew_ns(&self) -> u64 {
        nanos(self.skew)
    }

    /// Rejects settings out of range. Sizes are checked where they are computed.
    pub(crate) fn check(&self) -> Result<(), SettingsError> {
        if self.window.is_zero() {
            return Err(SettingsError::WindowZero);
        }
        if self.window > WINDOW_MAX {
            return Err(SettingsError::WindowTooLong(self.window));
        }
        if !(TARGET_MIN..=0.5).contains(&self.target) {
            return Err(SettingsError::TargetOutOfRange(self.target));
        }
        if self.expected_ids == 0 {
            return Err(SettingsError::ExpectedIdsZero);
        }
        if !GENERATIONS.contains(&self.generations) {
            return Err(SettingsError::GenerationsOutOfRange(self.generations));
        }
        if self.skew > self.window {
            return Err(SettingsError::SkewTooLong { skew: self.skew, window: self.window });
        }
        Ok(())
    }

    /// Rejects a first allocation beyond the cap or the address space.
    pub(crate) fn check_lines(&self, lines: f64) -> Result<usize, SettingsError> {
        const ADDRESSABLE: f64 = (1_u64 << 46) as f64;
        let bytes = lines * crate::cache_line::LINE_BYTES as f64;
        if bytes.is_nan() || bytes >= ADDRESSABLE {
            return Err(SettingsError::ExpectedIdsTooMany(self.expected_ids));
        }
        let needed = bytes as usize;
        if needed > self.memory_cap {
            return Err(SettingsError::MemoryCapTooSmall { cap: self.memory_cap, needed });
        }
        Ok(lines as usize)
    }
}
