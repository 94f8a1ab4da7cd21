//! The `research` binary: runs one figure of the papers, or all of them, and prints the results.

mod progress_line;
mod report_text;

use std::io::{self, ErrorKind, IsTerminal, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, Result, bail};
use clap::Parser;
use clap::builder::{PossibleValue, PossibleValuesParser};
use jeton_research::Setting;

use self::progress_line::ProgressLine;

/// Reproduce the figures of the papers as data and as plots
///
/// Each figure is written as a table (CSV) and as a plot (SVG and PNG). The summary compares the measured
/// values with those of the paper. Time is virtual, ids are fixed and random numbers come from a seed, so a
/// figure has the same values in every run; files whose names end in -times are the exception. An interrupted
/// sweep resumes when it runs again with the same directory.
///
/// The figures of e-Transactions (etx-*) measure wall-clock time on a PostgreSQL and a MariaDB, which are
/// started from the system's packages for the run. They take minutes. Like the sweep, they run only when they
/// are named.
#[derive(Parser)]
#[command(name = "research", version, max_term_width = 100)]
struct Cli {
    /// The figure to run; `all` also writes a report
    #[arg(value_name = "FIGURE", value_parser = choices())]
    figure: String,

    /// Output directory; created if it does not exist
    #[arg(long, value_name = "DIR", default_value = "research-out")]
    out: PathBuf,

    /// Seed of the random executions; only for the figures of the Bloom clock
    #[arg(long, value_name = "NUMBER")]
    seed: Option<u64>,

    /// Take fewer samples, as a smoke test; only for the figures of e-Transactions
    #[arg(long)]
    quick: bool,

    /// Use this PostgreSQL instead of starting one; the table jeton_research_account in it is replaced
    #[arg(long, value_name = "URL", requires = "mariadb")]
    postgres: Option<String>,

    /// Use this MariaDB instead of starting one; the table jeton_research_account in it is replaced
    #[arg(long, value_name = "URL", requires = "postgres")]
    mariadb: Option<String>,
}

fn choices() -> PossibleValuesParser {
    let figures =
        jeton_research::figures().iter().map(|figure| PossibleValue::new(figure.name).help(figure.title));
    let all = PossibleValue::new("all")
        .help("Every figure except the sweep and those of e-Transactions, with a report in report.html");
    let list = PossibleValue::new("list").help("Print the names of the figures");
    PossibleValuesParser::new(figures.chain([all, list]))
}

fn main() -> ExitCode {
    let printed = Cli::parse().run().and_then(|text| match io::stdout().write_all(text.as_bytes()) {
        // The reader closed the pipe, as in `research list | head -1`.
        Err(error) if error.kind() == ErrorKind::BrokenPipe => Ok(()),
        other => other.context("cannot write to standard output"),
    });
    match printed {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

impl Cli {
    /// Runs the figures and returns the text for standard output.
    fn run(&self) -> Result<String> {
        if self.figure == "list" {
            return Ok(list());
        }
        let setting = self.setting()?;
        check_writable(&self.out)?;
        let progress = &mut ProgressLine::on_stderr();
        let reports = match self.figure.as_str() {
            "all" => jeton_research::run_all(&setting, progress)?,
            name => vec![jeton_research::run(name, &setting, progress)?],
        };
        let width = terminal_width();
        let mut text: String =
            reports.iter().map(|report| report_text::render(report, width) + "\n").collect();
        if self.figure == "all" {
            text += &format!("Report: {}\n", self.out.join("report.html").display());
        }
        Ok(text)
    }

    /// Rejects options that have no effect on the figure.
    fn setting(&self) -> Result<Setting> {
        let mut setting = Setting::new(&self.out);
        let figure = jeton_research::figures().iter().find(|figure| figure.name == self.figure);
        if let Some(seed) = self.seed {
            if figure.is_some_and(|figure| !figure.has_seed()) {
                bail!("{} has no seed because nothing in it is random; remove --seed", self.figure);
            }
            setting.seed = seed;
        }
        let runs_on_databases = figure.is_some_and(|figure| figure.is_measured());
        if !runs_on_databases && (self.quick || self.postgres.is_some()) {
            bail!(
                "{} does not run on databases; remove --quick, --postgres and --mariadb, which are for \
                 the figures of e-Transactions",
                self.figure
            );
        }
        setting.quick = self.quick;
        setting.databases = self.postgres.clone().zip(self.mariadb.clone());
        Ok(setting)
    }
}

fn list() -> String {
    let figures = jeton_research::figures();
    let width = figures.iter().map(|figure| figure.name.len()).max().unwrap_or(0);
    figures.iter().map(|figure| format!("{:<width$}  {}\n", figure.name, figure.title)).collect()
}

/// Columns to wrap the text at. A pipe gets every sentence on one line, for `grep` and `cut`.
fn terminal_width() -> usize {
    let size = io::stdout().is_terminal().then(terminal_size::terminal_size).flatten();
    size.map_or(usize::MAX, |(columns, _)| usize::from(columns.0))
}

/// Fails before a run of minutes, not after it.
fn check_writable(directory: &Path) -> Result<()> {
    let probe = directory.join(".jeton-research");
    std::fs::create_dir_all(directory)
        .and_then(|()| std::fs::write(&probe, ""))
        .and_then(|()| std::fs::remove_file(&probe))
        .with_context(|| {
            format!("cannot write to {}; choose another directory with --out DIR", directory.display())
        })
}
