//! The observable state of a filter.

/// Why a filter exceeds its false-positive target. It still remembers every id.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Pressure {
    /// [`Settings::memory_cap`](crate::Settings::memory_cap) is too small.
    MemoryCap,
    /// The load changed too often within one window: all segments are in use.
    SegmentCap,
    /// An allocation failed.
    OutOfMemory,
    /// [`Growth::Fixed`](crate::Growth::Fixed), and more ids arrived than expected.
    Fixed,
}

/// The latest pressure, kept until the ids inserted under it have expired.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct LastPressure {
    latest: Option<(Pressure, u64)>,
}

impl LastPressure {
    /// Records a pressure; `until` is when the last id inserted under it expires.
    pub(crate) fn note(&mut self, pressure: Pressure, until: u64) {
        self.latest = Some((pressure, until));
    }

    /// Clears a pressure that has ended.
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
    /// Bytes of filter memory.
    pub bytes: usize,
    /// Maximum of `bytes`.
    pub memory_cap: usize,
    /// By arrival: live segments, 1 in steady state and more while the size changes. Dated: slices, 1 per
    /// generation in steady state.
    pub segments: usize,
    /// Generations that can contain an id younger than the window.
    pub generations: usize,
    /// Number of ids, to within a percent or two.
    pub ids: u64,
    /// The current false-positive probability, estimated from the bits that are set.
    pub false_positive_rate: f64,
    /// The target for `false_positive_rate`.
    pub target: f64,
    /// Set while the filter contains ids that arrived when the load exceeded its limits.
    pub pressure: Option<Pressure>,
    /// Refreshes because a generation reached its age.
    pub refreshes_by_age: u64,
    /// Refreshes because a generation was full before its age.
    pub refreshes_by_fill: u64,
    /// Segments or slices opened after the first one.
    pub resizes: u64,
}

impl Status {
    /// Whether the false-positive rate exceeds the target.
    pub fn over_target(&self) -> bool {
        self.false_positive_rate > self.target
    }
}
