//! `jeton lab`: the figures of the papers, measured again.

mod ticker;

use std::io::IsTerminal;
use std::path::{Path, PathBuf};

use anyhow::Result;
use clap::Args;
use clap::builder::{PossibleValue, PossibleValuesParser};
use jeton_lab::{Report, Setting};
use ratatui::crossterm::terminal;

use self::ticker::ProgressLine;
use crate::cli_error::CliError;
use crate::output;

/// Columns of the labels in what is told about a figure.
const LABEL: usize = 17;

/// Measure the figures of the papers again, as data and as plots
///
/// Each figure is written as a table (CSV) and as a picture (SVG and PNG), and what came out is told beside what the
/// paper says. The figures are the same each time: their time is virtual, their ids are fixed, and chance comes from a seed. Only files
/// that end in -times differ. A sweep that was interrupted goes on where it was: run it again, with the same directory.
///
/// The figures of e-Transactions (etx-*) are different: they are measured by the clock, on a PostgreSQL and a MariaDB that are started from the system's
/// packages for the run, and take minutes. So they are run only by name, as the sweep is.
#[derive(Args)]
pub struct Lab {
    /// Which figure; all of them with a report, or a list of them
    #[arg(value_name = "FIGURE", value_parser = choices())]
    figure: String,

    /// Where the files go; created if need be
    #[arg(long, value_name = "DIR", default_value = "lab-out")]
    out: PathBuf,

    /// Another seed gives other executions: for the figures of the Bloom clock
    #[arg(long, value_name = "NUMBER")]
    seed: Option<u64>,

    /// Fewer samples, to see that all works: for the figures of e-Transactions
    #[arg(long)]
    quick: bool,

    /// A PostgreSQL to measure on, instead of one that is started for the run; its table jeton_lab_account is made anew
    #[arg(long, value_name = "URL", requires = "mariadb")]
    postgres: Option<String>,

    /// A MariaDB to measure on, likewise
    #[arg(long, value_name = "URL", requires = "postgres")]
    mariadb: Option<String>,
}

fn choices() -> PossibleValuesParser {
    let figures =
        jeton_lab::figures().iter().map(|figure| PossibleValue::new(figure.name).help(figure.title));
    let every = PossibleValue::new("all")
        .help("Every figure but the sweep and those of e-Transactions, and a report of them in report.html");
    let list = PossibleValue::new("list").help("Only tell which figures there are");
    PossibleValuesParser::new(figures.chain([every, list]))
}

impl Lab {
    pub fn run(&self) -> Result<()> {
        if self.figure == "list" {
            return list();
        }
        let setting = self.setting()?;
        prepare(&self.out)?;
        let reports = match self.figure.as_str() {
            "all" => jeton_lab::run_all(&setting, &mut ProgressLine::on_stderr()),
            name => jeton_lab::run(name, &setting, &mut ProgressLine::on_stderr()).map(|report| vec![report]),
        };
        let reports = reports.map_err(|why| {
            CliError::of(
                why,
                "the figures could not be finished",
                "mend that, see that there is room, then run it again",
            )
        })?;
        for report in &reports {
            output::line(&text_of(report, width()))?;
        }
        if self.figure == "all" {
            output::line(&format!("All of it on one page: {}", self.out.join("report.html").display()))?;
        }
        Ok(())
    }

    /// A seed that changes nothing would be believed to: it is refused.
    fn setting(&self) -> Result<Setting> {
        let mut setting = Setting::new(&self.out);
        if let Some(seed) = self.seed {
            let figure = jeton_lab::figures().iter().find(|figure| figure.name == self.figure);
            if figure.is_some_and(|figure| !figure.has_seed()) {
                let why = anyhow::anyhow!("its ids are fixed, and nothing in it is chance");
                let what = format!("{} has no seed", self.figure);
                return Err(CliError::of(why, what, "leave --seed out"));
            }
            setting.seed = seed;
        }
        let figure = jeton_lab::figures().iter().find(|figure| figure.name == self.figure);
        let is_measured = figure.is_some_and(|figure| figure.is_measured());
        if !is_measured && (self.quick || self.postgres.is_some()) {
            let why = anyhow::anyhow!("only the figures of e-Transactions are measured on databases");
            let what = format!("{} has neither --quick nor databases", self.figure);
            return Err(CliError::of(why, what, "leave --quick, --postgres and --mariadb out"));
        }
        setting.quick = self.quick;
        setting.databases = self.postgres.clone().zip(self.mariadb.clone());
        Ok(setting)
    }
}

fn list() -> Result<()> {
    let width = jeton_lab::figures().iter().map(|figure| figure.name.len()).max().unwrap_or(0);
    for figure in jeton_lab::figures() {
        output::line(&format!("{:<width$}  {}", figure.name, figure.title))?;
    }
    Ok(())
}

/// The columns to fit the text into; a pipe gets each sentence whole, for `grep` and `cut`.
fn width() -> usize {
    let columns = if std::io::stdout().is_terminal() { terminal::size().ok() } else { None };
    columns.map_or(usize::MAX, |(columns, _)| usize::from(columns))
}

/// A figure as a paragraph: what the paper says, what we measure, why they differ, and where it is.
fn text_of(report: &Report, width: usize) -> String {
    let Report { name, title, finding, told, files } = report;
    let mut text = format!("{name}: {title}\n");
    for (label, sentence) in [
        ("paper says", &finding.paper_says),
        ("we measure", &finding.we_measure),
        ("why they differ", &finding.why_they_differ),
    ] {
        text += &entry(label, sentence, width);
    }
    for line in told {
        text += &format!("  {line}\n");
    }
    for file in files {
        text += &format!("  {:<LABEL$}{}\n", "written", file.display());
    }
    text
}

/// A label, and a sentence beside it that keeps to its own columns.
fn entry(label: &str, sentence: &str, width: usize) -> String {
    let mut text = format!("  {label:<LABEL$}");
    let mut column = 2 + LABEL;
    for (index, word) in sentence.split_whitespace().enumerate() {
        let length = word.chars().count();
        if index > 0 && column + 1 + length > width {
            text += &format!("\n  {:<LABEL$}", "");
            column = 2 + LABEL;
        } else if index > 0 {
            text.push(' ');
            column += 1;
        }
        text += word;
        column += length;
    }
    text + "\n"
}

/// Sees that files can be written there, before the work of minutes depends on it.
fn prepare(out: &Path) -> Result<()> {
    let probe = out.join(".jeton-lab");
    std::fs::create_dir_all(out)
        .and_then(|()| std::fs::write(&probe, ""))
        .and_then(|()| std::fs::remove_file(&probe))
        .map_err(|why| {
            let what = format!("the figures cannot be written into {}", out.display());
            CliError::of(why, what, "choose a directory that you may write to: jeton lab FIGURE --out DIR")
        })
}

#[cfg(test)]
mod tests {
    use super::*;
    use jeton_lab::Finding;

    fn report() -> Report {
        let finding = Finding {
            paper_says: "a third".into(),
            we_measure: "a quarter".into(),
            why_they_differ: "another hash and another load".into(),
        };
        let files = vec!["out/fig0.csv".into(), "out/fig0.png".into()];
        Report { name: "fig0", title: "A title", finding, told: vec!["a  table".into()], files }
    }

    #[test]
    fn a_figure_is_told_in_full() {
        let expected = [
            "fig0: A title",
            "  paper says       a third",
            "  we measure       a quarter",
            "  why they differ  another hash and another load",
            "  a  table",
            "  written          out/fig0.csv",
            "  written          out/fig0.png",
        ];
        assert_eq!(text_of(&report(), usize::MAX).lines().collect::<Vec<_>>(), expected);
    }

    #[test]
    fn a_terminal_gets_whole_words() {
        let begins = "  why they differ  another hash";
        for (width, why) in [
            (35, format!("{begins} and\n{:19}another load\n", "")),
            (34, format!("{begins}\n{:19}and another\n", "")),
        ] {
            let text = text_of(&report(), width);
            assert!(text.contains(&why), "{text}");
        }
    }
}
