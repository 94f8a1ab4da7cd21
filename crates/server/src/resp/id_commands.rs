//! Commands with an operation id: parsing and replies.
//!
//! | command | reply |
//! |---|---|
//! | `JADD key delta ID id [MIN n] [MAX n]` | value, `applied`, `replayed`, `refused` or `refused-replayed` |
//! | `JMADD ID id key delta [key delta ...]` | values, status as for `JADD` |
//! | `JSET key value ID id`, `JRESET key ID id`, `JDEL key ID id` | value, status as for `JADD` |
//! | `JGET key` | a counter as an integer, bytes as a bulk string, or null |
//! | `JOP id [TABLE name]` | status of the id |
//!
//! A table with relaxed durability adds a third element, `relaxed`. A probabilistic table whose filter
//! contains the id replies `probably-seen`.

use std::sync::Arc;

use jeton_auth::Right;
use jeton_core::{
    Change, Durability, IdStatus, OpId, Operation, OperationError, OperationResult, PartitionId, Table,
    Value, Values,
};
use jeton_engine::{EngineError, OperationOutcome};
use jeton_resp::reply_writer::Writer;
use jeton_resp::request_parser::Command;

use super::command_table::IdCommand;
use super::keyspace::{self, integer};
use super::reply::{self, CROSS, Reply, SYNTAX};
use super::session::Session;

/// The operation of a command, and how to reply to it.
pub struct IdOperation {
    pub operation: Operation,
    pub relaxed: bool,
    /// Whether the reply has an array of values.
    pub many: bool,
}

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
pub fn parse(verb: IdCommand, command: &Command<'_>, session: &mut Session) -> Result<IdOperation, String> {
    if verb == IdCommand::AddMany {
        return parse_many(command, session);
    }
    let right = if verb == IdCommand::Add { Right::Add } else { Right::Admin };
    let key = session.resolve(&command[1], right)?;
    let (change, options) = match verb {
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
    let operation = Operation::single(id, key.cell, change).map_err(|error| format!("ERR {error}"))?;
    let relaxed = key.table.settings().durability == Durability::Relaxed;
    Ok(IdOperation { operation, relaxed, many: false })
}

/// `JMADD ID id key delta [key delta ...]`.
fn parse_many(command: &Command<'_>, session: &mut Session) -> Result<IdOperation, String> {
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
    let operation = Operation::batch(id, changes).map_err(|error| match error {
        OperationError::SeveralPartitions => CROSS.into(),
        other => format!("ERR {other}"),
    })?;
    Ok(IdOperation { operation, relaxed: table.settings().durability == Durability::Relaxed, many: true })
}

pub fn write_outcome(
    outcome: &Result<OperationOutcome, EngineError>,
    relaxed: bool,
    many: bool,
    writer: &mut Writer<'_>,
) {
    let (result, word): (_, &'static [u8]) = match outcome {
        Ok(OperationOutcome::Fresh(result)) if result.applied => (Some(result), b"+applied\r\n"),
        Ok(OperationOutcome::Fresh(result)) => (Some(result), b"+refused\r\n"),
        Ok(OperationOutcome::Replayed(result)) if result.applied => (Some(result), b"+replayed\r\n"),
        Ok(OperationOutcome::Replayed(result)) => (Some(result), b"+refused-replayed\r\n"),
        Ok(OperationOutcome::ProbablySeen) => (None, b"+probably-seen\r\n"),
        Err(error) => return writer.error(&reply::engine_error(error)),
    };
    writer.array(2 + usize::from(relaxed));
    match result {
        None => writer.null(),
        Some(result) if many => write_integers(&result.values, writer),
        Some(result) => write_integer(result.values.as_slice().first().copied().flatten(), writer),
    }
    writer.preformatted(word);
    if relaxed {
        writer.preformatted(b"+relaxed\r\n");
    }
}

fn write_integer(value: Option<i64>, writer: &mut Writer<'_>) {
    match value {
        Some(value) => writer.integer(value),
        None => writer.null(),
    }
}

fn write_integers(values: &Values, writer: &mut Writer<'_>) {
    writer.array(values.as_slice().len());
    values.as_slice().iter().for_each(|value| write_integer(*value, writer));
}

pub fn write_value(value: Option<&Value>, writer: &mut Writer<'_>) {
    match value {
        None => writer.null(),
        Some(value) => match value.counter() {
            Some(number) => writer.integer(number),
            None => writer.bulk(&value.text()),
        },
    }
}

/// `JOP id [TABLE name]`: the status of an id and its first result.
pub async fn operation(session: &mut Session, arguments: &[Vec<u8>]) -> Result<Reply, String> {
    let service = session.service.clone();
    let name = match arguments {
        [_, _] => service.options.default_table.as_str(),
        [_, _, word, name] if word.eq_ignore_ascii_case(b"TABLE") => {
            std::str::from_utf8(name).map_err(|_| "NOTABLE the name of a table is text".to_string())?
        }
        _ => return Err(SYNTAX.into()),
    };
    let table = session.table(name, Right::Read)?;
    let id = parse_id(&table, &arguments[1])?;
    let found = service.engine.operation(&table, &id).await.map_err(reply::engine_error)?;
    Ok(summary(&found))
}

/// Known results take precedence over uncertain statuses.
fn summary(found: &[(PartitionId, IdStatus)]) -> Reply {
    let results = found.iter().filter_map(|(_, status)| match status {
        IdStatus::Yes(result) => Some(result_reply(result)),
        _ => None,
    });
    let mut results: Vec<Reply> = results.collect();
    // An id that was used on rows of several partitions took effect once in each.
    match results.len() {
        0 => {}
        1 => return results.remove(0),
        _ => return Reply::Array(results),
    }
    let any = |expected: &IdStatus| found.iter().any(|(_, status)| status == expected);
    Reply::Array(vec![Reply::Word(match () {
        () if any(&IdStatus::Probably) => "probably-seen",
        () if any(&IdStatus::Forgotten) => "forgotten",
        () => "unknown",
    })])
}

fn result_reply(result: &OperationResult) -> Reply {
    let values = result.values.as_slice().iter().map(|value| value.map_or(Reply::Null, Reply::Integer));
    Reply::Array(vec![
        Reply::Word(if result.applied { "applied" } else { "refused" }),
        Reply::Array(values.collect()),
        Reply::Integer(result.millis as i64),
    ])
}
