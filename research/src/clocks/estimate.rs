//! The paper's estimates for pairs of a sample, and the true relation of the same pairs.
//!
//! Only positive pairs have an estimate: in the step model nothing else enters the estimates of a slice.

use bloom_clock::{Causality, Stamp};

use super::ground_truth::GroundTruth;
use super::slice::ratio;
use crate::clock_estimate::CausalityEstimate;

/// Classes of pr_p, each a tenth.
pub(crate) const CLASSES: usize = 10;

/// Pairs that the clock reports as possible.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct PositivePairs {
    pub(crate) pairs: u64,
    /// Those that are causal.
    pub(crate) causes: u64,
}

/// The estimates of a slice and the true values.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Estimate {
    /// Ordered pairs.
    pub(crate) pairs: u64,
    /// Positive pairs by their pr_p.
    pub(crate) classes: [PositivePairs; CLASSES],
    /// Estimated number of false positives.
    pub(crate) false_sum: f64,
}

impl Estimate {
    /// Takes at most `most` events, evenly spaced.
    pub(crate) fn of(stamps: &[Stamp], truth: &GroundTruth, most: usize) -> Self {
        let count = stamps.len().min(most);
        let chosen: Vec<usize> = (0..count).map(|number| number * stamps.len() / count).collect();
        let mut estimate = Self::default();
        for &second in &chosen {
            for &first in chosen.iter().filter(|first| **first != second) {
                estimate.pairs += 1;
                // Compared first, because an estimate takes a thousand times as long.
                if stamps[second].after(&stamps[first]) != Causality::Possibly {
                    continue;
                }
                let odds = CausalityEstimate::of(&stamps[first], &stamps[second]);
                let class = (odds.precedes() * CLASSES as f64) as usize;
                let class = &mut estimate.classes[class.min(CLASSES - 1)];
                class.pairs += 1;
                class.causes += u64::from(first < second && truth.caused(first, second));
                estimate.false_sum += odds.positive_false();
            }
        }
        estimate
    }

    /// Adds the pairs of another sample.
    pub(crate) fn add(&mut self, other: &Self) {
        self.pairs += other.pairs;
        self.false_sum += other.false_sum;
        for (class, more) in self.classes.iter_mut().zip(&other.classes) {
            class.pairs += more.pairs;
            class.causes += more.causes;
        }
    }

    pub(crate) fn positives(&self) -> PositivePairs {
        let pairs = self.classes.iter().map(|class| class.pairs).sum();
        PositivePairs { pairs, causes: self.classes.iter().map(|class| class.causes).sum() }
    }

    /// Precision: estimated and true.
    pub(crate) fn precision(&self) -> (f64, f64) {
        let PositivePairs { pairs, causes } = self.positives();
        (if pairs == 0 { 0.0 } else { 1.0 - self.false_sum / pairs as f64 }, ratio(causes, pairs))
    }

    /// Accuracy: estimated and true.
    pub(crate) fn accuracy(&self) -> (f64, f64) {
        let PositivePairs { pairs, causes } = self.positives();
        (1.0 - self.false_sum / self.pairs.max(1) as f64, 1.0 - ratio(pairs - causes, self.pairs))
    }

    /// False-positive rate: estimated and true.
    pub(crate) fn fpr(&self) -> (f64, f64) {
        let PositivePairs { pairs, causes } = self.positives();
        let negatives = (self.pairs - pairs) as f64 + self.false_sum;
        let estimated = if negatives > 0.0 { self.false_sum / negatives } else { 0.0 };
        (estimated, ratio(pairs - causes, self.pairs - causes))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_follow_the_formulas_of_the_paper() {
        assert_eq!(Estimate::default().precision(), (0.0, 0.0));
        assert_eq!(Estimate::default().accuracy().0, 1.0);
        assert_eq!(Estimate::default().fpr(), (0.0, 0.0));

        // One certain positive: no false one is expected.
        let mut estimate = Estimate { pairs: 1, ..Estimate::default() };
        estimate.classes[9] = PositivePairs { pairs: 1, causes: 1 };
        assert_eq!(
            (estimate.precision(), estimate.accuracy(), estimate.fpr()),
            ((1.0, 1.0), (1.0, 1.0), (0.0, 0.0))
        );

        // And one positive that is false with probability 1/4, and in fact; and one negative.
        let mut more = Estimate { pairs: 2, false_sum: 0.25, ..Estimate::default() };
        more.classes[7] = PositivePairs { pairs: 1, causes: 0 };
        estimate.add(&more);
        assert_eq!(estimate.precision(), (1.0 - 0.25 / 2.0, 0.5));
        assert_eq!(estimate.accuracy(), (1.0 - 0.25 / 3.0, 1.0 - 1.0 / 3.0));
        assert_eq!(estimate.fpr(), (0.25 / 1.25, 0.5));
    }
}
