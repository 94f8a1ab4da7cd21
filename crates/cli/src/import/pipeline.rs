//! Sends records in pipelined batches and retries those without a definite reply, with the same ids.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use anyhow::{Result, anyhow};
use jeton_resp::command;
use jeton_resp::reply_parser::Value;
use xxhash_rust::xxh3::xxh3_64;

use super::checkpoint::State;
use super::line_reader::Line;
use super::record::{Reader, Record};
use crate::cli_error::CliError;
use crate::server_client::{AddResult, Resp, ServerArgs, lost};
use crate::table;

/// Records per batch.
const BATCH: usize = 512;

/// Pause before a retry.
const PAUSE: Duration = Duration::from_millis(100);

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
    connection: Option<Resp>,
    name: String,
    waiting: Vec<(Line, Vec<u8>)>,
    counts: ImportCounts,
    /// Prefix of opaque ids by table.
    tags: HashMap<String, &'static str>,
}

impl<'a> ImportPipeline<'a> {
    pub fn connect(server: &'a ServerArgs, name: String) -> Result<Self> {
        let connection = Some(Resp::connect(server)?);
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
                let bytes = self.command(&line, &record)?;
                self.waiting.push((line, bytes));
            }
        }
        if self.waiting.len() < BATCH {
            return Ok(());
        }
        self.finish(state)?;
        state.save_periodically()
    }

    fn command(&mut self, line: &Line, record: &Record) -> Result<Vec<u8>> {
        let id = match &record.id {
            Some(id) => id.clone(),
            None => self.derived_id(line, record)?,
        };
        let mut bytes = Vec::new();
        let delta = record.delta.to_string();
        command(&mut bytes, &[b"JADD", record.key.as_bytes(), delta.as_bytes(), b"ID", id.as_bytes()]);
        Ok(bytes)
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

    /// Sends the batch until every record has a definite reply.
    pub fn finish(&mut self, state: &mut State) -> Result<()> {
        let deadline = Instant::now() + RETRY_TIMEOUT;
        loop {
            let error = match self.send_batch(state) {
                Ok(()) if self.waiting.is_empty() => return Ok(()),
                Ok(()) => anyhow!("the server is busy"),
                Err(error) => error,
            };
            if Instant::now() >= deadline {
                state.save()?;
                let what = "the server became unavailable during the import";
                return Err(CliError::of(
                    anyhow!("{error:#}"),
                    what,
                    "run the same command again: it continues, and nothing is applied twice",
                ));
            }
            std::thread::sleep(PAUSE);
        }
    }

    /// Sends the batch once. Records without a definite reply stay in it.
    fn send_batch(&mut self, state: &mut State) -> Result<()> {
        if self.waiting.is_empty() {
            return Ok(());
        }
        let mut connection = match self.connection.take() {
            Some(connection) => connection,
            None => Resp::connect(self.server)?,
        };
        let bytes: Vec<u8> = self.waiting.iter().flat_map(|(_, bytes)| bytes.iter().copied()).collect();
        connection.send(&bytes).map_err(|error| lost(&error))?;
        let mut retry = Vec::new();
        let mut waiting = std::mem::take(&mut self.waiting).into_iter();
        while let Some((line, bytes)) = waiting.next() {
            let reply = match connection.receive() {
                Ok(reply) => reply,
                Err(error) => {
                    retry.push((line, bytes));
                    retry.extend(waiting);
                    self.waiting = retry;
                    return Err(lost(&error));
                }
            };
            match reply {
                Value::Error(text) => {
                    let text = String::from_utf8_lossy(&text).into_owned();
                    if ["BUSY", "LOADING", "MISCONF"].iter().any(|code| text.starts_with(code)) {
                        retry.push((line, bytes));
                    } else {
                        state.fail(&line, text);
                    }
                }
                reply => {
                    self.count(&AddResult::of(&reply)?);
                    state.done(&line);
                }
            }
        }
        self.waiting = retry;
        self.connection = Some(connection);
        Ok(())
    }

    fn count(&mut self, result: &AddResult) {
        match result.status.as_str() {
            "applied" => self.counts.applied += 1,
            "refused" | "refused-replayed" => self.counts.refused += 1,
            _ => self.counts.replayed += 1,
        }
    }
}
