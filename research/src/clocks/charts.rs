//! Trials as plots.

use super::estimate::CLASSES;
use super::slice::{ENDS, Slice};
use super::tables::TELLING;
use super::timing::Timing;
use super::topology::Topology;
use super::trial::Trial;
use super::variants::{SHARES, counters};
use super::wire::{COUNTERS, WireSizes};
use crate::chart::{Axis, Chart, Colour, Line, Marker, Panel, Series};

const COLOURS: [Colour; 7] = [
    Colour::Vermilion,
    Colour::Orange,
    Colour::Green,
    Colour::Sky,
    Colour::Blue,
    Colour::Grey,
    Colour::Black,
];

/// Minimum number of false positives for a point.
const FALSE_MIN: u64 = 10;

fn series(number: usize, label: impl Into<String>) -> Series {
    Series::new(label, COLOURS[number % COLOURS.len()], Line::Solid, Marker::Disc)
}

fn sizes() -> Axis {
    Axis::log("Counters for each process", 0.02, 4.5).with_ticks(&[0.03, 0.1, 0.3, 1.0, 3.0])
}

/// The false positives of one trial by counters per process, where there are enough of them.
fn by_size(trial: &Trial, by_event: bool) -> Vec<(f64, f64)> {
    let mut points = Vec::new();
    for share in SHARES {
        let size = counters(share, trial.setup.processes);
        let verdict = trial.verdict(by_event, size, 1);
        if let Some(tally) =
            verdict.map(|verdict| &verdict.tally).filter(|tally| tally.forward_false() >= FALSE_MIN)
        {
            points.push((share as f64 / 100.0, tally.forward_fpr()));
        }
    }
    points
}

fn plain(trials: &[Trial], slice: Slice) -> impl Iterator<Item = &Trial> {
    trials.iter().filter(move |trial| {
        trial.setup.topology == Topology::Uniform && trial.setup.internal == 0 && trial.setup.slice == slice
    })
}

/// False positives by the size of the clock and the number of processes.
pub(crate) fn sizes_of(trials: &[Trial]) -> Chart {
    let panel = |heading, slice, by_event| Panel {
        heading,
        y: Axis::log("Concurrent, reported possible", 1e-4, 1.0),
        series: plain(trials, slice)
            .enumerate()
            .map(|(number, trial)| {
                series(number, format!("{} processes", trial.setup.processes))
                    .with_points(by_size(trial, by_event))
            })
            .collect(),
        height: 170.0,
    };
    Chart {
        title: "The Bloom clock: false positives by size, one counter for each event",
        x: sizes(),
        panels: vec![
            panel(
                "Events named by their process; up to 10 events for each process apart",
                Slice::Near,
                false,
            ),
            panel("Each event with a name of its own, as published; the same events", Slice::Near, true),
            panel("Named by their process; up to 100 events for each process apart", Slice::Mid, false),
            panel("Each with a name of its own; the same events", Slice::Mid, true),
        ],
    }
}

/// False positives by the distance between two events.
pub(crate) fn distances(trials: &[Trial]) -> Chart {
    let trial = plain(trials, Slice::Mid).find(|trial| trial.setup.processes == 1000);
    let middle = |class: usize| {
        let from = class.checked_sub(1).map_or(0.0, |before| ENDS[before]);
        f64::midpoint(from, ENDS[class])
    };
    let causes = trial.and_then(|trial| trial.verdicts.first()).map(|verdict| {
        let classes = verdict.tally.classes.iter().enumerate().filter(|(_, class)| class.pairs > 0);
        classes.map(|(number, class)| (middle(number), class.causal_share())).collect::<Vec<_>>()
    });
    let panel = |heading, by_event| Panel {
        heading,
        y: Axis::linear("Concurrent, reported possible", 0.0, 1.0),
        series: SHARES
            .into_iter()
            .enumerate()
            .filter_map(|(number, share)| {
                let trial = trial?;
                let verdict = trial.verdict(by_event, counters(share, trial.setup.processes), 1)?;
                let classes = verdict.tally.classes.iter().enumerate();
                let telling = classes.filter(|(_, class)| class.pairs - class.causes >= TELLING);
                let points = telling.map(|(number, class)| (middle(number), class.fpr()));
                Some(
                    series(number, format!("{} counters for a process", share as f64 / 100.0))
                        .with_points(points),
                )
            })
            .collect(),
        height: 190.0,
    };
    Chart {
        title: "The Bloom clock: false positives by distance, 1,000 processes",
        x: Axis::linear("Events between the two, for each process", 0.0, 30.0),
        panels: vec![
            Panel {
                heading: "Share of pairs that are cause and effect",
                y: Axis::linear("Share of pairs", 0.0, 1.0),
                series: vec![
                    Series::new("Causes", Colour::Black, Line::Solid, Marker::Disc)
                        .with_points(causes.unwrap_or_default()),
                ],
                height: 110.0,
            },
            panel("Events named by their process, one counter for each", false),
            panel("Each event with a name of its own, one counter for each", true),
        ],
    }
}

/// False positives by the share of causal pairs, which makes different numbers of processes comparable.
pub(crate) fn shares(trials: &[Trial]) -> Chart {
    let panel = |heading, share, by_event| Panel {
        heading,
        y: Axis::linear("Concurrent, reported possible", 0.0, 1.0),
        series: plain(trials, Slice::Mid)
            .enumerate()
            .filter_map(|(number, trial)| {
                let verdict = trial.verdict(by_event, counters(share, trial.setup.processes), 1)?;
                let telling =
                    verdict.tally.classes.iter().filter(|class| class.pairs - class.causes >= TELLING);
                let points = telling.map(|class| (class.causal_share(), class.fpr()));
                Some(series(number, format!("{} processes", trial.setup.processes)).with_points(points))
            })
            .collect(),
        height: 150.0,
    };
    Chart {
        title: "The Bloom clock: quality by counters for each process",
        x: Axis::linear("Share of pairs at a distance that are cause and effect", 0.0, 1.0),
        panels: vec![
            panel("0.1 counters for each process, events named by their process", 10, false),
            panel("0.3 counters for each process, events named by their process", 30, false),
            panel("0.3 counters for each process, each event with a name of its own", 30, true),
            panel("A counter for each process, each event with a name of its own", 100, true),
        ],
    }
}

/// False positives by the number of counters that an event increments.
pub(crate) fn hashes(trials: &[Trial]) -> Chart {
    let panel = |heading, slice, by_event| Panel {
        heading,
        y: Axis::log("Concurrent, reported possible", 1e-4, 1.0),
        series: SHARES
            .into_iter()
            .enumerate()
            .filter_map(|(number, share)| {
                let trial = plain(trials, slice).find(|trial| trial.setup.processes == 1000)?;
                let points = (1..=4).filter_map(|hashes| {
                    let verdict = trial.verdict(by_event, counters(share, 1000), hashes)?;
                    let enough = verdict.tally.forward_false() >= FALSE_MIN;
                    enough.then(|| (f64::from(hashes), verdict.tally.forward_fpr()))
                });
                Some(series(number, format!("{} counters", counters(share, 1000))).with_points(points))
            })
            .collect(),
        height: 150.0,
    };
    Chart {
        title: "The Bloom clock: more counters for each event, 1,000 processes",
        x: Axis::linear("Counters that an event increments", 0.8, 4.2).with_ticks(&[1.0, 2.0, 3.0, 4.0]),
        panels: vec![
            panel(
                "Each event with a name of its own; up to 10 events for each process apart",
                Slice::Near,
                true,
            ),
            panel(
                "Each event with a name of its own; up to 100 events for each process apart",
                Slice::Mid,
                true,
            ),
            panel(
                "Events named by their process; up to 10 events for each process apart",
                Slice::Near,
                false,
            ),
            panel(
                "Events named by their process; up to 100 events for each process apart",
                Slice::Mid,
                false,
            ),
        ],
    }
}

/// False positives by topology and by the share of internal events.
pub(crate) fn topologies(trials: &[Trial]) -> Chart {
    let others = trials
        .iter()
        .filter(|trial| trial.setup.slice == Slice::Mid && trial.setup.topology != Topology::Uniform);
    let processes = others.map(|trial| trial.setup.processes).max();
    let panel = |heading, by_event| Panel {
        heading,
        y: Axis::log("Concurrent, reported possible", 1e-4, 1.0),
        series: trials
            .iter()
            .filter(|trial| Some(trial.setup.processes) == processes && trial.setup.slice == Slice::Mid)
            .enumerate()
            .map(|(number, trial)| {
                let internal = match trial.setup.internal {
                    0 => String::new(),
                    percent => format!(", {percent} % internal"),
                };
                let label = format!("{}{internal}", trial.setup.topology.name());
                series(number, label).with_points(by_size(trial, by_event))
            })
            .collect(),
        height: 210.0,
    };
    Chart {
        title: "The Bloom clock: false positives by topology",
        x: sizes(),
        panels: vec![
            panel("Events named by their process; up to 100 events for each process apart", false),
            panel("Each event with a name of its own; the same events", true),
        ],
    }
}

/// Estimated against true precision.
pub(crate) fn calibration(trials: &[Trial]) -> Chart {
    let panel = |heading, by_event| {
        let diagonal = Series::new("If it were calibrated", Colour::Grey, Line::Dotted, Marker::None);
        let mut all = vec![diagonal.with_points([(0.0, 0.0), (1.0, 1.0)])];
        let wanted = |trial: &&Trial| matches!(trial.setup.processes, 100 | 1000);
        let mut number = 0;
        for slice in [Slice::Near, Slice::Mid] {
            for trial in plain(trials, slice).filter(wanted) {
                let size = counters(30, trial.setup.processes);
                let verdict = trial.verdict(by_event, size, 1);
                let Some(estimate) = verdict.and_then(|verdict| verdict.estimate.as_ref()) else { continue };
                let classes = estimate.classes.iter().enumerate().filter(|(_, class)| class.pairs >= 20);
                let points = classes.map(|(index, class)| {
                    ((index as f64 + 0.5) / CLASSES as f64, class.causes as f64 / class.pairs as f64)
                });
                let label =
                    format!("{} processes, {size} counters,\n{} slice", trial.setup.processes, slice.name());
                all.push(series(number, label).with_points(points));
                number += 1;
            }
        }
        Panel { heading, y: Axis::linear("Share that are causes", 0.0, 1.0), series: all, height: 250.0 }
    };
    Chart {
        title: "The estimate of the paper and the true precision",
        x: Axis::linear("Estimated probability (pr_p) of pairs that are reported as possible", 0.0, 1.0),
        panels: vec![
            panel("Each event with a name of its own, one counter for each", true),
            panel("Events named by their process, one counter for each", false),
        ],
    }
}

/// Bytes of a stamp by the number of processes.
pub(crate) fn bytes(wires: &[WireSizes]) -> Chart {
    let clocks = || std::iter::once(None).chain(COUNTERS.map(Some));
    let panel = |heading, of: fn(&WireSizes) -> f64| Panel {
        heading,
        y: Axis::log("Bytes", 1.0, 100_000.0),
        series: clocks()
            .enumerate()
            .map(|(number, counters)| {
                let label = counters
                    .map_or("Vector clock".into(), |counters| format!("Bloom clock, {counters} counters"));
                let points = wires
                    .iter()
                    .filter(|wire| wire.topology == Topology::Uniform && wire.counters == counters)
                    .map(|wire| (wire.processes as f64, of(wire)));
                series(number, label).with_points(points)
            })
            .collect(),
        height: 230.0,
    };
    Chart {
        title: "Bytes of a stamp on the wire",
        x: Axis::log("Processes", 8.0, 6000.0).with_ticks(&[10.0, 32.0, 64.0, 100.0, 300.0, 1000.0, 5000.0]),
        panels: vec![
            panel("A stamp for itself", |wire| wire.whole),
            panel(
                "A stamp in a session: increments since the last one; one stamp of 64 in full",
                WireSizes::session,
            ),
        ],
    }
}

/// Time per operation.
pub(crate) fn times(timings: &[Timing]) -> Chart {
    let panel = |heading, operations: &[&'static str]| {
        let mut all = Vec::new();
        for operation in operations {
            for bloom in [true, false] {
                let points: Vec<(f64, f64)> = timings
                    .iter()
                    .filter(|timing| timing.operation == *operation && timing.bloom == bloom)
                    .map(|timing| (timing.size as f64, timing.median))
                    .collect();
                if !points.is_empty() {
                    let label =
                        format!("{}:\n{operation}", if bloom { "Bloom clock" } else { "Vector clock" });
                    all.push(series(all.len(), label).with_points(points));
                }
            }
        }
        Panel { heading, y: Axis::log("Nanoseconds", 0.1, 1e5), series: all, height: 200.0 }
    };
    Chart {
        title: "Time for each operation, measured on one machine",
        x: Axis::log("Counters of the Bloom clock, processes of the vector clock", 10.0, 6000.0)
            .with_ticks(&[16.0, 64.0, 256.0, 1000.0, 5000.0]),
        panels: vec![
            panel("Events", &["tick", "receive"]),
            panel("Comparison that reads every number", &["compare"]),
            panel("Encoding", &["write whole", "tick and write in a session"]),
        ],
    }
}
