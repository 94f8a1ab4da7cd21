//! `jeton import`: counts what a file has, line by line, each line once.
//!
//! What must hold:
//! - A line has one id, whenever and however often it is sent: its own, or one made of the import's name, its number and its text.
//! - What is written down as done was acknowledged. Whatever ends the import, running it again goes on from there.
//! - Memory is bounded: one round of lines, and the lines that failed.

mod checkpoint;
mod csv;
mod line_reader;
mod pipeline;
mod progress;
mod record;

use std::path::{Path, PathBuf};

use anyhow::{Result, anyhow};
use clap::{Args, ValueEnum};
use serde_json::json;

use self::checkpoint::State;
use self::line_reader::{Line, Lines};
use self::pipeline::{ImportCounts, ImportPipeline};
use self::progress::Progress;
use self::record::Reader;
use crate::cli_error::CliError;
use crate::server_client::ServerArgs;
use crate::{number_format, output};

/// Lines that may fail before the import gives up: a wrong file should not be tried to its end.
const FAILED_MAX: usize = 1000;

/// Failed lines that are told one by one.
const TOLD_MAX: usize = 20;

/// Count what a file has, each line once; safe to run twice
///
/// NDJSON: {"key": "clicks/home", "delta": 1, "id": "..."} on each line. CSV: a first line with the names of the columns. Instead of key there may be
/// table and row; delta is 1 if it is not there. A line without an id gets one made of the import's name, its number and its text: the
/// table must take opaque ids, and remembers them for its opaque window. How far it came is kept in a file beside.
#[derive(Args)]
pub struct Import {
    /// The file, or - for standard input
    file: PathBuf,

    /// How it is written [default: by the end of its name, ndjson if that says nothing]
    #[arg(long)]
    format: Option<Format>,

    /// The table of lines that name only a row
    #[arg(long)]
    table: Option<String>,

    /// The name of this import: a part of the ids that are made [default: the name of the file]
    #[arg(long)]
    name: Option<String>,

    /// Take no offence at fields other than key, table, row, delta and id
    #[arg(long)]
    other_fields: bool,

    /// Where it is written down how far it came [default: FILE.jeton-import; of standard input, nowhere]
    #[arg(long, value_name = "FILE")]
    state: Option<PathBuf>,

    /// Send all lines, whatever was written down; lines that the server remembers count once all the same
    #[arg(long)]
    again: bool,

    /// Tell the summary as JSON, for programs
    #[arg(long)]
    json: bool,

    #[command(flatten)]
    server: ServerArgs,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Format {
    Ndjson,
    Csv,
}

impl Import {
    pub fn run(&self) -> Result<()> {
        let mut state = self.begin()?;
        let mut lines = Lines::open(&self.file)?;
        let mut reader = Reader::new(self.format() == Format::Csv, self.table.clone(), self.other_fields);
        let mut rounds = ImportPipeline::connect(&self.server, self.name())?;
        let mut progress = Progress::of(lines.total());
        let (before, skipped) = self.pass_over(&mut lines, &mut reader, &state)?;
        for line in before {
            rounds.take(&mut reader, line, &mut state)?;
        }
        while let Some(line) = lines.next()? {
            rounds.take(&mut reader, line, &mut state)?;
            if state.failed.len() > FAILED_MAX {
                break;
            }
            progress.tell(lines.bytes(), rounds.tally());
        }
        rounds.finish(&mut state)?;
        progress.end();
        state.save()?;
        self.tell(&state, rounds.tally(), skipped)
    }

    fn format(&self) -> Format {
        self.format.unwrap_or_else(|| match self.file.extension().and_then(|end| end.to_str()) {
            Some("csv") => Format::Csv,
            _ => Format::Ndjson,
        })
    }

    fn name(&self) -> String {
        let of_file = || self.file.file_name().map_or("-".into(), |name| name.to_string_lossy().into_owned());
        self.name.clone().unwrap_or_else(of_file)
    }

    fn begin(&self) -> Result<State> {
        let beside = || {
            let mut name = self.file.clone().into_os_string();
            name.push(".jeton-import");
            (self.file != Path::new("-")).then(|| PathBuf::from(name))
        };
        let path = self.state.clone().or_else(beside);
        if self.again { Ok(State::new(path, self.name())) } else { State::load(path, self.name()) }
    }

    /// Passes over the lines that are done, seeing that they are the same as then. Returns those among them that failed, to be tried again,
    /// and how many were passed over.
    fn pass_over(&self, lines: &mut Lines, reader: &mut Reader, state: &State) -> Result<(Vec<Line>, u64)> {
        let (mut failed, mut sum, mut passed) = (Vec::new(), 0_u64, 0);
        while passed < state.lines {
            let Some(line) = lines.next()? else { break };
            passed += 1;
            if state.failed.contains_key(&line.number) {
                failed.push(line);
                continue;
            }
            sum = sum.wrapping_add(line.hash());
            // The names of the columns are needed, whatever is done.
            reader.look(&line)?;
        }
        if passed < state.lines || sum != state.sum {
            return Err(CliError {
                what: format!("{} is not what was imported before under this name", self.file.display()),
                fix: format!(
                    "its first {} lines are done and have changed: import new lines from a file of their own, or send all again with --again \
                     (what the server still remembers counts once)",
                    state.lines
                ),
            }
            .into());
        }
        let skipped = passed - failed.len() as u64;
        Ok((failed, skipped))
    }

    fn tell(&self, state: &State, tally: &ImportCounts, skipped: u64) -> Result<()> {
        if self.json {
            let failed: Vec<_> =
                state.failed.iter().map(|(line, why)| json!({ "line": line, "error": why })).collect();
            output::json(&json!({
                "applied": tally.applied, "replayed": tally.replayed, "refused": tally.refused,
                "skipped": skipped, "failed": failed, "lines": state.lines,
            }))?;
        } else {
            let count = |number: u64, word: &str| format!("{} {word}", number_format::grouped(number));
            output::line(&format!(
                "{}, {}, {}, {}, {}",
                count(tally.applied, "applied"),
                count(tally.replayed, "replayed (known before)"),
                count(tally.refused, "refused by a bound"),
                count(skipped, "done before"),
                count(state.failed.len() as u64, "failed")
            ))?;
            if let Some(window) = &tally.opaque_window {
                let after = match &state.path {
                    Some(path) => {
                        format!("Later than that, {} keeps them from being counted again.", path.display())
                    }
                    None => "Later than that, the same lines would count again.".into(),
                };
                output::aside(&format!(
                    "Ids were made for lines without one; the server remembers them for {window}. {after}"
                ));
            }
        }
        if state.failed.is_empty() {
            return Ok(());
        }
        for (line, why) in state.failed.iter().take(TOLD_MAX) {
            output::aside(&format!("line {line}: {why}"));
        }
        if state.failed.len() > TOLD_MAX {
            output::aside(&format!("and {} more", state.failed.len() - TOLD_MAX));
        }
        let (why, fix) = if state.failed.len() > FAILED_MAX {
            (
                anyhow!("more than {FAILED_MAX} lines failed, so the rest was not tried"),
                "see that it is the right file and --format",
            )
        } else {
            (
                anyhow!("each is named above"),
                "mend these lines in place, then run the same again: only they are sent",
            )
        };
        Err(CliError::of(why, format!("{} lines were not counted", state.failed.len()), fix))
    }
}
