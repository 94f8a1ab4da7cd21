//! Every figure of the evaluation of the forgetful Bloom filter, as data and as a plot.
//!
//! Subramanyam, Gupta, Leslie and Wang, *Idempotent Distributed Counters Using a Forgetful Bloom Filter*, Figs. 8 to
//! 13, rebuilt on [`forgetful_filter::paper`] and driven with the schedules of the authors' prototype
//! (github.com/rajath26/FBFPrototype). One figure is ours: the production filter against Algorithm 3 in a surge.
//!
//! What must hold: time is virtual and every key is fixed, so a figure gives the same CSV each time it is run.
//!
//! ```no_run
//! let report = jeton_lab::run("fig8", "figures".as_ref(), &mut jeton_lab::Silent)?;
//! println!("{}", report.summary());
//! # Ok::<(), anyhow::Error>(())
//! ```

mod agreement;
mod chart;
mod csv;
mod fig08;
mod fig09;
mod fig10;
mod fig11;
mod fig12;
mod fig13;
mod measure;
mod outcome;
mod plot;
mod png;
mod progress;
mod replay;
mod report;
mod rivals;
mod schedule;
mod surge;

use std::path::Path;

use anyhow::{Context, Result, bail};

use outcome::Outcome;
pub use outcome::{Finding, Report};
pub use progress::{Progress, Silent};

/// One figure of the lab.
pub struct Figure {
    /// What it is called on the command line.
    pub name: &'static str,
    /// What it shows.
    pub title: &'static str,
    run: fn(&mut progress::Meter<'_>) -> Result<Outcome>,
}

/// All figures, in the order of the report.
pub fn figures() -> &'static [Figure] {
    &[
        Figure { name: "fig8", title: fig08::TITLE, run: fig08::run },
        Figure { name: "fig9", title: fig09::TITLE, run: fig09::run },
        Figure { name: "fig10", title: fig10::TITLE, run: fig10::run },
        Figure { name: "fig11", title: fig11::TITLE, run: fig11::run },
        Figure { name: "fig12", title: fig12::TITLE, run: fig12::run },
        Figure { name: "fig13", title: fig13::TITLE, run: fig13::run },
        Figure { name: "surge", title: surge::TITLE, run: surge::run },
    ]
}

/// Runs one figure and writes `<name>.csv`, `<name>.svg` and `<name>.png` into the directory, which is created if
/// need be.
///
/// # Errors
/// When there is no such figure, or a file cannot be written.
pub fn run(name: &str, out_dir: &Path, progress: &mut dyn Progress) -> Result<Report> {
    let Some(figure) = figures().iter().find(|figure| figure.name == name) else {
        let known: Vec<_> = figures().iter().map(|figure| figure.name).collect();
        bail!("no figure is called {name:?}; there are {}", known.join(", "));
    };
    progress.start(1, 1, figure);
    let report = make(figure, out_dir, progress)?.0;
    progress.finish(figure);
    Ok(report)
}

/// Runs every figure, and writes `report.html` with all of them beside their files.
///
/// # Errors
/// When a file cannot be written.
pub fn run_all(out_dir: &Path, progress: &mut dyn Progress) -> Result<Vec<Report>> {
    let mut made = Vec::new();
    for (index, figure) in figures().iter().enumerate() {
        progress.start(index + 1, figures().len(), figure);
        made.push(make(figure, out_dir, progress)?);
        progress.finish(figure);
    }
    write(&out_dir.join("report.html"), report::html(&made).as_bytes())?;
    Ok(made.into_iter().map(|(report, _)| report).collect())
}

/// The report of a figure, and its plot as SVG text.
fn make(figure: &Figure, out_dir: &Path, progress: &mut dyn Progress) -> Result<(Report, String)> {
    std::fs::create_dir_all(out_dir).with_context(|| format!("cannot create {}", out_dir.display()))?;
    let outcome = (figure.run)(&mut progress::Meter::new(progress))?;
    let svg = plot::svg(&outcome.chart);
    let file = |extension: &str| out_dir.join(format!("{}.{extension}", figure.name));
    let files = [
        (file("csv"), outcome.table.render().into_bytes()),
        (file("svg"), svg.clone().into_bytes()),
        (file("png"), png::from_svg(&svg)?),
    ];
    for (path, content) in &files {
        write(path, content)?;
    }
    let report = Report {
        name: figure.name,
        title: figure.title,
        finding: outcome.finding,
        files: files.map(|(path, _)| path).to_vec(),
    };
    Ok((report, svg))
}

fn write(path: &Path, content: &[u8]) -> Result<()> {
    std::fs::write(path, content).with_context(|| format!("cannot write {}", path.display()))
}
