//! The insertion schedules of the authors' prototype (github.com/rajath26/FBFPrototype, `Driver.cpp`), in
//! virtual time.
//!
//! Ids arrive in bursts: a whole batch at one instant, every two seconds, the first after two seconds. If a
//! refresh and a burst coincide, the refresh comes first. Measurements follow the last burst.

use std::time::Duration;

use crate::paper_filter::{PaperFilter, Settings};
use anyhow::Result;
use forgetful_filter::Key;

use crate::measure::inserted;

/// `SLEEP_TIME` of the prototype.
const GAP: Duration = Duration::from_secs(2);

/// `ids` ids in bursts of `batch`.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Bursts {
    pub(crate) ids: u64,
    pub(crate) batch: u64,
}

impl Bursts {
    /// Bursts; the last one may be smaller.
    fn count(self) -> u64 {
        self.ids.div_ceil(self.batch)
    }

    /// Ids per second as the prototype reports them: all ids divided by the time until the last burst.
    pub(crate) fn ids_per_second(self) -> f64 {
        self.ids as f64 / (self.count() as f64 * GAP.as_secs_f64())
    }

    /// A filter right after the last burst.
    pub(crate) fn play(self, settings: Settings, key: &Key) -> Result<PaperFilter> {
        let mut filter = PaperFilter::new(settings)?;
        let mut now = Duration::ZERO;
        for burst in 0..self.count() {
            now += GAP;
            filter.advance(now);
            for id in burst * self.batch..((burst + 1) * self.batch).min(self.ids) {
                filter.insert(inserted(key, id));
            }
        }
        Ok(filter)
    }
}

/// The basic FBF of most experiments: one past filter, 5 hash functions (`DEF_NUM_OF_HASH`).
pub(crate) fn basic(bits: usize, period_s: u64) -> Settings {
    with_filters(bits, 3, period_s)
}

pub(crate) fn with_filters(bits: usize, filters: usize, period_s: u64) -> Settings {
    Settings { bits, hashes: 5, filters, period: Duration::from_secs(period_s) }
}
