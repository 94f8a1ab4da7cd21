//! Algorithm 3: more filters and a shorter period when the false-positive rate nears the target, the reverse
//! when it is far below.
//!
//! Kept as published, with its faults: filters appended while ids live only in the oldest one orphan those
//! ids, a filter dropped early forgets its ids, and the controller is unstable: while idle the period grows
//! by a second a second, and once the future alone exceeds the target no number of past filters helps, so
//! that it doubles at every step. The only addition is an outer bound on the number of filters, so that the
//! runaway stays bounded.

use std::time::Duration;

use super::estimate::Estimate;
use super::filter::PaperFilter;
use super::settings::{PaperError, Settings};

/// When Algorithm 3 acts, as fractions of the target false-positive rate, and how small it may become.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Thresholds {
    /// Grow from this fraction of the target upwards.
    pub grow_at: f64,
    /// Shrink from this fraction of the target downwards.
    pub shrink_at: f64,
    /// Never shrink to fewer filters than this.
    pub filters_min: usize,
}

impl Thresholds {
    /// The numbers in print (Algorithm 3).
    pub const PUBLISHED: Self = Self { grow_at: 0.9, shrink_at: 0.1, filters_min: 3 };

    /// The numbers in the authors' prototype (github.com/rajath26/FBFPrototype, `FBF.h`), which made the
    /// paper's Fig. 13. It shrinks only while `size > 3 + 1`, hence the minimum of 4.
    pub const PROTOTYPE: Self = Self { grow_at: 0.6, shrink_at: 0.001, filters_min: 4 };
}

/// What a step of [`Resizer`] did.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Step {
    /// Doubled the filters (up to the bound) and shortened the period.
    Grew,
    /// Dropped a filter, unless at the minimum already, and lengthened the period.
    Shrank,
    /// The rate is between the thresholds.
    Kept,
}

/// Algorithm 3, to be stepped once a second.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Resizer {
    target: f64,
    thresholds: Thresholds,
    filters_max: usize,
}

impl Resizer {
    /// The period changes by this much, and is not shortened below it (`MIN_REFRESH_RATE` of the prototype).
    pub const PERIOD_STEP: Duration = Duration::from_secs(1);

    /// A controller for a target false-positive rate. `filters_max` is the outer bound that the paper does
    /// not have; at the bound it still shortens the period.
    ///
    /// # Errors
    /// When the target is not a probability, or a bound on the filters does not fit [`Settings`].
    pub fn new(target: f64, thresholds: Thresholds, filters_max: usize) -> Result<Self, PaperError> {
        let refuse = |setting, rule| Err(PaperError::Setting { setting, rule });
        if !(target > 0.0 && target < 1.0) {
            return refuse("target", "must be a rate above 0 and below 1");
        }
        if !(thresholds.shrink_at >= 0.0
            && thresholds.shrink_at < thresholds.grow_at
            && thresholds.grow_at.is_finite())
        {
            return refuse("thresholds", "must have 0 <= shrink_at < grow_at");
        }
        if thresholds.filters_min < Settings::FILTERS_MIN {
            return refuse("filters_min", "must be at least 3");
        }
        if filters_max < thresholds.filters_min || filters_max > Settings::FILTERS_MAX {
            return refuse("filters_max", "must be between filters_min and 8192");
        }
        Ok(Self { target, thresholds, filters_max })
    }

    /// One step: compares Eq. (3) with the target and resizes.
    ///
    /// # Errors
    /// When there is no memory for more filters; the filter is then unchanged.
    pub fn step(&self, filter: &mut PaperFilter) -> Result<Step, PaperError> {
        let rate = filter.expected_fpr(Estimate::Equation3);
        let period = filter.settings().period;
        if rate >= self.thresholds.grow_at * self.target {
            let doubled = filter.filters().saturating_mul(2).min(self.filters_max);
            filter.append_empty(doubled.saturating_sub(filter.filters()))?;
            if period > Self::PERIOD_STEP {
                filter.set_period((period - Self::PERIOD_STEP).max(Self::PERIOD_STEP));
            }
            Ok(Step::Grew)
        } else if rate <= self.thresholds.shrink_at * self.target {
            if filter.filters() > self.thresholds.filters_min {
                filter.drop_oldest();
            }
            filter.set_period(period.saturating_add(Self::PERIOD_STEP));
            Ok(Step::Shrank)
        } else {
            Ok(Step::Kept)
        }
    }
}
