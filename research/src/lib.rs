//! The figures of the papers behind Jeton, as data and as plots.
//!
//! Figs. 8 to 13 of Subramanyam, Gupta, Leslie and Wang, *Idempotent Distributed Counters Using a Forgetful
//! Bloom Filter*, run on [`paper_filter`] with the schedules of the authors' prototype
//! (github.com/rajath26/FBFPrototype). The figure `surge` is ours: the production filter against Algorithm 3.
//! The figures of the Bloom clock answer the open questions of Kshemkalyani and Misra; `docs/bloom-clock.md`
//! has the answers. The figures of e-Transactions compare them with two-phase commit on real databases.
//!
//! Invariant: time is virtual, keys are fixed and random numbers come from a seed, so a figure writes the
//! same CSV in every run. Exceptions are files whose name ends in `-times` and the figures of e-Transactions,
//! which measure real time and report confidence intervals.
//!
//! ```no_run
//! let setting = jeton_research::Setting::new("figures");
//! let report = jeton_research::run("fig8", &setting, &mut jeton_research::Silent)?;
//! println!("{}", report.summary());
//! # Ok::<(), anyhow::Error>(())
//! ```

mod chart;
pub mod clock_estimate;
mod clocks;
mod compared_filters;
mod csv;
mod fig08;
mod fig09;
mod fig10;
mod fig11;
mod fig12;
mod fig13;
mod measure;
mod outcome;
pub mod paper_filter;
mod plot;
mod png;
mod predicted_vs_measured;
mod progress;
mod replay;
mod report;
mod schedule;
mod surge;
mod transactions;

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};

use outcome::{ExtraPlot, Outcome};
pub use outcome::{Finding, Report};
use progress::Meter;
pub use progress::{Progress, Silent};

/// One figure.
pub struct Figure {
    /// Its name on the command line.
    pub name: &'static str,
    /// One line about its content.
    pub title: &'static str,
    /// Runs only when it is named, because it takes long.
    pub long: bool,
    work: Work,
}

/// The kind of run.
enum Work {
    /// Deterministic.
    Fixed(fn(&mut Meter<'_>) -> Result<Outcome>),
    /// Deterministic for a seed.
    Seeded(fn(&Setting, &mut Meter<'_>) -> Result<Outcome>),
    /// Measures wall-clock time on real databases.
    Measured(fn(&Setting, &mut Meter<'_>) -> Result<Outcome>),
}

impl Figure {
    const fn fixed(
        name: &'static str,
        title: &'static str,
        run: fn(&mut Meter<'_>) -> Result<Outcome>,
    ) -> Self {
        Self { name, title, long: false, work: Work::Fixed(run) }
    }

    /// Whether the seed changes the result.
    pub fn has_seed(&self) -> bool {
        matches!(self.work, Work::Seeded(_))
    }

    /// Whether it runs on databases and supports `quick`.
    pub fn is_measured(&self) -> bool {
        matches!(self.work, Work::Measured(_))
    }
}

/// Output directory and options of a run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Setting {
    /// Output directory; created if it does not exist.
    pub directory: PathBuf,
    /// Seed, for figures that have one.
    pub seed: u64,
    /// Measured figures only: take fewer samples, as a smoke test.
    pub quick: bool,
    /// Measured figures only: URLs of a PostgreSQL and a MariaDB. If `None`, both are started for the run.
    pub databases: Option<(String, String)>,
}

impl Setting {
    /// The seed of the numbers in the documentation.
    pub const SEED: u64 = 1;

    /// Default options with this output directory.
    pub fn new(directory: impl Into<PathBuf>) -> Self {
        Self { directory: directory.into(), seed: Self::SEED, quick: false, databases: None }
    }
}

/// All figures, in the order of the report.
pub fn figures() -> &'static [Figure] {
    const FIGURES: &[Figure] = &[
        Figure::fixed("fig8", fig08::TITLE, fig08::run),
        Figure::fixed("fig9", fig09::TITLE, fig09::run),
        Figure::fixed("fig10", fig10::TITLE, fig10::run),
        Figure::fixed("fig11", fig11::TITLE, fig11::run),
        Figure::fixed("fig12", fig12::TITLE, fig12::run),
        Figure::fixed("fig13", fig13::TITLE, fig13::run),
        Figure::fixed("surge", surge::TITLE, surge::run),
        Figure { name: "bloom-clock", title: clocks::TITLE, long: false, work: Work::Seeded(clocks::run) },
        Figure {
            name: "bloom-clock-sweep",
            title: clocks::SWEEP_TITLE,
            long: true,
            work: Work::Seeded(clocks::run_sweep),
        },
        Figure {
            name: "etx-fig8",
            title: transactions::FIG8_TITLE,
            long: true,
            work: Work::Measured(transactions::run_fig8),
        },
        Figure {
            name: "etx-throughput",
            title: transactions::THROUGHPUT_TITLE,
            long: true,
            work: Work::Measured(transactions::run_throughput),
        },
    ];
    FIGURES
}

/// Runs one figure and writes `<name>.csv`, `<name>.svg`, `<name>.png` and its additional files.
///
/// # Errors
/// If the figure is unknown, a file cannot be written, or an invariant is violated.
pub fn run(name: &str, setting: &Setting, progress: &mut dyn Progress) -> Result<Report> {
    let Some(figure) = figures().iter().find(|figure| figure.name == name) else {
        let known: Vec<_> = figures().iter().map(|figure| figure.name).collect();
        bail!("no figure is called {name:?}; there are {}", known.join(", "));
    };
    progress.start(1, 1, figure);
    let report = make(figure, setting, progress)?.0;
    progress.finish(figure);
    Ok(report)
}

/// Runs every figure except the long ones, and writes `report.html`.
///
/// # Errors
/// As [`run`].
pub fn run_all(setting: &Setting, progress: &mut dyn Progress) -> Result<Vec<Report>> {
    let figures: Vec<&Figure> = figures().iter().filter(|figure| !figure.long).collect();
    let mut made = Vec::new();
    for (index, figure) in figures.iter().enumerate() {
        progress.start(index + 1, figures.len(), figure);
        made.push(make(figure, setting, progress)?);
        progress.finish(figure);
    }
    write(&setting.directory.join("report.html"), report::html(&made).as_bytes())?;
    Ok(made.into_iter().map(|(report, _)| report).collect())
}

/// The report of a figure, and its plots as SVG.
fn make(figure: &Figure, setting: &Setting, progress: &mut dyn Progress) -> Result<(Report, Vec<String>)> {
    let directory = &setting.directory;
    std::fs::create_dir_all(directory).with_context(|| format!("cannot create {}", directory.display()))?;
    let meter = &mut Meter::new(progress);
    let Outcome { table, chart, finding, more, text } = match figure.work {
        Work::Fixed(run) => run(meter)?,
        Work::Seeded(run) | Work::Measured(run) => run(setting, meter)?,
    };
    let (mut files, mut plots) = (Vec::new(), Vec::new());
    for ExtraPlot { suffix, table, chart } in
        std::iter::once(ExtraPlot::new("", Some(table), chart)).chain(more)
    {
        let svg = plot::svg(&chart);
        let contents = [
            ("csv", table.map(|table| table.render().into_bytes())),
            ("svg", Some(svg.clone().into_bytes())),
            ("png", Some(png::from_svg(&svg)?)),
        ];
        for (extension, content) in contents {
            if let Some(content) = content {
                let path = directory.join(format!("{}{suffix}.{extension}", figure.name));
                write(&path, &content)?;
                files.push(path);
            }
        }
        plots.push(svg);
    }
    Ok((Report { name: figure.name, title: figure.title, finding, text, files }, plots))
}

fn write(path: &Path, content: &[u8]) -> Result<()> {
    std::fs::write(path, content).with_context(|| format!("cannot write {}", path.display()))
}
