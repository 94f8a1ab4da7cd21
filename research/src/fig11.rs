//! Fig. 11: the false-positive rate over the insertion rate, for four refresh periods.

use crate::paper_filter::{Check, Estimate};
use anyhow::Result;

use crate::chart::{Axis, Chart, Colour, Line, Marker, Panel, Series};
use crate::csv::{Cell, Table};
use crate::measure::{Measured, RUNS, key, probe, probes_for};
use crate::outcome::{Finding, Outcome};
use crate::progress::Meter;
use crate::schedule::{Bursts, basic};

pub(crate) const TITLE: &str = "Fig. 11: a shorter refresh period";

const IDS: u64 = 5000;
const BITS: usize = 25_000;

/// The batches of the prototype, and 200, which gives the 100 ids/s of the text.
const BATCHES: [u64; 7] = [100, 200, 250, 500, 750, 900, 1000];

/// Periods in seconds, with the colours of their lines.
const PERIODS: [(u64, Colour); 4] =
    [(5, Colour::Vermilion), (3, Colour::Orange), (2, Colour::Green), (1, Colour::Blue)];

struct Point {
    period_s: u64,
    schedule: Bursts,
    equation3: f64,
    from_bits: f64,
    measured: Measured,
}

pub(crate) fn run(meter: &mut Meter<'_>) -> Result<Outcome> {
    meter.expect(PERIODS.len() * BATCHES.len());
    let mut points = Vec::new();
    for (period_s, _) in PERIODS {
        for batch in BATCHES {
            points.push(measure(period_s, batch)?);
            meter.step();
        }
    }
    Ok(Outcome::new(table(&points), chart(&points), finding(&points)))
}

fn measure(period_s: u64, batch: u64) -> Result<Point> {
    let schedule = Bursts { ids: IDS, batch };
    let mut point =
        Point { period_s, schedule, equation3: 0.0, from_bits: 0.0, measured: Measured::default() };
    for run in 0..RUNS {
        let filter = schedule.play(basic(BITS, period_s), &key(run))?;
        point.equation3 = filter.expected_fpr(Estimate::Equation3);
        point.from_bits += filter.expected_fpr(Estimate::ExactFromFill) / f64::from(RUNS);
        let probes = probes_for(point.equation3) / u64::from(RUNS);
        let [measured] = probe(&key(run), probes, |id| [filter.contains(id, Check::Text)]);
        point.measured += measured;
    }
    Ok(point)
}

fn table(points: &[Point]) -> Table {
    let mut table = Table::new(&[
        "refresh_period_s",
        "promised_retention_s",
        "ids_per_second",
        "fpr_eq3_predicted",
        "fpr_from_bits_set",
        "fpr_measured",
        "fpr_measured_95_low",
        "fpr_measured_95_high",
        "positives",
        "probes",
    ]);
    for point in points {
        let (low, high) = point.measured.interval();
        table.push(vec![
            Cell::Count(point.period_s),
            Cell::Count(2 * point.period_s),
            Cell::Number(point.schedule.ids_per_second(), 1),
            Cell::Rate(point.equation3),
            Cell::Rate(point.from_bits),
            Cell::Rate(point.measured.fpr()),
            Cell::Rate(low),
            Cell::Rate(high),
            Cell::Count(point.measured.positives),
            Cell::Count(point.measured.probes),
        ]);
    }
    table
}

fn chart(points: &[Point]) -> Chart {
    let mut series = Vec::new();
    for (period_s, colour) in PERIODS {
        let of_period = || points.iter().filter(move |point| point.period_s == period_s);
        let rate = |point: &Point| point.schedule.ids_per_second();
        let retention = 2 * period_s;
        series.push(
            Series::new(format!("t = {period_s} s, Eq. (3)"), colour, Line::Dashed, Marker::None)
                .with_points(of_period().map(|point| (rate(point), point.equation3))),
        );
        let label = format!("t = {period_s} s, measured\n(remembers {retention} s)");
        let mut measured = Series::new(label, colour, Line::None, Marker::Disc).with_points(
            of_period().filter_map(|point| Some((rate(point), point.measured.fpr_if_precise()?))),
        );
        measured.bars = of_period()
            .filter(|point| point.measured.fpr_if_precise().is_some())
            .map(|point| (rate(point), point.measured.interval().0, point.measured.interval().1))
            .collect();
        series.push(measured);
    }
    Chart {
        title: TITLE,
        x: Axis::log("Ids inserted per second (5000 ids in bursts every 2 s)", 45.0, 560.0)
            .with_ticks(&[50.0, 100.0, 200.0, 300.0, 400.0, 500.0]),
        panels: vec![Panel {
            heading: "",
            y: Axis::log("False-positive rate", 1e-9, 1.0),
            series,
            height: 420.0,
        }],
    }
}

/// The point for 100 ids per second.
fn at_100(points: &[Point], period_s: u64) -> Option<&Point> {
    points.iter().find(|point| point.period_s == period_s && point.schedule.batch == 200)
}

fn finding(points: &[Point]) -> Finding {
    let ratio = |of: fn(&Point) -> f64| match (at_100(points, 5), at_100(points, 1)) {
        (Some(slow), Some(fast)) => of(slow) / of(fast),
        _ => f64::NAN,
    };
    Finding {
        paper_says: "at 100 operations per second the rate with a period of 5 s is 1000 times that with 1 s \
                     (Sec. VI-C)"
            .into(),
        we_measure: format!(
            "{:.0} times by Eq. (3), {:.0} times from the bits actually set",
            ratio(|point| point.equation3),
            ratio(|point| point.from_bits)
        ),
        why_they_differ: "they agree, but the two filters do not do the same work: one promises to remember an id \
                          for 10 s, the other for 2 s; and the rates are those of single bursts of a whole two \
                          seconds' ids, not of a growing load"
            .into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_ratio_of_1000_is_reproduced() {
        let points = [measure(5, 200).unwrap(), measure(1, 200).unwrap()];
        let ratio = points[0].equation3 / points[1].equation3;
        assert!((ratio - 1056.0).abs() < 1.0, "{ratio}");
        let (low, high) = points[0].measured.interval();
        assert!(low * 0.95 < points[0].equation3 && points[0].equation3 < high * 1.05);
    }

    #[test]
    fn eq3_equals_the_authors_values() {
        // Prototype, `refreshRate2015-05-14`: period, batch, Eq. (3).
        for (period_s, batch, authors) in [
            (5, 100, 7.8073e-6),
            (3, 100, 6.72833e-7),
            (2, 100, 9.57304e-8),
            (1, 100, 6.08838e-9),
            (5, 500, 9.44959e-3),
            (5, 750, 2.31105e-2),
            (3, 900, 1.26656e-2),
            (2, 1000, 4.10466e-3),
        ] {
            let filter = Bursts { ids: IDS, batch }.play(basic(BITS, period_s), &key(0)).unwrap();
            let ours = filter.expected_fpr(Estimate::Equation3);
            assert!((ours / authors - 1.0).abs() < 5e-6, "t {period_s}, batch {batch}: {ours} {authors}");
        }
    }
}
