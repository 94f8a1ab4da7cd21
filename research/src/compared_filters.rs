//! The filters of the figure `surge`: Algorithm 3 on the paper's filter, and the production filter.
//!
//! Invariant: all have the same target and retention, and start with the right size for the load before the
//! surge.

use std::time::Duration;

use crate::paper_filter::{self, Check, PaperFilter, Resizer, Thresholds};
use anyhow::Result;
use forgetful_filter::{Fingerprint, ForgetfulFilter, Key, Timestamp};

/// Required retention.
pub(crate) const WINDOW: Duration = Duration::from_secs(60);

/// Maximum false-positive rate.
pub(crate) const TARGET: f64 = 1e-3;

/// Ids per second for which all filters are sized at the start.
pub(crate) const EXPECTED_PER_SECOND: u64 = 100;

/// Bound on the number of Algorithm 3's filters, which would otherwise keep doubling.
pub(crate) const FILTERS_MAX: usize = 1024;

/// 8 filters of 30 000 bits, 10 hash functions, 9 s: `(N + 1) t` is 63 s, and in steady state at the expected
/// load the exact false-positive rate is half the target.
const PAPER: paper_filter::Settings =
    paper_filter::Settings { bits: 30_000, hashes: 10, filters: 8, period: Duration::from_secs(9) };

/// A filter in the surge.
pub(crate) enum ComparedFilter {
    /// The filter of the paper, resized once per second from `resized_from` on.
    Algorithm3 { filter: PaperFilter, resizer: Resizer, resized_from: Duration },
    /// The production filter.
    Production { filter: ForgetfulFilter, now: Timestamp },
}

impl ComparedFilter {
    /// Algorithm 3 starts at `resized_from`. It shrinks empty filters at once, so a fair start is when they
    /// are full.
    pub(crate) fn algorithm3(thresholds: Thresholds, resized_from: Duration) -> Result<Self> {
        let resizer = Resizer::new(TARGET, thresholds, FILTERS_MAX)?;
        Ok(Self::Algorithm3 { filter: PaperFilter::new(PAPER)?, resizer, resized_from })
    }

    pub(crate) fn production(key: Key) -> Result<Self> {
        let settings = forgetful_filter::Settings::for_window(WINDOW)
            .false_positive_rate(TARGET)
            .expected_ids(EXPECTED_PER_SECOND * WINDOW.as_secs());
        Ok(Self::Production { filter: settings.build(key)?, now: Timestamp::ZERO })
    }

    pub(crate) fn insert(&mut self, id: Fingerprint, time: Duration) {
        match self {
            Self::Algorithm3 { filter, .. } => {
                filter.advance(time);
                filter.insert(id);
            }
            Self::Production { filter, now } => {
                *now = Timestamp::ZERO.after(time);
                filter.insert_fingerprint(id, *now);
            }
        }
    }

    /// The work at the end of each second.
    pub(crate) fn tick(&mut self, time: Duration) -> Result<()> {
        match self {
            Self::Algorithm3 { filter, resizer, resized_from } => {
                filter.advance(time);
                if time >= *resized_from {
                    resizer.step(filter)?;
                }
            }
            Self::Production { now, .. } => *now = Timestamp::ZERO.after(time),
        }
        Ok(())
    }

    pub(crate) fn contains(&self, id: Fingerprint) -> bool {
        match self {
            Self::Algorithm3 { filter, .. } => filter.contains(id, Check::Text),
            Self::Production { filter, now } => filter.contains_fingerprint(id, *now),
        }
    }

    pub(crate) fn bytes(&self) -> usize {
        match self {
            Self::Algorithm3 { filter, .. } => filter.bytes(),
            Self::Production { filter, .. } => filter.status().bytes,
        }
    }

    /// Number of constituent filters or segments.
    pub(crate) fn parts(&self) -> usize {
        match self {
            Self::Algorithm3 { filter, .. } => filter.filters(),
            Self::Production { filter, .. } => filter.status().segments,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::measure::{inserted, key};
    use crate::paper_filter::Estimate;

    #[test]
    fn algorithm_3_starts_with_a_filter_of_sufficient_size() {
        let mut filter = PaperFilter::new(PAPER).unwrap();
        assert!(filter.promised_retention() >= WINDOW);
        for number in 0..200 * EXPECTED_PER_SECOND {
            filter.advance(Duration::from_secs(number / EXPECTED_PER_SECOND));
            filter.insert(inserted(&key(0), number));
        }
        let rate = filter.expected_fpr(Estimate::Exact);
        assert!((0.3 * TARGET..0.7 * TARGET).contains(&rate), "{rate}");
    }
}
