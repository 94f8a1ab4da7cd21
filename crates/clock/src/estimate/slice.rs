//! A slice of an execution: how often the clock was right about pairs of its events, counted, and estimated.

use super::{Odds, Reading};
use crate::causality::Causality;

/// How often it was right.
///
/// [`Causality::Possibly`] is a positive. [`Causality::Equal`] is none, other than in the paper: events with equal stamps do not cause each other.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Slice {
    /// Caused, and told so.
    pub true_positives: u64,
    /// Not caused, and told to be.
    pub false_positives: u64,
    /// Not caused, and told so.
    pub true_negatives: u64,
    /// Caused, and told not to be: more than 0 is a broken promise.
    pub false_negatives: u64,
}

impl Slice {
    /// Counts a pair of events.
    pub fn note(&mut self, caused: bool, told: Causality) {
        let count = match (caused, told == Causality::Possibly) {
            (true, true) => &mut self.true_positives,
            (false, true) => &mut self.false_positives,
            (false, false) => &mut self.true_negatives,
            (true, false) => &mut self.false_negatives,
        };
        *count += 1;
    }

    /// How many pairs were counted.
    pub fn pairs(&self) -> u64 {
        self.true_positives + self.false_positives + self.true_negatives + self.false_negatives
    }

    /// The share of all pairs that was told right: (TP + TN) / (TP + TN + FP + FN). Nothing if there were none.
    pub fn accuracy(&self) -> Option<f64> {
        share(self.true_positives + self.true_negatives, self.pairs())
    }

    /// The share of the positives that are true: TP / (TP + FP). Nothing if there were none.
    pub fn precision(&self) -> Option<f64> {
        share(self.true_positives, self.true_positives + self.false_positives)
    }

    /// The share of the causes that was told: TP / (TP + FN). Nothing if there were none; else 1, always.
    pub fn recall(&self) -> Option<f64> {
        share(self.true_positives, self.true_positives + self.false_negatives)
    }

    /// The share of the pairs that were not caused which was told to be: FP / (FP + TN). Nothing if there were none.
    pub fn false_positive_rate(&self) -> Option<f64> {
        share(self.false_positives, self.false_positives + self.true_negatives)
    }
}

fn share(part: u64, whole: u64) -> Option<f64> {
    (whole > 0).then(|| part as f64 / whole as f64)
}

/// The same, estimated by those who do not know what caused what, from [`Odds`] as a step.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Estimated {
    pairs: u64,
    positives: u64,
    /// The sum of (1 - pr_p) step.
    false_positives: f64,
}

impl Estimated {
    /// Adds a pair of events.
    pub fn note(&mut self, odds: &Odds) {
        self.pairs += 1;
        self.positives += u64::from(odds.told());
        self.false_positives += odds.false_positive(Reading::Step);
    }

    /// 1 - sum of (1 - pr_p) step / sum of 1. Nothing if there were no pairs.
    pub fn accuracy(&self) -> Option<f64> {
        (self.pairs > 0).then(|| 1.0 - self.false_positives / self.pairs as f64)
    }

    /// 1 - sum of (1 - pr_p) step / sum of step. Nothing if there were no positives.
    pub fn precision(&self) -> Option<f64> {
        (self.positives > 0).then(|| 1.0 - self.false_positives / self.positives as f64)
    }

    /// Sum of (1 - pr_p) step / sum of (1 - pr_p step). Nothing if all pairs are surely caused.
    pub fn false_positive_rate(&self) -> Option<f64> {
        // 1 - pr_p step is (1 - pr_p) step where the step is 1, and 1 where it is 0.
        let not_caused = self.false_positives + (self.pairs - self.positives) as f64;
        (not_caused > 0.0).then(|| self.false_positives / not_caused)
    }
}
