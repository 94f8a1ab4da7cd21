//! Prediction against measurement: the common part of Figs. 9 and 10.

use crate::paper_filter::{Check, Estimate, PaperFilter};
use anyhow::Result;

use crate::chart::{Axis, Chart, Colour, Line, Marker, Panel, Series};
use crate::csv::{Cell, Table};
use crate::measure::{Measured, RUNS, key, probe, probes_for};
use crate::outcome::{Finding, Outcome};
use crate::progress::Meter;

/// A point of the authors: x, Eq. (3), measured rate.
pub(crate) type AuthorsPoint = (u64, f64, f64);

/// One value of x, averaged over filters with different keys.
pub(crate) struct Point {
    pub(crate) x: u64,
    pub(crate) equation3: f64,
    pub(crate) measured: Measured,
}

/// A figure of this kind.
pub(crate) struct Comparison {
    pub(crate) title: &'static str,
    /// Axis of x, and its column in the table.
    pub(crate) x: Axis,
    pub(crate) x_column: &'static str,
    pub(crate) y: Axis,
    pub(crate) authors: &'static [AuthorsPoint],
    /// Builds the filter of a run for a value of x.
    pub(crate) play: fn(u64, u8) -> Result<PaperFilter>,
    pub(crate) paper_says: &'static str,
    pub(crate) why_they_differ: &'static str,
}

impl Comparison {
    pub(crate) fn run(self, meter: &mut Meter<'_>) -> Result<Outcome> {
        meter.expect(self.authors.len());
        let mut points = Vec::new();
        for (x, _, _) in self.authors {
            points.push(measure(*x, self.play)?);
            meter.step();
        }
        let table = table(self.x_column, &points, self.authors);
        let (least, most) = range(points.iter().map(|point| point.measured.fpr() / point.equation3));
        let (their_least, their_most) = range(self.authors.iter().map(|row| row.2 / row.1));
        let finding = Finding {
            paper_says: self.paper_says.into(),
            we_measure: format!(
                "{least:.2} to {most:.2} times Eq. (3); the authors' own points are {their_least:.2} to {their_most:.2} times"
            ),
            why_they_differ: self.why_they_differ.into(),
        };
        Ok(Outcome::new(table, chart(self.title, self.x, self.y, &points, self.authors), finding))
    }
}

/// Measures the filters that `play` builds, one per run.
pub(crate) fn measure(x: u64, play: fn(u64, u8) -> Result<PaperFilter>) -> Result<Point> {
    let mut point = Point { x, equation3: 0.0, measured: Measured::default() };
    for run in 0..RUNS {
        let filter = play(x, run)?;
        point.equation3 = filter.expected_fpr(Estimate::Equation3);
        let probes = probes_for(point.equation3) / u64::from(RUNS);
        let [measured] = probe(&key(run), probes, |id| [filter.contains(id, Check::Text)]);
        point.measured += measured;
    }
    Ok(point)
}

fn table(x_column: &'static str, points: &[Point], authors: &[AuthorsPoint]) -> Table {
    let mut table = Table::new(&[
        x_column,
        "fpr_eq3_predicted",
        "fpr_measured",
        "fpr_measured_95_low",
        "fpr_measured_95_high",
        "positives",
        "probes",
        "fpr_eq3_authors_csv",
        "fpr_measured_authors_csv",
    ]);
    for (point, (_, authors_equation3, authors_measured)) in points.iter().zip(authors) {
        let (low, high) = point.measured.interval();
        table.push(vec![
            Cell::Count(point.x),
            Cell::Rate(point.equation3),
            Cell::Rate(point.measured.fpr()),
            Cell::Rate(low),
            Cell::Rate(high),
            Cell::Count(point.measured.positives),
            Cell::Count(point.measured.probes),
            Cell::Rate(*authors_equation3),
            Cell::Rate(*authors_measured),
        ]);
    }
    table
}

fn chart(title: &'static str, x: Axis, y: Axis, points: &[Point], authors: &[AuthorsPoint]) -> Chart {
    let mut measured =
        Series::new("Measured\n(bars: 95 % confidence)", Colour::Blue, Line::None, Marker::Disc)
            .with_points(points.iter().map(|point| (point.x as f64, point.measured.fpr())));
    let bar = |point: &Point| (point.x as f64, point.measured.interval().0, point.measured.interval().1);
    measured.bars = points.iter().map(bar).collect();
    let series = vec![
        Series::new("Eq. (3)", Colour::Orange, Line::Dashed, Marker::None)
            .with_points(points.iter().map(|point| (point.x as f64, point.equation3))),
        measured,
        Series::new("Measured, authors' CSV", Colour::Black, Line::None, Marker::Cross)
            .with_points(authors.iter().map(|row| (row.0 as f64, row.2))),
    ];
    Chart { title, x, panels: vec![Panel { heading: "", y, series, height: 400.0 }] }
}

fn range(values: impl Iterator<Item = f64>) -> (f64, f64) {
    values.fold((f64::MAX, f64::MIN), |(least, most), value| (least.min(value), most.max(value)))
}
