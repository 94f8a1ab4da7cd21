//! Commands with an operation id: parsing and replies.
//!
//! | command | reply |
//! |---|---|
//! | `JADD key delta ID id [MIN n] [MAX n]` | value, `applied`, `replayed`, `refused` or `refused-replayed` |
//! | `JMADD ID id key delta [key delta ...]` | values, status as for `JADD` |
//! | `JSET key value ID id`, `JRESET key ID id`, `JDEL key ID id` | value, status as for `JADD` |
//! | `JGET key` | a counter as an integer, bytes as a bulk string, or null |
//! | `JOP key id` | status of the id for the key |
//!
//! A table with relaxed durability adds a third element, `relaxed`. A probabilistic table whose filter
//! contains the id replies `probably-seen`.

use std::sync::Arc;

use jeton_auth::Right;
use jeton_core::{Change, Durability, IdStatus, OpId, Operation, OperationResult, Table};
use jeton_engine::OperationOutcome;
use jeton_resp::reply_writer::Writer;
use jeton_resp::request_parser::Command;

use super::command_table::IdCommand;
use super::keyspace::{self, integer};
use super::pipeline::Item;
use super::reply::{self, CROSS, Reply, SYNTAX};
use super::session::Session;

/// Options after the key and the delta.
#[derive(Default)]
struct Options<'a> {
    id: Option<&'a [u8]>,
    min: Option<i64>,
    max: Option<i64>,
}

impl<'a> Options<'a> {
    fn parse(command: &Command<'a>, from: usize, bounds: bool) -> Result<Self, String> {
        let mut options = Self::default();
        let mut at = from;
        while let Some(word) = command.get(at) {
            let argument = command.get(at + 1).ok_or(SYNTAX)?;
            if word.eq_ignore_ascii_case(b"ID") && options.id.is_none() {
                options.id = Some(argument);
            } else if bounds && word.eq_ignore_ascii_case(b"MIN") && options.min.is_none() {
                options.min = Some(integer(argument)?);
            } else if bounds && word.eq_ignore_ascii_case(b"MAX") && options.max.is_none() {
                options.max = Some(integer(argument)?);
            } else {
                return Err(SYNTAX.into());
            }
            at += 2;
        }
        Ok(options)
    }

    fn id(&self, table: &Table) -> Result<Option<OpId>, String> {
        self.id.map(|id| parse_id(table, id)).transpose()
    }
}

fn parse_id(table: &Table, id: &[u8]) -> Result<OpId, String> {
    table.settings().formats.parse_bytes(id).map_err(|error| format!("IDFORMAT {error}"))
}

/// Parses a command with an operation id, other than `JGET` and `JOP`.
pub fn parse(
    spec: IdCommand,
    command: &Command<'_>,
    session: &mut Session,
) -> Result<(Operation, Item), String> {
    if spec == IdCommand::AddMany {
        return parse_many(command, session);
    }
    let right = if spec == IdCommand::Add { Right::Add } else { Right::Admin };
    let key = session.resolve(&command[1], right)?;
    let (change, options) = match spec {
        IdCommand::Add => {
            let delta = integer(&command[2])?;
            let options = Options::parse(command, 3, true)?;
            let change = match (options.min, options.max) {
                (None, None) => Change::Add(delta),
                (min, max) => Change::AddWithin { delta, min, max },
            };
            (change, options)
        }
        IdCommand::Set => (keyspace::set(&command[2]), Options::parse(command, 3, false)?),
        IdCommand::Reset => (Change::Reset, Options::parse(command, 2, false)?),
        _ => (Change::Delete, Options::parse(command, 2, false)?),
    };
    let id = options.id(&key.table)?;
    let operation = Operation::single(id, key.cell, change).map_err(reply::invalid_operation)?;
    Ok((operation, Item::WithId { relaxed: is_relaxed(&key.table), many: false }))
}

fn is_relaxed(table: &Table) -> bool {
    table.settings().durability == Durability::Relaxed
}

/// `JMADD ID id key delta [key delta ...]`.
fn parse_many(command: &Command<'_>, session: &mut Session) -> Result<(Operation, Item), String> {
    if !command[1].eq_ignore_ascii_case(b"ID") || command.len().is_multiple_of(2) {
        return Err(SYNTAX.into());
    }
    let mut changes = Vec::with_capacity(command.len() / 2 - 1);
    let mut table = None;
    for at in (3..command.len()).step_by(2) {
        let key = session.resolve(&command[at], Right::Add)?;
        // The table determines the id format.
        if table.as_ref().is_some_and(|table: &Arc<Table>| table.id != key.table.id) {
            return Err(CROSS.into());
        }
        changes.push((key.cell, Change::Add(integer(&command[at + 1])?)));
        table = Some(key.table);
    }
    let Some(table) = table else { return Err(SYNTAX.into()) };
    let id = Some(parse_id(&table, &command[2])?);
    let operation = Operation::batch(id, changes).map_err(reply::invalid_operation)?;
    Ok((operation, Item::WithId { relaxed: is_relaxed(&table), many: true }))
}

pub fn write_outcome(outcome: &OperationOutcome, relaxed: bool, many: bool, writer: &mut Writer<'_>) {
    let (result, word): (_, &'static [u8]) = match outcome {
        OperationOutcome::Fresh(result) if result.applied => (Some(result), b"+applied\r\n"),
        OperationOutcome::Fresh(result) => (Some(result), b"+refused\r\n"),
        OperationOutcome::Replayed(result) if result.applied => (Some(result), b"+replayed\r\n"),
        OperationOutcome::Replayed(result) => (Some(result), b"+refused-replayed\r\n"),
        OperationOutcome::ProbablySeen => (None, b"+probably-seen\r\n"),
    };
    writer.array(2 + usize::from(relaxed));
    let values = result.map(|result| result.values.as_slice());
    match values {
        Some(values) if many => {
            writer.array(values.len());
            values.iter().for_each(|value| Reply::from(*value).write(writer));
        }
        _ => Reply::from(values.and_then(|values| *values.first()?)).write(writer),
    }
    writer.preformatted(word);
    if relaxed {
        writer.preformatted(b"+relaxed\r\n");
    }
}

/// `JOP key id`: the status of an id that was used for a key, and its first result.
pub async fn operation(session: &mut Session, arguments: &[Vec<u8>]) -> Result<Reply, String> {
    // Earlier versions took an id, and no key.
    let [_, key, id] = arguments else { return Err("ERR syntax error: use JOP key id".into()) };
    let key = session.resolve(key, Right::Read)?;
    let id = parse_id(&key.table, id)?;
    let status = session.service.engine.operation(key.cell, id).await.map_err(reply::engine_error)?;
    let word = match status {
        IdStatus::Yes(result) => return Ok(result_reply(&result)),
        IdStatus::Probably => "probably-seen",
        IdStatus::Forgotten => "forgotten",
        IdStatus::No => "unknown",
    };
    Ok(Reply::Array(vec![Reply::Word(word)]))
}

fn result_reply(result: &OperationResult) -> Reply {
    let values = result.values.as_slice().iter().copied().map(Reply::from);
    Reply::Array(vec![
        Reply::Word(if result.applied { "applied" } else { "refused" }),
        Reply::Array(values.collect()),
        Reply::Integer(result.millis as i64),
    ])
}
