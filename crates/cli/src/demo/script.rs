//! The plot of the demo: calm, a surge, calm again, silence; and the window that the filter has to keep.
//!
//! Everything scales with the length. The proportions are chosen so that each phase shows what it is for: the surge
//! and the calm after it are longer than a window, so the filter settles in both (it gives memory back a few
//! refreshes after the load fell, and one window later the memory of the surge is gone); so is the silence, so that
//! at the end everything is forgotten.

use std::time::Duration;

use forgetful_filter::Moment;

/// New ids a second while calm.
pub const CALM_RATE: u64 = 4_000;

/// How many times more there are in the surge.
pub const SURGE_FACTOR: u64 = 10;

/// The share of new ids that the filter may mistake for known ones.
pub const TARGET: f64 = 1e-3;

/// Windows in the whole demo.
const WINDOWS: u32 = 6;

/// The phases, with their ends in thirtieths of the whole.
const PHASES: [(Phase, u32); 4] =
    [(Phase::Calm, 6), (Phase::Surge, 12), (Phase::CalmAgain, 23), (Phase::Silence, 30)];

/// What the load does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Phase {
    Calm,
    Surge,
    CalmAgain,
    Silence,
}

impl Phase {
    pub fn name(self) -> &'static str {
        match self {
            Self::Calm | Self::CalmAgain => "calm",
            Self::Surge => "surge x10",
            Self::Silence => "silence",
        }
    }

    /// New ids a second.
    pub fn rate(self) -> u64 {
        match self {
            Self::Calm | Self::CalmAgain => CALM_RATE,
            Self::Surge => CALM_RATE * SURGE_FACTOR,
            Self::Silence => 0,
        }
    }
}

/// The plot at a given length.
#[derive(Debug, Clone, Copy)]
pub struct Script {
    total: Duration,
}

impl Script {
    pub fn new(total: Duration) -> Self {
        Self { total }
    }

    pub fn total(&self) -> Duration {
        self.total
    }

    pub fn end(&self) -> Moment {
        Moment::ZERO.after(self.total)
    }

    /// How long an id must be remembered.
    pub fn window(&self) -> Duration {
        self.total / WINDOWS
    }

    /// The phase at a moment.
    pub fn phase(&self, at: Moment) -> Phase {
        PHASES.iter().find(|(phase, _)| at < self.end_of(*phase)).map_or(Phase::Silence, |(phase, _)| *phase)
    }

    pub fn end_of(&self, wanted: Phase) -> Moment {
        let thirtieths = PHASES.iter().find(|(phase, _)| *phase == wanted).map_or(30, |(_, end)| *end);
        Moment::ZERO.after(self.total * thirtieths / 30)
    }

    /// The phases, each with its end.
    pub fn phases(&self) -> impl Iterator<Item = (Phase, Moment)> + '_ {
        PHASES.iter().map(|(phase, _)| (*phase, self.end_of(*phase)))
    }
}
