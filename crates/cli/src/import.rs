//! `jeton import`: applies each record of a file once.
//!
//! - A record has one id for all attempts: its own, or one derived from import name, line number and text.
//! - The checkpoint contains only acknowledged records. A second run continues from it.
//! - Memory is bounded: one batch of records, and the failed ones.

mod checkpoint;
mod csv_line;
mod line_reader;
mod pipeline;
mod progress;
mod record;

use std::path::{Path, PathBuf};
use std::time::Instant;

use anyhow::{Result, anyhow};
use clap::{Args, ValueEnum};
use serde_json::json;

use self::checkpoint::State;
use self::line_reader::{Line, Lines};
use self::pipeline::{ImportCounts, ImportPipeline};
use self::record::Reader;
use crate::cli_error::CliError;
use crate::server_client::ServerArgs;
use crate::{number_format, output};

/// The import stops after this many failed lines, because the file is probably the wrong one.
const FAILED_MAX: usize = 1000;

/// Failed lines that are printed.
const PRINTED_MAX: usize = 20;

/// Import operations from a file, each once; safe to run again
///
/// NDJSON: {"key": "clicks/home", "delta": 1, "id": "..."} per line. CSV: a header line with the names of the
/// columns. table and row may replace key; delta defaults to 1. A record without an id gets one derived from
/// import name, line number and text: the table must accept opaque ids and remembers them for its opaque
/// window. A checkpoint file next to the input keeps the progress.
#[derive(Args)]
pub struct Import {
    /// Input file, or - for standard input
    file: PathBuf,

    /// Format of the file [default: by its extension, else ndjson]
    #[arg(long)]
    format: Option<Format>,

    /// Table of records that have a row and no table
    #[arg(long)]
    table: Option<String>,

    /// Name of this import, part of derived ids [default: the file name]
    #[arg(long)]
    name: Option<String>,

    /// Ignore fields other than key, table, row, delta and id
    #[arg(long)]
    other_fields: bool,

    /// Checkpoint file [default: FILE.jeton-import; none for standard input]
    #[arg(long, value_name = "FILE")]
    state: Option<PathBuf>,

    /// Ignore the checkpoint and send all records; ids that the server remembers are not applied again
    #[arg(long)]
    again: bool,

    /// Print the summary as JSON
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
        let mut state = self.load_checkpoint()?;
        let mut lines = Lines::open(&self.file, self.format() == Format::Csv)?;
        let mut reader = Reader::new(self.format() == Format::Csv, self.table.clone(), self.other_fields);
        let mut pipeline = ImportPipeline::connect(&self.server, self.name())?;
        let (progress, started) = (progress::bar(lines.total()), Instant::now());
        let (failed, skipped) = self.skip_done(&mut lines, &mut reader, &state)?;
        for line in failed {
            pipeline.push(&mut reader, line, &mut state)?;
        }
        while let Some(line) = lines.next()? {
            pipeline.push(&mut reader, line, &mut state)?;
            if state.failed.len() > FAILED_MAX {
                break;
            }
            progress.set_position(lines.bytes());
            if !progress.is_hidden() {
                let records = pipeline.counts().all();
                let rate = (records as f64 / started.elapsed().as_secs_f64().max(1e-3)) as u64;
                let (records, rate) = (number_format::grouped(records), number_format::grouped(rate));
                progress.set_message(format!("{records} lines, {rate}/s"));
            }
        }
        pipeline.finish(&mut state)?;
        progress.finish_and_clear();
        state.save()?;
        self.print(&state, pipeline.counts(), skipped)
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

    fn load_checkpoint(&self) -> Result<State> {
        let default_path = || {
            let mut name = self.file.clone().into_os_string();
            name.push(".jeton-import");
            (self.file != Path::new("-")).then(|| PathBuf::from(name))
        };
        let path = self.state.clone().or_else(default_path);
        if self.again { Ok(State::new(path, self.name())) } else { State::load(path, self.name()) }
    }

    /// Skips the records that are done and checks that they have not changed. Returns the failed ones, for a
    /// retry, and the number of skipped ones.
    fn skip_done(&self, lines: &mut Lines, reader: &mut Reader, state: &State) -> Result<(Vec<Line>, u64)> {
        let (mut failed, mut sum, mut passed) = (Vec::new(), 0_u64, 0);
        while passed < state.lines {
            let Some(line) = lines.next()? else { break };
            passed += 1;
            if state.failed.contains_key(&line.number) {
                failed.push(line);
                continue;
            }
            sum = sum.wrapping_add(line.hash());
            // The header is needed in any case.
            reader.read_header(&line)?;
        }
        if passed < state.lines || sum != state.sum {
            return Err(CliError::without_cause(
                format!("{} has changed since the checkpoint of this import", self.file.display()),
                format!(
                    "its first {} lines are done and have changed: import new lines from another file, or send all lines with \
                     --again (ids that the server remembers are not applied again)",
                    state.lines
                ),
            ));
        }
        let skipped = passed - failed.len() as u64;
        Ok((failed, skipped))
    }

    fn print(&self, state: &State, counts: &ImportCounts, skipped: u64) -> Result<()> {
        if self.json {
            let failed: Vec<_> =
                state.failed.iter().map(|(line, error)| json!({ "line": line, "error": error })).collect();
            output::json(&json!({
                "applied": counts.applied, "replayed": counts.replayed, "refused": counts.refused,
                "skipped": skipped, "failed": failed, "lines": state.lines,
            }))?;
        } else {
            let count = |number: u64, word: &str| format!("{} {word}", number_format::grouped(number));
            output::line(&format!(
                "{}, {}, {}, {}, {}",
                count(counts.applied, "applied"),
                count(counts.replayed, "replayed"),
                count(counts.refused, "refused (out of bounds)"),
                count(skipped, "done before"),
                count(state.failed.len() as u64, "failed")
            ))?;
            if let Some(window) = &counts.opaque_window {
                let after = match &state.path {
                    Some(path) => {
                        format!("After that, only {} prevents a second application.", path.display())
                    }
                    None => "After that, the same lines would be applied again.".into(),
                };
                output::aside(&format!(
                    "Lines without an id got derived ids; the server remembers them for {window}. {after}"
                ));
            }
        }
        if state.failed.is_empty() {
            return Ok(());
        }
        for (line, error) in state.failed.iter().take(PRINTED_MAX) {
            output::aside(&format!("line {line}: {error}"));
        }
        if state.failed.len() > PRINTED_MAX {
            output::aside(&format!("and {} more", state.failed.len() - PRINTED_MAX));
        }
        let (reason, fix) = if state.failed.len() > FAILED_MAX {
            (
                anyhow!("more than {FAILED_MAX} lines failed, so the import stopped"),
                "check the file and --format",
            )
        } else {
            (
                anyhow!("they are listed above"),
                "correct these lines in place, then run the same command: only they are sent",
            )
        };
        Err(CliError::of(reason, format!("{} lines were not applied", state.failed.len()), fix))
    }
}
