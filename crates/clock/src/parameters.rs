//! Parameters of a clock, which all clocks of a system share.

/// Maximum number of counters.
pub const COUNTERS_MAX: usize = 1 << 16;

/// Maximum number of counters that an event increments.
pub const HASHES_MAX: u32 = 16;

/// The name of an event, which selects its counters.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum TickKey {
    /// Process and number of the event, as published: the events of a process are spread over all counters.
    Event,
    /// The process alone: all its events increment the same counters, as in the plausible clocks of
    /// Torres-Rojas and Ahamad. In all measurements this has fewer false positives.
    #[default]
    Process,
}

/// Parameters of a clock. Only stamps of clocks with equal parameters can be compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct ClockParams {
    pub(crate) counters: usize,
    pub(crate) hashes: u32,
    pub(crate) key: TickKey,
    pub(crate) limit: u32,
}

/// Invalid parameters.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClockParamsError(String);

impl std::fmt::Display for ClockParamsError {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.write_str(&self.0)
    }
}

impl std::error::Error for ClockParamsError {}

impl ClockParams {
    /// `counters` counters, one per event, selected by the process.
    pub fn new(counters: usize) -> Result<Self, ClockParamsError> {
        if !(1..=COUNTERS_MAX).contains(&counters) {
            let why = format!("{counters} counters, expected 1 to {COUNTERS_MAX}");
            return Err(ClockParamsError(why));
        }
        Ok(Self { counters, hashes: 1, key: TickKey::default(), limit: u32::MAX })
    }

    /// Number of counters that an event increments. More than one pays off only with many more counters than
    /// recent events.
    pub fn hashes(self, hashes: u32) -> Result<Self, ClockParamsError> {
        if !(1..=HASHES_MAX).contains(&hashes) {
            let why = format!("{hashes} counters for an event, expected 1 to {HASHES_MAX}");
            return Err(ClockParamsError(why));
        }
        if hashes > self.limit {
            let why = format!("{hashes} counters for an event exceed the limit {}", self.limit);
            return Err(ClockParamsError(why));
        }
        Ok(Self { hashes, ..self })
    }

    /// Sets what names an event.
    #[must_use]
    pub fn key(self, key: TickKey) -> Self {
        Self { key, ..self }
    }

    /// A counter that would exceed `limit` starts a new generation. For small stamps, and for tests.
    pub fn limit(self, limit: u32) -> Result<Self, ClockParamsError> {
        if limit < self.hashes {
            let why = format!("a limit of {limit} is below the {} that an event can add", self.hashes);
            return Err(ClockParamsError(why));
        }
        Ok(Self { limit, ..self })
    }

    /// Number of counters.
    pub fn counters(&self) -> usize {
        self.counters
    }
}
