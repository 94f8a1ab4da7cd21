//! The result of a figure.

use std::path::PathBuf;

use crate::chart::Chart;
use crate::csv::Table;

/// The claim of the paper, the measured result, and the reason for the difference.
#[derive(Debug, Clone)]
pub struct Finding {
    /// The claim, with its place in the paper.
    pub paper_says: String,
    /// The measured result.
    pub we_measure: String,
    /// Why the two differ, or why they agree.
    pub why_they_differ: String,
}

/// A figure that has been run and written.
#[derive(Debug, Clone)]
pub struct Report {
    /// The name of the figure.
    pub name: &'static str,
    /// What it shows.
    pub title: &'static str,
    /// Paper, measurement, difference.
    pub finding: Finding,
    /// The table as text; only for measured figures, whose numbers change in every run.
    pub text: Vec<String>,
    /// The files of the figure and of its additional plots.
    pub files: Vec<PathBuf>,
}

impl Report {
    /// All three sentences in one line.
    pub fn summary(&self) -> String {
        let Finding { paper_says, we_measure, why_they_differ } = &self.finding;
        format!("{}: paper says: {paper_says} / we measure: {we_measure} / why: {why_they_differ}", self.name)
    }
}

/// The data of a figure before it is written.
pub(crate) struct Outcome {
    pub(crate) table: Table,
    pub(crate) chart: Chart,
    pub(crate) finding: Finding,
    /// Further plots of the same run.
    pub(crate) more: Vec<ExtraPlot>,
    /// The table as text, if it is to be printed.
    pub(crate) text: Vec<String>,
}

impl Outcome {
    /// An outcome of one plot.
    pub(crate) fn new(table: Table, chart: Chart, finding: Finding) -> Self {
        Self { table, chart, finding, more: Vec::new(), text: Vec::new() }
    }
}

/// An additional plot of a figure.
pub(crate) struct ExtraPlot {
    /// Suffix of its file names after the name of the figure.
    pub(crate) suffix: &'static str,
    /// Its data, if it is not in the table of the figure.
    pub(crate) table: Option<Table>,
    pub(crate) chart: Chart,
}

impl ExtraPlot {
    pub(crate) fn new(suffix: &'static str, table: Option<Table>, chart: Chart) -> Self {
        Self { suffix, table, chart }
    }
}
