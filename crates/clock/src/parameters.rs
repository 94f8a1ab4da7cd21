//! The params of a clock: what all who compare their stamps have in common.

/// The most counters.
pub const COUNTERS_MAX: usize = 1 << 16;

/// The most counters that an event increments.
pub const HASHES_MAX: u32 = 16;

/// What names an event.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize), serde(rename_all = "lowercase"))]
pub enum TickKey {
    /// The process and the number of the event, as published: events of a process are spread over all counters.
    Event,
    /// The process alone: all its events increment the same counters, as in the plausible clocks of Torres-Rojas and Ahamad. Tells more
    /// concurrent events apart wherever it was measured.
    #[default]
    Process,
}

/// What all clocks have in common whose stamps are compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[cfg_attr(
    feature = "serde",
    derive(serde::Serialize, serde::Deserialize),
    serde(try_from = "crate::serde_impl::UncheckedParams")
)]
pub struct ClockParams {
    pub(crate) counters: usize,
    pub(crate) hashes: u32,
    pub(crate) key: TickKey,
    pub(crate) limit: u32,
}

/// A params that cannot be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ClockParamsError(InvalidParam);

/// Not a text: what is read of a stranger must not allocate to be refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum InvalidParam {
    Counters(usize),
    Hashes(u32),
    HashesPastLimit { hashes: u32, limit: u32 },
    Limit { limit: u32, hashes: u32 },
}

impl std::fmt::Display for ClockParamsError {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.0 {
            InvalidParam::Counters(counters) => {
                write!(out, "{counters} counters: there are 1 to {COUNTERS_MAX}")
            }
            InvalidParam::Hashes(hashes) => {
                write!(out, "{hashes} counters for an event: there are 1 to {HASHES_MAX}")
            }
            InvalidParam::HashesPastLimit { hashes, limit } => {
                write!(out, "an event of {hashes} may pass the limit {limit}")
            }
            InvalidParam::Limit { limit, hashes } => {
                write!(out, "a limit of {limit}: an event adds up to {hashes}")
            }
        }
    }
}

impl std::error::Error for ClockParamsError {}

impl ClockParams {
    /// So many counters, one of them for each event, named by the process.
    pub fn new(counters: usize) -> Result<Self, ClockParamsError> {
        if !(1..=COUNTERS_MAX).contains(&counters) {
            return Err(ClockParamsError(InvalidParam::Counters(counters)));
        }
        Ok(Self { counters, hashes: 1, key: TickKey::default(), limit: u32::MAX })
    }

    /// Each event increments so many counters. More than one pays only where there are many more counters than events
    /// since what both ends know.
    pub fn hashes(self, hashes: u32) -> Result<Self, ClockParamsError> {
        if !(1..=HASHES_MAX).contains(&hashes) {
            return Err(ClockParamsError(InvalidParam::Hashes(hashes)));
        }
        if hashes > self.limit {
            return Err(ClockParamsError(InvalidParam::HashesPastLimit { hashes, limit: self.limit }));
        }
        Ok(Self { hashes, ..self })
    }

    /// What names an event.
    #[must_use]
    pub fn key(self, key: TickKey) -> Self {
        Self { key, ..self }
    }

    /// A counter that would pass this begins a new generation. For whoever has few bytes, and for tests.
    pub fn limit(self, limit: u32) -> Result<Self, ClockParamsError> {
        if limit < self.hashes {
            return Err(ClockParamsError(InvalidParam::Limit { limit, hashes: self.hashes }));
        }
        Ok(Self { limit, ..self })
    }

    /// How many counters there are.
    pub fn counters(&self) -> usize {
        self.counters
    }
}
