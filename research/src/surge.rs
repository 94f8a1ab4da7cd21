//! The production filter against Algorithm 3 when the load grows tenfold, then falls to a twentieth.

use std::collections::VecDeque;
use std::time::Duration;

use crate::paper_filter::Thresholds;
use anyhow::Result;
use forgetful_filter::Fingerprint;

use crate::chart::{Axis, Chart, Colour, Line, Marker, Panel, Series};
use crate::compared_filters::{ComparedFilter, FILTERS_MAX, TARGET, WINDOW};
use crate::csv::{Cell, Table};
use crate::measure::{Measured, inserted, key, probe};
use crate::outcome::{Finding, Outcome};
use crate::progress::Meter;

pub(crate) const TITLE: &str = "A tenfold surge: the production filter against Algorithm 3";

/// Ids per second until this second.
const PHASES: [(u64, u64); 3] = [(200, 100), (400, 1000), (600, 50)];
const END_S: u64 = 600;

/// After two windows every filter has its steady fill: a fair time to start Algorithm 3.
const WARM: Duration = Duration::from_secs(120);
/// Seconds between two samples. Ids lost by growing are soon too old to count as lost.
const SAMPLE_EVERY_S: u64 = 2;

/// Probes of a sample; fewer if thousands of filters make them slow.
const PROBES_MAX: u64 = 400_000;
const PROBED_FILTERS_MAX: u64 = 5_000_000;

/// Live ids looked up in a sample, evenly spread over their ages.
const LIVE_ASKED_MAX: usize = 6000;

struct Point {
    time_s: u64,
    measured: Measured,
    bytes: usize,
    parts: usize,
    /// Sampled ids that were inserted less than a window ago.
    live: usize,
    /// Those of them that were not found.
    lost: usize,
}

/// One filter over the whole trace.
struct Trace {
    name: &'static str,
    points: Vec<Point>,
}

pub(crate) fn run(meter: &mut Meter<'_>) -> Result<Outcome> {
    meter.expect(4 * (END_S / SAMPLE_EVERY_S) as usize);
    let mut traces = Vec::new();
    for (name, filter) in [
        ("production_filter", ComparedFilter::production(key(0))?),
        (
            "algorithm_3_published_thresholds",
            ComparedFilter::algorithm3(Thresholds::PUBLISHED, Duration::ZERO)?,
        ),
        (
            "algorithm_3_prototype_thresholds",
            ComparedFilter::algorithm3(Thresholds::PROTOTYPE, Duration::ZERO)?,
        ),
        // With the prototype's thresholds a warm start gives the same run.
        (
            "algorithm_3_published_thresholds_from_120_s",
            ComparedFilter::algorithm3(Thresholds::PUBLISHED, WARM)?,
        ),
    ] {
        traces.push(Trace { name, points: play(filter, END_S, SAMPLE_EVERY_S, meter)? });
    }
    Ok(Outcome::new(table(&traces), chart(&traces), finding(&traces)))
}

fn ids_per_second(second: u64) -> u64 {
    PHASES.iter().find(|(until, _)| second < *until).map_or(0, |(_, rate)| *rate)
}

fn play(
    mut filter: ComparedFilter,
    end_s: u64,
    sample_every_s: u64,
    meter: &mut Meter<'_>,
) -> Result<Vec<Point>> {
    let key = key(0);
    let mut live: VecDeque<(Duration, Fingerprint)> = VecDeque::new();
    let mut number = 0;
    let mut points = Vec::new();
    for second in 0..end_s {
        let rate = ids_per_second(second);
        for nth in 0..rate {
            let time = Duration::from_secs(second) + Duration::from_nanos(1_000_000_000 * nth / rate);
            let id = inserted(&key, number);
            filter.insert(id, time);
            live.push_back((time, id));
            number += 1;
        }
        let now = Duration::from_secs(second + 1);
        filter.tick(now)?;
        while live.front().is_some_and(|(time, _)| now - *time >= WINDOW) {
            live.pop_front();
        }
        if (second + 1) % sample_every_s == 0 {
            let probes = (PROBED_FILTERS_MAX / filter.parts() as u64).min(PROBES_MAX);
            let [measured] = probe(&key, probes, |id| [filter.contains(id)]);
            let sampled = live.iter().step_by(live.len() / LIVE_ASKED_MAX + 1);
            let results: Vec<bool> = sampled.map(|(_, id)| filter.contains(*id)).collect();
            points.push(Point {
                time_s: second + 1,
                measured,
                bytes: filter.bytes(),
                parts: filter.parts(),
                live: results.len(),
                lost: results.iter().filter(|found| !**found).count(),
            });
            meter.step();
        }
    }
    Ok(points)
}

fn table(traces: &[Trace]) -> Table {
    let mut table = Table::new(&[
        "filter",
        "time_s",
        "ids_per_second",
        "fpr_measured",
        "fpr_measured_95_low",
        "fpr_measured_95_high",
        "probes",
        "memory_bytes",
        "constituent_filters_or_segments",
        "ids_younger_than_60_s_looked_up",
        "of_those_not_found",
    ]);
    for trace in traces {
        for point in &trace.points {
            let (low, high) = point.measured.interval();
            table.push(vec![
                Cell::Text(trace.name),
                Cell::Count(point.time_s),
                Cell::Count(ids_per_second(point.time_s - 1)),
                Cell::Rate(point.measured.fpr()),
                Cell::Rate(low),
                Cell::Rate(high),
                Cell::Count(point.measured.probes),
                Cell::Count(point.bytes as u64),
                Cell::Count(point.parts as u64),
                Cell::Count(point.live as u64),
                Cell::Count(point.lost as u64),
            ]);
        }
    }
    table
}

fn chart(traces: &[Trace]) -> Chart {
    let styles = [
        ("Production filter", Colour::Blue, Line::Solid),
        ("Algorithm 3, published\nthresholds (0.9, 0.1)", Colour::Vermilion, Line::Solid),
        ("Algorithm 3, prototype's\nthresholds (0.6, 0.001)", Colour::Orange, Line::Dashed),
        ("Algorithm 3, switched on at\n120 s, with full filters", Colour::Black, Line::Dotted),
    ];
    let curves = |value: fn(&Point) -> f64| {
        let styled = traces.iter().zip(styles).map(|(trace, (label, colour, line))| {
            Series::new(label, colour, line, Marker::None)
                .with_points(trace.points.iter().map(|point| (point.time_s as f64, value(point))))
        });
        styled.collect::<Vec<_>>()
    };
    let mut rates = vec![
        Series::new("Target", Colour::Grey, Line::Dotted, Marker::None)
            .with_points([(0.0, TARGET), (END_S as f64, TARGET)]),
    ];
    rates.extend(curves(|point| point.measured.fpr()));
    let load = Series::new("Load", Colour::Black, Line::Steps, Marker::None)
        .with_points((0..=END_S).map(|second| (second as f64, ids_per_second(second.min(END_S - 1)) as f64)));
    Chart {
        title: TITLE,
        x: Axis::linear("Time (s)", 0.0, END_S as f64),
        panels: vec![
            Panel {
                heading: "",
                y: Axis::log("Ids per second", 10.0, 3000.0),
                series: vec![load],
                height: 90.0,
            },
            Panel {
                heading: "Measured false-positive rate",
                y: Axis::log("False-positive rate", 1e-5, 1.0),
                series: rates,
                height: 220.0,
            },
            Panel {
                heading: "Memory",
                y: Axis::log("Memory (kB)", 1.0, 1e4),
                series: curves(|point| point.bytes as f64 / 1000.0),
                height: 180.0,
            },
            Panel {
                heading: "Ids younger than 60 s that are not found",
                y: Axis::linear("Lost (%)", 0.0, 40.0),
                series: curves(|point| 100.0 * point.lost as f64 / point.live.max(1) as f64),
                height: 160.0,
            },
        ],
    }
}

fn finding(traces: &[Trace]) -> Finding {
    let results: Vec<String> = traces
        .iter()
        .map(|trace| {
            let most = |value: fn(&Point) -> f64| trace.points.iter().map(value).fold(0.0, f64::max);
            format!(
                "{}: rate at most {:.1e}, at most {:.0} kB, at worst {:.0} % of the live ids lost",
                trace.name.replace('_', " "),
                most(|point| point.measured.fpr()),
                most(|point| point.bytes as f64 / 1000.0),
                most(|point| 100.0 * point.lost as f64 / point.live.max(1) as f64)
            )
        })
        .collect();
    Finding {
        paper_says: "the filter adapts to the workload and bounds the false-positive rate (Sec. III-E, VI-C); no surge \
                     is shown"
            .into(),
        we_measure: format!("{} (100, then 1000, then 50 ids/s; window 60 s, target 1e-3)", results.join("; ")),
        why_they_differ: format!(
            "Algorithm 3 adds past filters, which do not help a future that is too full, and stretches the period while \
             it is idle; only our bound of {FILTERS_MAX} filters stops it. The production filter opens a segment of the \
             right size and keeps the old ones until their ids have expired"
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::progress::Silent;

    #[test]
    fn production_filter_loses_no_id_and_stays_below_the_target() {
        let points =
            play(ComparedFilter::production(key(0)).unwrap(), END_S, 10, &mut Meter::new(&mut Silent))
                .unwrap();
        for point in &points {
            assert_eq!(point.lost, 0, "at {} s", point.time_s);
            assert!(point.measured.interval().0 < TARGET, "at {} s: {:?}", point.time_s, point.measured);
        }
    }

    #[test]
    fn algorithm_3_grows_without_bound_after_a_warm_start() {
        for thresholds in [Thresholds::PUBLISHED, Thresholds::PROTOTYPE] {
            let filter = ComparedFilter::algorithm3(thresholds, WARM).unwrap();
            let points = play(filter, 220, 20, &mut Meter::new(&mut Silent)).unwrap();
            assert!(points.iter().any(|point| point.parts == FILTERS_MAX));
            assert!(points.iter().any(|point| point.measured.interval().0 > TARGET));
        }
    }

    #[test]
    fn algorithm_3_grows_without_bound_after_an_empty_start() {
        for thresholds in [Thresholds::PUBLISHED, Thresholds::PROTOTYPE] {
            let mut filter = ComparedFilter::algorithm3(thresholds, Duration::ZERO).unwrap();
            for number in 0..20_000 {
                let time = Duration::from_millis(10 * number);
                filter.insert(inserted(&key(0), number), time);
                if number % 100 == 99 {
                    filter.tick(time).unwrap();
                }
            }
            assert_eq!(filter.parts(), FILTERS_MAX);
        }
    }
}
