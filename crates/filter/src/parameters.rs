//! Parameters of an arrival-time filter, derived from its settings.

use crate::cache_line::LANES;
use crate::settings::{Growth, Settings, SettingsError};
use crate::sizing::{FillLimit, share_of};
use crate::timestamp::TickScale;

/// Rows of the smallest segment: 4 KiB. The statistics of the sizing do not hold for smaller ones.
#[cfg(not(any(loom, miri)))]
const ROWS_MIN: usize = 64;
/// Loom tracks every word; one row is enough.
#[cfg(loom)]
const ROWS_MIN: usize = 1;
/// Miri is a thousand times slower; a few rows are enough.
#[cfg(miri)]
const ROWS_MIN: usize = 4;

/// The sweep of an expired lane may take this share of a window.
const SWEEP_PART_OF_WINDOW: u64 = 1_024;

/// An elastic filter is sized for this multiple of the demand.
pub(crate) const HEADROOM: f64 = 1.25;

/// Generations over which an elastic filter spreads its target: a full ring, and another one for the time in
/// which two sizes are live.
const ELASTIC_SHARES: u32 = 2 * LANES as u32;

#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct FilterParams {
    pub(crate) ticks: TickScale,
    /// A lane expires when its latest id is older than this many ticks.
    pub(crate) window_ticks: u64,
    /// A lane is closed when its first id is this many ticks old.
    ///
    /// Seven such periods are a window plus the time for the sweep. So in a ring that is refreshed by age
    /// alone, the next lane is always free: it was closed seven refreshes ago.
    pub(crate) refresh_ticks: u64,
    pub(crate) fill_limit: FillLimit,
    pub(crate) growth: Growth,
    pub(crate) memory_cap: usize,
    pub(crate) target: f64,
    /// Rows of the first segment; shrinking stops at [`ROWS_MIN`].
    pub(crate) rows: usize,
}

impl FilterParams {
    pub(crate) fn new(settings: &Settings) -> Result<Self, SettingsError> {
        settings.check()?;
        let window_ns = settings.window_ns();
        let ticks = TickScale::for_window(window_ns);
        let window_ticks = ticks.spanning(window_ns);
        let sweep_ticks = window_ticks / SWEEP_PART_OF_WINDOW;
        let refresh_ticks = (window_ticks + 1 + sweep_ticks).div_ceil(LANES as u64 - 1);
        assert!(refresh_ticks * (LANES as u64 - 1) > window_ticks, "a ring outlives the window");

        let (shares, headroom) = match settings.growth {
            Growth::Elastic => (ELASTIC_SHARES, HEADROOM),
            Growth::Fixed => (LANES as u32, 1.0),
        };
        let fill_limit = FillLimit::for_probability(share_of(settings.target, shares));
        let lane_ids = settings.expected_ids as f64 * refresh_ticks as f64 * ticks.length_ns() as f64
            / window_ns as f64
            * headroom;
        let rows = settings.check_lines((lane_ids / fill_limit.ids_per_slot).ceil().max(ROWS_MIN as f64))?;
        Ok(Self {
            ticks,
            window_ticks,
            refresh_ticks,
            fill_limit,
            growth: settings.growth,
            memory_cap: settings.memory_cap,
            target: settings.target,
            rows,
        })
    }

    /// Rows for a demand of that many ids per lane, headroom included.
    pub(crate) fn rows_for(&self, lane_ids: f64) -> usize {
        self.fill_limit.slots_for(lane_ids * HEADROOM).max(ROWS_MIN)
    }
}

// Arithmetic only, and slow under Miri.
#[cfg(all(test, not(miri), not(loom)))]
mod tests {
    use super::*;
    use std::time::Duration;

    /// Bits of filter per id of a steady load that just fills the window.
    fn bits_per_id(settings: Settings) -> f64 {
        let plan = FilterParams::new(&settings).expect("valid settings");
        plan.rows as f64 * 512.0 / settings.expected_ids as f64
    }

    #[test]
    fn a_fixed_filter_needs_the_bits_that_were_promised() {
        for window in [Duration::from_millis(50), Duration::from_secs(600), Duration::from_secs(86_400)] {
            let settings = Settings::for_window(window)
                .expected_ids(1_000_000)
                .growth(Growth::Fixed)
                .memory_cap(1 << 30);
            assert!(bits_per_id(settings.clone().false_positive_rate(1e-3)) <= 23.5);
            assert!(bits_per_id(settings.clone().false_positive_rate(1e-4)) <= 31.5);
        }
    }

    #[test]
    fn seven_refreshes_outlive_the_window() {
        for window_ns in [1, 2, 100, 16_383, 16_384, 1_000_000_007, 1 << 61] {
            let plan = FilterParams::new(&Settings::for_window(Duration::from_nanos(window_ns)))
                .expect("valid settings");
            assert!(plan.refresh_ticks * 7 * plan.ticks.length_ns() >= window_ns);
        }
    }
}
