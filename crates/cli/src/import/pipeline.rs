//! Lines on their way: sent together, answered together, and sent again under the same ids when an answer does not come.

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

/// Lines that are sent together.
const ROUND: usize = 512;

/// The pause before lines are sent again.
const PAUSE: Duration = Duration::from_millis(100);

/// How long a server may be away or busy before the import gives up; what was done is written down.
const PATIENCE: Duration = Duration::from_secs(60);

/// The longest part of a made id that comes from the name of the import.
const NAME_CHARS: usize = 100;

/// What became of the lines.
#[derive(Debug, Default)]
pub struct ImportCounts {
    pub applied: u64,
    pub replayed: u64,
    pub refused: u64,
    /// How long the table remembers ids that were made here, if any were.
    pub opaque_window: Option<String>,
}

impl ImportCounts {
    pub fn all(&self) -> u64 {
        self.applied + self.replayed + self.refused
    }
}

/// Lines on their way.
pub struct ImportPipeline<'a> {
    server: &'a ServerArgs,
    connection: Option<Resp>,
    name: String,
    waiting: Vec<(Line, Vec<u8>)>,
    tally: ImportCounts,
    /// What goes before an opaque id in each table that takes some.
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
            tally: ImportCounts::default(),
            tags: HashMap::new(),
        })
    }

    pub fn tally(&self) -> &ImportCounts {
        &self.tally
    }

    /// Takes a line, and sends the round if it is full.
    pub fn take(&mut self, reader: &mut Reader, line: Line, state: &mut State) -> Result<()> {
        match reader.read(&line)? {
            Ok(None) => state.done(&line),
            Err(why) => state.fail(&line, why),
            Ok(Some(record)) => {
                let bytes = self.command(&line, &record)?;
                self.waiting.push((line, bytes));
            }
        }
        if self.waiting.len() < ROUND {
            return Ok(());
        }
        self.finish(state)?;
        state.save_now_and_then()
    }

    fn command(&mut self, line: &Line, record: &Record) -> Result<Vec<u8>> {
        let id = match &record.id {
            Some(id) => id.clone(),
            None => self.made_id(line, record)?,
        };
        let mut bytes = Vec::new();
        let delta = record.delta.to_string();
        command(&mut bytes, &[b"JADD", record.key.as_bytes(), delta.as_bytes(), b"ID", id.as_bytes()]);
        Ok(bytes)
    }

    /// The id of a line that has none: the same whenever this line of this import is read.
    fn made_id(&mut self, line: &Line, record: &Record) -> Result<String> {
        let table = record.key.split_once('/').map_or("default", |(table, _)| table);
        let tag = match self.tags.get(table) {
            Some(tag) => tag,
            None => self.tag(table, line)?,
        };
        let name: String = self.name.chars().filter(|one| !one.is_control()).take(NAME_CHARS).collect();
        let text = xxh3_64(format!("{}\n{}", self.name, line.text).as_bytes());
        Ok(format!("{tag}{name}:{}:{text:016x}", line.number))
    }

    /// What goes before an opaque id in a table, if it takes some at all.
    fn tag(&mut self, table: &str, line: &Line) -> Result<&'static str> {
        let fix = format!(
            "give each line an id; or import into a table of its own that takes made ones: jeton table create NAME --format opaque \
             --opaque-window 30d (here: {table})"
        );
        let what = format!("line {} has no id", line.number);
        let found = table::find(self.server, table)
            .map_err(|why| {
                CliError::of(anyhow!("whether {table} takes made ids cannot be asked: {why:#}"), &what, &fix)
            })?
            .ok_or_else(|| {
                let fix = format!("make it: jeton table create {table} --format opaque");
                CliError::of(anyhow!("there is no table {table}"), &what, fix)
            })?;
        let settings = &found["settings"];
        let formats: Vec<&str> =
            settings["formats"].as_array().into_iter().flatten().filter_map(|one| one.as_str()).collect();
        if !formats.contains(&"opaque") {
            let why = anyhow!(
                "the table {table} takes only {} ids, and none of these can be made of a line",
                formats.join(", ")
            );
            return Err(CliError::of(why, what, fix));
        }
        self.tally.opaque_window = settings["opaque_window"].as_str().map(str::to_owned);
        let tag = if formats.len() > 1 { "opaque:" } else { "" };
        self.tags.insert(table.to_owned(), tag);
        Ok(tag)
    }

    /// Sends what waits until all of it is answered.
    pub fn finish(&mut self, state: &mut State) -> Result<()> {
        let deadline = Instant::now() + PATIENCE;
        loop {
            let trouble = match self.round(state) {
                Ok(()) if self.waiting.is_empty() => return Ok(()),
                Ok(()) => anyhow!("the server is busy"),
                Err(why) => why,
            };
            if Instant::now() >= deadline {
                state.save()?;
                let what = "the server stopped answering in the middle of the import";
                return Err(CliError::of(
                    anyhow!("{trouble:#}"),
                    what,
                    "run the same again: it goes on, and nothing counts twice",
                ));
            }
            std::thread::sleep(PAUSE);
        }
    }

    /// Sends what waits, once. What was not answered for good waits on.
    fn round(&mut self, state: &mut State) -> Result<()> {
        if self.waiting.is_empty() {
            return Ok(());
        }
        let mut connection = match self.connection.take() {
            Some(connection) => connection,
            None => Resp::connect(self.server)?,
        };
        let bytes: Vec<u8> = self.waiting.iter().flat_map(|(_, bytes)| bytes.iter().copied()).collect();
        connection.send(&bytes).map_err(|why| lost(&why))?;
        let mut later = Vec::new();
        let mut waiting = std::mem::take(&mut self.waiting).into_iter();
        while let Some((line, bytes)) = waiting.next() {
            let answer = match connection.receive() {
                Ok(answer) => answer,
                Err(why) => {
                    later.push((line, bytes));
                    later.extend(waiting);
                    self.waiting = later;
                    return Err(lost(&why));
                }
            };
            match answer {
                Value::Error(text) => {
                    let text = String::from_utf8_lossy(&text).into_owned();
                    if ["BUSY", "LOADING", "MISCONF"].iter().any(|code| text.starts_with(code)) {
                        later.push((line, bytes));
                    } else {
                        state.fail(&line, text);
                    }
                }
                answer => {
                    self.count(&AddResult::of(&answer)?);
                    state.done(&line);
                }
            }
        }
        self.waiting = later;
        self.connection = Some(connection);
        Ok(())
    }

    fn count(&mut self, answered: &AddResult) {
        match answered.status.as_str() {
            "applied" => self.tally.applied += 1,
            "refused" | "refused-replayed" => self.tally.refused += 1,
            _ => self.tally.replayed += 1,
        }
    }
}
