//! What a figure produces, and what is told about it.

use std::path::PathBuf;

use crate::chart::Chart;
use crate::csv::Table;

/// What a figure says, in three sentences.
#[derive(Debug, Clone)]
pub struct Finding {
    /// The claim, with its place in the paper.
    pub paper_says: String,
    /// What came out here.
    pub we_measure: String,
    /// Why the two differ, or why they agree and what that is worth.
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
    /// The table in full, line by line, if it was measured: there it differs each time.
    pub told: Vec<String>,
    /// The CSV, the SVG and the PNG, and those of the plates beside it.
    pub files: Vec<PathBuf>,
}

impl Report {
    /// One line: what the paper says, what we measure, why they differ.
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
    /// The table as text, if it is to be told.
    pub(crate) told: Vec<String>,
}

/// One more plot of a figure.
pub(crate) struct ExtraPlot {
    /// What its files are called after the name of the figure.
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
