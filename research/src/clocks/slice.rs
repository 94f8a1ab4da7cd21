//! A slice of an execution, and the quality of a clock on it.
//!
//! Slices start when every process has had about ten events. A limited number of events of each slice is
//! sampled evenly, and all ordered pairs of them are compared.
//!
//! Invariant: a clock that denies a cause is an error, not a number.

use anyhow::{Result, ensure};
use bloom_clock::{Causality, Stamp};

use super::ground_truth::GroundTruth;

/// A range of events, by their number in an execution of n processes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Slice {
    /// From 10 n to 20 n.
    Near,
    /// From 10 n to 110 n.
    Mid,
    /// From 10 n to 10 n + n², as in the replications of the paper.
    Square,
}

impl Slice {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Near => "near",
            Self::Mid => "mid",
            Self::Square => "sq",
        }
    }

    pub(crate) fn range(self, processes: usize) -> std::ops::Range<usize> {
        let first = 10 * processes;
        first
            ..first
                + match self {
                    Self::Near => 10 * processes,
                    Self::Mid => 100 * processes,
                    Self::Square => processes * processes,
                }
    }

    /// The positions of at most `most` events, evenly spaced.
    pub(crate) fn sample(self, processes: usize, most: usize) -> Vec<usize> {
        let range = self.range(processes);
        let count = range.len().min(most);
        (0..count).map(|number| range.start + number * range.len() / count).collect()
    }
}

/// Upper bounds of the classes of distances between two events, in events per process; the last class is
/// unbounded.
pub(crate) const ENDS: [f64; 22] = [
    0.25,
    0.5,
    1.0,
    1.5,
    2.0,
    3.0,
    4.0,
    5.0,
    6.0,
    7.0,
    8.0,
    10.0,
    12.0,
    14.0,
    16.0,
    20.0,
    24.0,
    32.0,
    48.0,
    64.0,
    100.0,
    f64::INFINITY,
];

/// Pairs in one class of distances.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Class {
    pub(crate) pairs: u64,
    /// Pairs in which the first event caused the second.
    pub(crate) causes: u64,
    /// Pairs that are not causal and are reported as possible.
    pub(crate) false_positives: u64,
}

impl Class {
    /// The share of causal pairs.
    pub(crate) fn causal_share(&self) -> f64 {
        ratio(self.causes, self.pairs)
    }

    /// The false-positive rate.
    pub(crate) fn fpr(&self) -> f64 {
        ratio(self.false_positives, self.pairs - self.causes)
    }
}

/// Counts of the ordered pairs of a sample.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct PairCounts {
    /// Pairs in the order of time, by distance.
    pub(crate) classes: [Class; ENDS.len()],
    /// Pairs against the order of time, which cannot be causal.
    pub(crate) backward: u64,
    /// Those of them that are reported as possible.
    pub(crate) backward_false: u64,
    /// Pairs with equal stamps, which are reported as not causal.
    pub(crate) equal: u64,
}

impl PairCounts {
    pub(crate) fn of(
        stamps: &[Stamp],
        sampled: &[usize],
        processes: usize,
        truth: &GroundTruth,
    ) -> Result<Self> {
        let mut tally = Self::default();
        for second in 0..stamps.len() {
            for first in 0..second {
                let reported = stamps[second].after(&stamps[first]);
                let caused = truth.caused(first, second);
                ensure!(
                    !caused || reported == Causality::Possibly,
                    "event {} caused event {}, and its clock reports {reported:?}: the clock is wrong",
                    sampled[first],
                    sampled[second]
                );
                let class = &mut tally.classes[class(sampled[second] - sampled[first], processes)];
                class.pairs += 1;
                class.causes += u64::from(caused);
                class.false_positives += u64::from(!caused && reported == Causality::Possibly);
                tally.equal += u64::from(reported == Causality::Equal);
                tally.backward += 1;
                // The stamp of a cause is below that of its effect, so the other direction needs no
                // comparison.
                let back = !caused && stamps[first].after(&stamps[second]) == Causality::Possibly;
                tally.backward_false += u64::from(back);
            }
        }
        Ok(tally)
    }

    /// Adds the counts of another sample.
    pub(crate) fn add(&mut self, other: &Self) {
        for (class, more) in self.classes.iter_mut().zip(&other.classes) {
            class.pairs += more.pairs;
            class.causes += more.causes;
            class.false_positives += more.false_positives;
        }
        self.backward += other.backward;
        self.backward_false += other.backward_false;
        self.equal += other.equal;
    }

    fn sum(&self, of: impl Fn(&Class) -> u64) -> u64 {
        self.classes.iter().map(of).sum()
    }

    /// Causal pairs. The clock reports all of them.
    pub(crate) fn true_positives(&self) -> u64 {
        self.sum(|class| class.causes)
    }

    pub(crate) fn forward_false(&self) -> u64 {
        self.sum(|class| class.false_positives)
    }

    pub(crate) fn false_positives(&self) -> u64 {
        self.forward_false() + self.backward_false
    }

    /// Ordered pairs.
    pub(crate) fn pairs(&self) -> u64 {
        2 * self.backward
    }

    pub(crate) fn causal_share(&self) -> f64 {
        ratio(self.true_positives(), self.pairs())
    }

    pub(crate) fn accuracy(&self) -> f64 {
        1.0 - ratio(self.false_positives(), self.pairs())
    }

    pub(crate) fn precision(&self) -> f64 {
        ratio(self.true_positives(), self.true_positives() + self.false_positives())
    }

    pub(crate) fn fpr(&self) -> f64 {
        ratio(self.false_positives(), self.pairs() - self.true_positives())
    }

    /// The false-positive rate of pairs in the order of time, which remains if timestamps exclude the others.
    pub(crate) fn forward_fpr(&self) -> f64 {
        ratio(self.forward_false(), self.backward - self.true_positives())
    }
}

/// The class of a distance in events.
fn class(distance: usize, processes: usize) -> usize {
    let rounds = distance as f64 / processes as f64;
    ENDS.iter().position(|end| rounds < *end).unwrap_or(ENDS.len() - 1)
}

/// `part / whole`; 0 if `whole` is 0.
pub(crate) fn ratio(part: u64, whole: u64) -> f64 {
    if whole == 0 { 0.0 } else { part as f64 / whole as f64 }
}

#[cfg(test)]
mod tests {
    use bloom_clock::{BloomClock, Clock, ClockParams, Identity};

    use super::super::execution::Plan;
    use super::super::replay::replay;
    use super::super::topology::Topology;
    use super::*;
    use jeton_testkit::Rng;

    #[test]
    fn a_sample_is_even_and_within_its_slice() {
        assert_eq!(Slice::Near.sample(3, 100), (30..60).collect::<Vec<_>>());
        assert_eq!(Slice::Square.sample(100, 5), [1000, 3000, 5000, 7000, 9000]);
        assert_eq!(Slice::Mid.sample(10, 4), [100, 350, 600, 850]);
    }

    #[test]
    fn distances_are_classified_by_events_per_process() {
        assert_eq!([1, 24, 25, 99, 100, 10_000].map(|distance| class(distance, 100)), [0, 0, 1, 2, 3, 21]);
    }

    #[test]
    fn shares_are_those_of_a_confusion_matrix() {
        assert_eq!((PairCounts::default().precision(), PairCounts::default().fpr()), (0.0, 0.0));
        let mut tally = PairCounts { backward: 4, backward_false: 1, ..PairCounts::default() };
        tally.classes[0] = Class { pairs: 3, causes: 3, false_positives: 0 };
        assert_eq!((tally.pairs(), tally.true_positives(), tally.false_positives()), (8, 3, 1));
        assert_eq!((tally.accuracy(), tally.precision(), tally.fpr()), (7.0 / 8.0, 3.0 / 4.0, 1.0 / 5.0));
        assert_eq!((tally.causal_share(), tally.forward_fpr()), (3.0 / 8.0, 0.0));
    }

    fn stamps(plan: Plan, sampled: &[usize], forget: bool) -> Result<PairCounts> {
        let execution = plan.play(Rng::new(5));
        let truth = GroundTruth::of(&execution, sampled);
        let params = ClockParams::new(8)?;
        let begin =
            |process| BloomClock::begin(params, Identity::from_number_never_used_before(process as u64));
        let mut stamps = Vec::new();
        replay(&execution, (0..plan.processes).map(begin).collect(), |at, _, stamp| {
            if sampled.contains(&at) {
                stamps.push(stamp.clone());
            }
        });
        if forget {
            // The clock of the last event has lost its history.
            let mut fresh = begin(plan.processes);
            *stamps.last_mut().expect("a sample") = fresh.tick().clone();
        }
        PairCounts::of(&stamps, sampled, plan.processes, &truth)
    }

    #[test]
    fn a_clock_that_denies_a_cause_is_an_error() {
        let plan = Plan { processes: 5, topology: Topology::Uniform, internal: 0, events: 100 };
        let sampled: Vec<usize> = (0..100).collect();
        let tally = stamps(plan, &sampled, false).unwrap();
        assert_eq!((tally.pairs(), tally.backward), (9900, 4950));
        assert!(tally.true_positives() > 1000 && tally.false_positives() > 10, "{tally:?}");
        let error = stamps(plan, &sampled, true).unwrap_err().to_string();
        assert!(error.contains("the clock is wrong"), "{error}");
    }
}
