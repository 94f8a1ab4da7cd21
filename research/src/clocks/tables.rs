//! Trials as tables.

use super::estimate::CLASSES;
use super::slice::{Class, ENDS};
use super::timing::Timing;
use super::trial::{ClockVariant, Setup, Trial, Verdict};
use super::wire::WireSizes;
use crate::csv::{Cell, Table};

/// Columns that identify the execution and the clock of a row.
const WHICH: [&str; 8] = [
    "topology",
    "processes",
    "internal_percent",
    "slice",
    "tick_key",
    "counters",
    "counters_per_process",
    "hashes",
];

fn which(setup: &Setup, kind: &ClockVariant) -> Vec<Cell> {
    vec![
        Cell::Text(setup.topology.name()),
        Cell::Count(setup.processes as u64),
        Cell::Count(setup.internal.into()),
        Cell::Text(setup.slice.name()),
        Cell::Text(kind.key()),
        Cell::Count(kind.counters as u64),
        Cell::Number(kind.counters as f64 / setup.processes as f64, 4),
        Cell::Count(kind.hashes.into()),
    ]
}

fn table(more: &[&'static str]) -> Table {
    Table::new(&[&WHICH, more].concat())
}

fn share(share: f64) -> Cell {
    Cell::Number(share, 6)
}

/// The quality of each clock, and the estimates.
pub(crate) fn accuracy(trials: &[Trial]) -> Table {
    let mut table = table(&[
        "runs",
        "events_internal",
        "events_sent",
        "events_received",
        "events_sampled_per_run",
        "ordered_pairs",
        "causal_share",
        "true_positives",
        "false_positives",
        "false_negatives",
        "accuracy",
        "precision",
        "recall",
        "fpr",
        "forward_fpr",
        "equal_stamps",
        "estimated_pairs",
        "precision_estimated",
        "precision_of_these",
        "accuracy_estimated",
        "accuracy_of_these",
        "fpr_estimated",
        "fpr_of_these",
    ]);
    for trial in trials {
        for Verdict { kind, tally, estimate } in &trial.verdicts {
            let mut row = which(&trial.setup, kind);
            row.push(Cell::Count(trial.runs.into()));
            row.extend(trial.events.map(Cell::Count));
            row.extend([
                Cell::Count(trial.sampled as u64),
                Cell::Count(tally.pairs()),
                share(tally.causal_share()),
                Cell::Count(tally.true_positives()),
                Cell::Count(tally.false_positives()),
                // A denied cause has stopped the run before.
                Cell::Count(0),
                share(tally.accuracy()),
                share(tally.precision()),
                share(1.0),
                share(tally.fpr()),
                share(tally.forward_fpr()),
                Cell::Count(tally.equal),
            ]);
            match estimate {
                Some(estimate) => {
                    row.push(Cell::Count(estimate.pairs));
                    // Logarithms can differ in their last bits between machines; four digits hide this.
                    for (estimated, there) in [estimate.precision(), estimate.accuracy(), estimate.fpr()] {
                        row.extend([Cell::Number(estimated, 4), Cell::Number(there, 4)]);
                    }
                }
                None => row.extend(std::iter::repeat_n(Cell::Empty, 7)),
            }
            table.push(row);
        }
    }
    table
}

/// The same by the distance between the events, for pairs in the order of time.
pub(crate) fn distances(trials: &[Trial]) -> Table {
    let mut table = table(&[
        "events_per_process_from",
        "events_per_process_to",
        "pairs",
        "causal_share",
        "false_positives",
        "forward_fpr",
    ]);
    for trial in trials {
        for Verdict { kind, tally, .. } in trial.verdicts.iter().filter(|verdict| verdict.kind.hashes <= 2) {
            let mut from = 0.0;
            for (class, to) in tally.classes.iter().zip(ENDS) {
                if class.pairs > 0 {
                    let mut row = which(&trial.setup, kind);
                    row.extend([
                        Cell::Number(from, 2),
                        if to.is_finite() { Cell::Number(to, 2) } else { Cell::Empty },
                        Cell::Count(class.pairs),
                        share(class.causal_share()),
                        Cell::Count(class.false_positives),
                        share(class.fpr()),
                    ]);
                    table.push(row);
                }
                from = to;
            }
        }
    }
    table
}

/// The share of causal pairs for each class of estimated probability.
pub(crate) fn calibration(trials: &[Trial]) -> Table {
    let mut table = table(&["pr_p_from", "pr_p_to", "reported_possible", "causes", "share_of_causes"]);
    for trial in trials {
        for Verdict { kind, estimate, .. } in &trial.verdicts {
            for (number, class) in estimate.iter().flat_map(|estimate| estimate.classes.iter().enumerate()) {
                if class.pairs == 0 {
                    continue;
                }
                let mut row = which(&trial.setup, kind);
                row.extend([
                    Cell::Number(number as f64 / CLASSES as f64, 1),
                    Cell::Number((number + 1) as f64 / CLASSES as f64, 1),
                    Cell::Count(class.pairs),
                    Cell::Count(class.causes),
                    share(class.causes as f64 / class.pairs as f64),
                ]);
                table.push(row);
            }
        }
    }
    table
}

/// Clocks for different numbers of processes are compared at this share of causal pairs.
pub(crate) const MATCHED: f64 = 0.27;

/// The false-positive rate at the distance at which this share of pairs is causal.
pub(crate) fn matched(trials: &[Trial]) -> Table {
    let mut table = table(&["causal_share", "forward_fpr"]);
    for trial in trials {
        for Verdict { kind, tally, .. } in &trial.verdicts {
            if let Some(fpr) = at_share(&tally.classes, MATCHED) {
                let mut row = which(&trial.setup, kind);
                row.extend([Cell::Number(MATCHED, 2), share(fpr)]);
                table.push(row);
            }
        }
    }
    table
}

/// Minimum number of pairs that are not causal in a class.
pub(crate) const TELLING: u64 = 100;

/// Interpolates between the first two classes around this share of causal pairs.
pub(crate) fn at_share(classes: &[Class], wanted: f64) -> Option<f64> {
    let telling: Vec<&Class> = classes.iter().filter(|class| class.pairs - class.causes >= TELLING).collect();
    let pairs = telling.windows(2).map(|pair| (pair[0], pair[1]));
    let mut around =
        pairs.filter(|(below, above)| (below.causal_share()..=above.causal_share()).contains(&wanted));
    around.next().map(|(below, above)| {
        let width = above.causal_share() - below.causal_share();
        let place = if width > 0.0 { (wanted - below.causal_share()) / width } else { 0.0 };
        below.fpr() + place * (above.fpr() - below.fpr())
    })
}

/// Bytes on the wire.
pub(crate) fn bytes(wires: &[WireSizes]) -> Table {
    let mut table = Table::new(&[
        "topology",
        "processes",
        "clock",
        "counters",
        "stamps",
        "bytes_plain",
        "bytes_whole",
        "bytes_difference",
        "bytes_session",
    ]);
    for wire in wires {
        table.push(vec![
            Cell::Text(wire.topology.name()),
            Cell::Count(wire.processes as u64),
            Cell::Text(if wire.counters.is_some() { "bloom" } else { "vector" }),
            wire.counters.map_or(Cell::Empty, |counters| Cell::Count(counters as u64)),
            Cell::Count(wire.stamps),
            Cell::Count(wire.plain),
            Cell::Number(wire.whole, 2),
            Cell::Number(wire.difference, 2),
            Cell::Number(wire.session(), 2),
        ]);
    }
    table
}

/// Times, which depend on the machine.
pub(crate) fn times(timings: &[Timing]) -> Table {
    let mut table = Table::new(&[
        "clock",
        "counters_or_processes",
        "operation",
        "measured_here_ns_median",
        "measured_here_ns_fastest",
    ]);
    for timing in timings {
        table.push(vec![
            Cell::Text(if timing.bloom { "bloom" } else { "vector" }),
            Cell::Count(timing.size as u64),
            Cell::Text(timing.operation),
            Cell::Number(timing.median, 1),
            Cell::Number(timing.fastest, 1),
        ]);
    }
    table
}

#[cfg(test)]
mod tests {
    use super::super::slice::Slice;
    use super::super::sweep::{Cell as Sought, Sweep};
    use super::super::topology::Topology;
    use super::super::trial::SampleSizes;
    use super::super::trial_log::checksum;
    use super::super::wire;
    use super::*;
    use crate::progress::{Meter, Silent};

    /// If this changes, old logs must be rejected and the documentation updated.
    const GOLDEN: u64 = 8_423_076_402_866_490_930;

    fn tables_of(seed: u64) -> [String; 4] {
        let cells = [
            Sought { setup: setup(Topology::Uniform, 30, 20), runs: 2 },
            Sought { setup: setup(Topology::ClientServer, 20, 0), runs: 1 },
        ];
        let effort = SampleSizes { sampled: 150, estimated: 40 };
        let sweep = Sweep { cells: &cells, effort, fixed: true, seed };
        let trials = sweep.run(None, &mut Meter::new(&mut Silent)).unwrap();
        let wires = wire::measure(&[(Topology::Community, 20)], seed, || {}).unwrap();
        [accuracy(&trials), distances(&trials), calibration(&trials), bytes(&wires)]
            .map(|table| table.render())
    }

    fn setup(topology: Topology, processes: usize, internal: u32) -> Setup {
        Setup { topology, processes, slice: Slice::Mid, internal }
    }

    #[test]
    fn a_seed_gives_the_same_tables() {
        let [first, again, other] = [1, 1, 2].map(tables_of);
        assert_eq!(first, again);
        for (first, other) in first.iter().zip(&other) {
            assert_ne!(first, other);
        }
        for table in &first {
            let columns = table.lines().next().unwrap().split(',').count();
            assert!(
                table.lines().count() > 1 && table.lines().all(|line| line.split(',').count() == columns)
            );
            assert!(!table.contains("NaN") && !table.contains("inf"), "{table}");
        }
        assert!(
            first[0].lines().skip(1).all(|line| line.contains(",1.000000,")),
            "recall is one in every row"
        );
        // The table with counts only: logarithms can differ between machines.
        assert_eq!(checksum(first[1].as_bytes()), GOLDEN);
    }

    #[test]
    fn rates_are_interpolated_between_two_classes() {
        let class = |causes, false_positives| Class { pairs: 1000, causes, false_positives };
        let classes = [class(0, 0), class(200, 80), class(400, 120), class(900, 90), class(999, 1)];
        assert_eq!(at_share(&classes, 0.2), Some(0.1));
        assert!((at_share(&classes, 0.3).unwrap() - 0.15).abs() < 1e-12);
        assert_eq!(at_share(&classes, 0.95), None, "the last class has one pair that is not a cause");
    }
}
