//! One execution, and the results of many clocks on it.

use anyhow::Result;
use bloom_clock::{BloomClock, ClockParams, Identity, TickKey};

use super::estimate::Estimate;
use super::execution::{EventKind, Execution, Plan};
use super::ground_truth::GroundTruth;
use super::parallel;
use super::replay::replay;
use super::slice::{PairCounts, Slice};
use super::topology::Topology;
use jeton_testkit::Rng;

/// A kind of execution, and the slice of it that is compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Setup {
    pub(crate) topology: Topology,
    pub(crate) processes: usize,
    pub(crate) slice: Slice,
    /// Percentage of turns without a pending message that are internal events.
    pub(crate) internal: u32,
}

impl Setup {
    pub(crate) fn name(&self) -> String {
        format!("{}-{}-{}-{}", self.topology.name(), self.processes, self.slice.name(), self.internal)
    }
}

/// A variant of the Bloom clock.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct ClockVariant {
    /// Whether each event has its own name, or that of its process.
    pub(crate) by_event: bool,
    pub(crate) counters: usize,
    pub(crate) hashes: u32,
}

impl ClockVariant {
    pub(crate) fn key(&self) -> &'static str {
        if self.by_event { "event" } else { "process" }
    }

    pub(crate) fn params(&self) -> Result<ClockParams> {
        let key = if self.by_event { TickKey::Event } else { TickKey::Process };
        Ok(ClockParams::new(self.counters)?.hashes(self.hashes)?.key(key))
    }
}

/// Estimates are computed for clocks with at most this many counters per event; clocks with more have no use
/// in practice.
const HASHES_ESTIMATED: u32 = 2;

/// Sizes of the samples.
#[derive(Debug, Clone, Copy)]
pub(crate) struct SampleSizes {
    /// Events of a slice that are compared with each other.
    pub(crate) sampled: usize,
    /// Events for which estimates are computed, which take far longer.
    pub(crate) estimated: usize,
}

/// The result of one clock on an execution.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Verdict {
    pub(crate) kind: ClockVariant,
    pub(crate) tally: PairCounts,
    /// Only for clocks with few hashes.
    pub(crate) estimate: Option<Estimate>,
}

/// Executions of one setup and their results.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Trial {
    pub(crate) setup: Setup,
    /// Number of executions.
    pub(crate) runs: u32,
    /// Events that were internal, sent and received.
    pub(crate) events: [u64; 3],
    /// Number of events in each execution.
    pub(crate) sampled: usize,
    pub(crate) verdicts: Vec<Verdict>,
}

impl Trial {
    /// Relative cost of a clock.
    pub(crate) fn cost(setup: &Setup, kind: &ClockVariant) -> usize {
        10 + setup.slice.range(setup.processes).end * (kind.counters + 64) / 5_000_000
    }

    /// All runs of a setup. Calls `step` with the cost of the finished work; the sum is the cost of all
    /// variants times the runs.
    pub(crate) fn run(
        setup: Setup,
        runs: u32,
        kinds: &[ClockVariant],
        effort: SampleSizes,
        seed: u64,
        mut step: impl FnMut(usize),
    ) -> Result<Self> {
        let fresh = |kind: &ClockVariant| {
            let estimate = (kind.hashes <= HASHES_ESTIMATED).then(Estimate::default);
            Verdict { kind: *kind, tally: PairCounts::default(), estimate }
        };
        let verdicts = kinds.iter().map(fresh).collect();
        let mut trial = Self { setup, runs, events: [0; 3], sampled: 0, verdicts };
        for run in 0..runs {
            trial.add(&TrialSeed { setup, run, seed }, kinds, effort, &mut step)?;
        }
        Ok(trial)
    }

    /// Adds a run.
    fn add(
        &mut self,
        lot: &TrialSeed,
        kinds: &[ClockVariant],
        effort: SampleSizes,
        step: &mut impl FnMut(usize),
    ) -> Result<()> {
        let setup = lot.setup;
        let execution = lot.play();
        let sampled = setup.slice.sample(setup.processes, effort.sampled);
        let truth = GroundTruth::of(&execution, &sampled);
        let judge = |kind: &ClockVariant| -> Result<(PairCounts, Option<Estimate>)> {
            let mut stamps = Vec::with_capacity(sampled.len());
            replay(&execution, lot.clocks(kind)?, |at, _, stamp| {
                if sampled.get(stamps.len()) == Some(&at) {
                    stamps.push(stamp.clone());
                }
            });
            let tally = PairCounts::of(&stamps, &sampled, setup.processes, &truth)?;
            let estimated = kind.hashes <= HASHES_ESTIMATED;
            Ok((tally, estimated.then(|| Estimate::of(&stamps, &truth, effort.estimated))))
        };
        let judged = parallel::map(kinds, judge, |kind| step(Self::cost(&setup, kind)));
        for (verdict, judged) in self.verdicts.iter_mut().zip(judged) {
            let (tally, estimate) = judged?;
            verdict.tally.add(&tally);
            if let (Some(all), Some(more)) = (&mut verdict.estimate, &estimate) {
                all.add(more);
            }
        }
        for event in &execution.events {
            self.events[match event.what {
                EventKind::Internal => 0,
                EventKind::Send(_) => 1,
                EventKind::Receive(_) => 2,
            }] += 1;
        }
        self.sampled = sampled.len();
        Ok(())
    }

    /// The result of one clock.
    pub(crate) fn verdict(&self, by_event: bool, counters: usize, hashes: u32) -> Option<&Verdict> {
        let kind = ClockVariant { by_event, counters, hashes };
        self.verdicts.iter().find(|verdict| verdict.kind == kind)
    }
}

/// One run of a setup: everything that is random in it.
pub(crate) struct TrialSeed {
    pub(crate) setup: Setup,
    pub(crate) run: u32,
    pub(crate) seed: u64,
}

impl TrialSeed {
    /// Each run of each setup has its own random numbers, so leaving one out changes no other.
    fn rng(&self, what: &str) -> Rng {
        Rng::named(self.seed, &format!("{} {} {what}", self.setup.name(), self.run))
    }

    pub(crate) fn play(&self) -> Execution {
        let Setup { topology, processes, slice, internal } = self.setup;
        let plan = Plan { processes, topology, internal, events: slice.range(processes).end };
        plan.play(self.rng("execution"))
    }

    /// A clock for each process. Identities are random, because they decide which processes share a counter.
    pub(crate) fn clocks(&self, kind: &ClockVariant) -> Result<Vec<BloomClock>> {
        let params = kind.params()?;
        let first = self.rng("identities").below(1 << 60);
        let begin =
            |process| BloomClock::begin(params, Identity::from_number_never_used_before(first + process));
        Ok((0..self.setup.processes as u64).map(begin).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const EFFORT: SampleSizes = SampleSizes { sampled: 1000, estimated: 100 };

    fn trial(processes: usize, slice: Slice, internal: u32, kinds: &[ClockVariant], runs: u32) -> Trial {
        let setup = Setup { topology: Topology::Uniform, processes, slice, internal };
        Trial::run(setup, runs, kinds, EFFORT, 1, |_| {}).unwrap()
    }

    fn about(found: f64, expected: f64, share: f64, what: &str) {
        assert!((found / expected - 1.0).abs() < share, "{what}: {found}, not about {expected}");
    }

    /// Results of an independent simulation of the same model (other random numbers, other hashes, one run
    /// each).
    #[test]
    fn rates_match_an_independent_simulation() {
        let by_event = |hashes| ClockVariant { by_event: true, counters: 30, hashes };
        let kinds = [
            by_event(1),
            by_event(2),
            by_event(4),
            ClockVariant { by_event: false, counters: 30, hashes: 1 },
        ];
        for (slice, internal, causal, expected) in [
            // Precision, false-positive rate, and that of pairs in the order of time.
            (
                Slice::Square,
                0,
                0.37,
                &[[0.857, 0.100, 0.49], [0.851, 0.104, 0.51], [0.843, 0.111, 0.55], [0.918, 0.053, 0.26]][..],
            ),
            (
                Slice::Near,
                0,
                0.027,
                &[[0.223, 0.099, 0.20], [0.216, 0.103, 0.21], [0.200, 0.114, 0.23], [0.551, 0.023, 0.05]],
            ),
            (Slice::Square, 90, 0.11, &[[0.397, 0.192, 0.43]]),
        ] {
            let trial = trial(100, slice, internal, &kinds, 5);
            about(trial.verdicts[0].tally.causal_share(), causal, 0.1, "causes");
            for (verdict, [precision, fpr, forward]) in trial.verdicts.iter().zip(expected) {
                let what = format!("{slice:?} {internal} {:?}", verdict.kind);
                about(verdict.tally.precision(), *precision, 0.2, &what);
                about(verdict.tally.fpr(), *fpr, 0.2, &what);
                about(verdict.tally.forward_fpr(), *forward, 0.2, &what);
            }
        }
    }

    /// From another simulation: with 100 counters and two per event the precision is 0.894, the estimate
    /// 0.372.
    #[test]
    fn estimates_match_an_independent_simulation() {
        let trial =
            trial(100, Slice::Square, 0, &[ClockVariant { by_event: true, counters: 100, hashes: 2 }], 3);
        let (estimated, there) = trial.verdicts[0].estimate.as_ref().unwrap().precision();
        about(there, 0.894, 0.05, "precision");
        about(estimated, 0.372, 0.15, "the estimate of it");
    }

    #[test]
    fn estimates_count_the_pairs_of_the_slice() {
        let kinds = [
            ClockVariant { by_event: true, counters: 10, hashes: 1 },
            ClockVariant { by_event: true, counters: 10, hashes: 3 },
        ];
        let mut cost = 0;
        let setup = Setup { topology: Topology::Uniform, processes: 20, slice: Slice::Near, internal: 10 };
        let effort = SampleSizes { sampled: 100, estimated: 100 };
        let trial = Trial::run(setup, 2, &kinds, effort, 9, |more| cost += more).unwrap();
        assert_eq!(cost, 2 * kinds.iter().map(|kind| Trial::cost(&setup, kind)).sum::<usize>());
        assert_eq!(trial.events.iter().sum::<u64>(), 2 * 400);
        let Verdict { tally, estimate, .. } = &trial.verdicts[0];
        let estimate = estimate.as_ref().unwrap();
        // All pairs were estimated, so the true values are those of the slice.
        assert_eq!((tally.pairs(), estimate.pairs), (2 * 9900, 2 * 9900));
        assert_eq!(estimate.positives().causes, tally.true_positives());
        assert_eq!(estimate.precision().1, tally.precision());
        assert!((estimate.accuracy().1 - tally.accuracy()).abs() < 1e-12);
        assert_eq!(estimate.fpr().1, tally.fpr());
        assert_eq!(trial.verdicts[1].estimate, None);
        let classes: u64 = tally.classes.iter().map(|class| class.pairs).sum();
        assert_eq!(classes, tally.backward);
    }
}
