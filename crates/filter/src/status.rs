//! What a filter tells about itself.

/// Why a filter cannot keep its false-positive target at the present load. It goes on remembering every id.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Pressure {
    /// More memory would be needed than [`Settings::memory_cap`](crate::Settings::memory_cap) allows.
    MemoryCap,
    /// The load changed more often within one window than sizes may be alive at once.
    SegmentCap,
    /// The allocator refused.
    OutOfMemory,
    /// [`Growth::Fixed`](crate::Growth::Fixed), and more ids arrived than were expected.
    Fixed,
}

/// A pressure, remembered for as long as the ids that came under it can be alive.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct LastPressure {
    latest: Option<(Pressure, u64)>,
}

impl LastPressure {
    /// Notes that relief was refused; `until` is when the last id of that time has gone.
    pub(crate) fn note(&mut self, pressure: Pressure, until: u64) {
        self.latest = Some((pressure, until));
    }

    /// Forgets what lies back.
    pub(crate) fn reach(&mut self, now: u64) {
        self.latest = self.latest.filter(|(_, until)| now < *until);
    }

    pub(crate) fn get(&self) -> Option<Pressure> {
        self.latest.map(|(pressure, _)| pressure)
    }
}

/// The state of a filter at one instant.
#[derive(Debug, Clone, Copy, PartialEq)]
#[non_exhaustive]
pub struct Status {
    /// Bytes of filter lines.
    pub bytes: usize,
    /// The cap on them.
    pub memory_cap: usize,
    /// By arrival: sizes alive, 1 in steady state and more while the size changes. Dated: slices, 1 a generation in
    /// steady state.
    pub segments: usize,
    /// Generations that can still hold an id younger than the window.
    pub generations: usize,
    /// Ids remembered, within a percent or two.
    pub ids: u64,
    /// The probability, now, that a new id is mistaken for a known one: estimated from the bits that are set.
    pub false_positive_rate: f64,
    /// What it should stay below.
    pub target: f64,
    /// Set while ids are alive that came when the load was beyond what the settings allow.
    pub pressure: Option<Pressure>,
    /// Refreshes so far because a generation had reached its age.
    pub refreshes_by_age: u64,
    /// Refreshes so far because a generation was full before its age.
    pub refreshes_by_fill: u64,
    /// Segments opened so far, larger or smaller, after the first one.
    pub resizes: u64,
}

impl Status {
    /// Whether more new ids are mistaken for known ones than the target allows.
    pub fn over_target(&self) -> bool {
        self.false_positive_rate > self.target
    }

    /// Memory per remembered id.
    pub fn bits_per_id(&self) -> f64 {
        self.bytes as f64 * 8.0 / self.ids.max(1) as f64
    }
}
