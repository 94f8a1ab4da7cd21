//! Sends records in batches. The client retries each with its id; an import stops at the first without a
//! definite result.

use std::collections::HashMap;
use std::time::Duration;

use anyhow::{Result, anyhow};
use jeton_client::{Error, Id, Outcome, Status};
use tokio::runtime::Builder;
use tokio::task::JoinSet;
use xxhash_rust::xxh3::xxh3_64;

use super::checkpoint::State;
use super::line_reader::Line;
use super::record::{Reader, Record};
use crate::cli_error::CliError;
use crate::server_client::{Resp, ServerArgs, error_of};
use crate::table;

/// Records per batch.
const BATCH: usize = 512;

/// How long the server may be unavailable before the import stops.
const RETRY_TIMEOUT: Duration = Duration::from_secs(60);

/// Maximum characters of the import name in a derived id.
const NAME_CHARS: usize = 100;

/// Numbers of records by status.
#[derive(Debug, Default)]
pub struct ImportCounts {
    pub applied: u64,
    pub replayed: u64,
    pub refused: u64,
    /// Opaque window of the table, if ids were derived.
    pub opaque_window: Option<String>,
}

impl ImportCounts {
    pub fn all(&self) -> u64 {
        self.applied + self.replayed + self.refused
    }
}

/// Records in flight.
pub struct ImportPipeline<'a> {
    server: &'a ServerArgs,
    connection: Resp,
    name: String,
    waiting: Vec<(Line, Record, Id)>,
    counts: ImportCounts,
    /// Prefix of opaque ids by table.
    tags: HashMap<String, &'static str>,
}

impl<'a> ImportPipeline<'a> {
    pub fn connect(server: &'a ServerArgs, name: String) -> Result<Self> {
        let connection = Resp::with(server, RETRY_TIMEOUT, Builder::new_current_thread())?;
        Ok(Self {
            server,
            connection,
            name,
            waiting: Vec::new(),
            counts: ImportCounts::default(),
            tags: HashMap::new(),
        })
    }

    pub fn counts(&self) -> &ImportCounts {
        &self.counts
    }

    /// Adds a record and sends the batch if it is full.
    pub fn push(&mut self, reader: &mut Reader, line: Line, state: &mut State) -> Result<()> {
        match reader.read(&line)? {
            Ok(None) => state.done(&line),
            Err(reason) => state.fail(&line, reason),
            Ok(Some(record)) => {
                let id = match &record.id {
                    Some(id) => id.clone(),
                    None => self.derived_id(&line, &record)?,
                };
                match Id::new(id) {
                    Ok(id) => self.waiting.push((line, record, id)),
                    Err(error) => state.fail(&line, error.to_string()),
                }
            }
        }
        if self.waiting.len() < BATCH {
            return Ok(());
        }
        self.finish(state)?;
        state.save_periodically()
    }

    /// The id of a record without one: the same in every run.
    fn derived_id(&mut self, line: &Line, record: &Record) -> Result<String> {
        let table = record.key.split_once('/').map_or("default", |(table, _)| table);
        let tag = match self.tags.get(table) {
            Some(tag) => tag,
            None => self.tag(table, line)?,
        };
        let name: String = self.name.chars().filter(|one| !one.is_control()).take(NAME_CHARS).collect();
        let text = xxh3_64(format!("{}\n{}", self.name, line.text).as_bytes());
        Ok(format!("{tag}{name}:{}:{text:016x}", line.number))
    }

    /// Prefix of opaque ids in a table. Fails if it does not accept opaque ids.
    fn tag(&mut self, table: &str, line: &Line) -> Result<&'static str> {
        let fix = format!(
            "add an id to each line, or import into a table that accepts derived ids: jeton table create NAME --format \
             opaque --opaque-window 30d (this table: {table})"
        );
        let what = format!("line {} has no id", line.number);
        let found = table::find(self.server, table)
            .map_err(|error| {
                CliError::of(anyhow!("the settings of {table} are unknown: {error:#}"), &what, &fix)
            })?
            .ok_or_else(|| {
                let fix = format!("create it: jeton table create {table} --format opaque");
                CliError::of(anyhow!("there is no table {table}"), &what, fix)
            })?;
        let settings = &found["settings"];
        let formats: Vec<&str> =
            settings["formats"].as_array().into_iter().flatten().filter_map(|one| one.as_str()).collect();
        if !formats.contains(&"opaque") {
            let reason = anyhow!(
                "the table {table} accepts only {} ids, which cannot be derived from a line",
                formats.join(", ")
            );
            return Err(CliError::of(reason, what, fix));
        }
        self.counts.opaque_window = settings["opaque_window"].as_str().map(str::to_owned);
        let tag = if formats.len() > 1 { "opaque:" } else { "" };
        self.tags.insert(table.to_owned(), tag);
        Ok(tag)
    }

    /// Sends the batch. Stops the import if a record has no definite result: the server is unavailable.
    pub fn finish(&mut self, state: &mut State) -> Result<()> {
        let mut in_flight = JoinSet::new();
        let (waiting, client) = (std::mem::take(&mut self.waiting), &self.connection.client);
        let results = self.connection.block_on(async {
            for (line, record, id) in waiting {
                let add = client.add(&record.key, record.delta).id(id);
                in_flight.spawn(async move { (line, add.await) });
            }
            in_flight.join_all().await
        });
        let mut unavailable = None;
        for (line, result) in results {
            match result {
                Ok(outcome) => {
                    self.count(&outcome);
                    state.done(&line);
                }
                Err(error @ (Error::Refused(_) | Error::Expired { .. } | Error::Invalid(_))) => {
                    state.fail(&line, error.to_string());
                }
                // Recorded like a failed record: the next run sends it again with the same id.
                Err(error) => {
                    state.fail(&line, error.to_string());
                    unavailable = Some(error);
                }
            }
        }
        let Some(error) = unavailable else { return Ok(()) };
        state.save()?;
        Err(CliError::of(
            anyhow!("{:#}", error_of(error)),
            "the server became unavailable during the import",
            "run the same command again: it continues, and nothing is applied twice",
        ))
    }

    fn count(&mut self, outcome: &Outcome) {
        match (outcome.status, outcome.replayed) {
            (Status::Refused, _) => self.counts.refused += 1,
            (Status::Applied, false) => self.counts.applied += 1,
            _ => self.counts.replayed += 1,
        }
    }
}
