//! The verbs with an id: what they ask for, and what they are told.
//!
//! | verb | answer |
//! |---|---|
//! | `JADD key delta ID id [MIN n] [MAX n]` | value, `applied`, `replayed`, `refused` or `refused-replayed` |
//! | `JMADD ID id key delta [key delta ...]` | values, the same words |
//! | `JSET key value ID id`, `JRESET key ID id`, `JDEL key ID id` | value, the same words |
//! | `JGET key` | a counter as an integer, bytes as bytes, or nothing |
//! | `JOP id [TABLE name]` | what became of the id |
//!
//! In a table with relaxed durability a third element says `relaxed`; a probabilistic table that takes an id for known
//! says `probably-seen`.

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
use super::keyspace::integer;
use super::reply::{self, CROSS, Reply, SYNTAX};
use super::session::Session;

/// An operation that a verb with an id asks for.
pub struct Asked {
    pub operation: Operation,
    pub relaxed: bool,
    /// Whether the answer is a list of values.
    pub many: bool,
}

/// What follows the key and the amount.
#[derive(Default)]
struct Options<'a> {
    id: Option<&'a [u8]>,
    min: Option<i64>,
    max: Option<i64>,
}

impl<'a> Options<'a> {
    fn read(command: &Command<'a>, from: usize, bounds: bool) -> Result<Self, String> {
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
        self.id.map(|id| read_id(table, id)).transpose()
    }
}

fn read_id(table: &Table, id: &[u8]) -> Result<OpId, String> {
    table.settings().formats.parse_bytes(id).map_err(|error| format!("IDFORMAT {error}"))
}

/// What a verb with an id asks for. `JGET` and `JOP` are not for here.
pub fn ask(
    verb: IdCommand,
    command: &Command<'_>,
    session: &mut Session,
    millis: u64,
) -> Result<Asked, String> {
    if verb == IdCommand::AddMany {
        return ask_many(command, session, millis);
    }
    let right = if verb == IdCommand::Add { Right::Add } else { Right::Admin };
    let place = session.place(&command[1], right, millis)?;
    let (change, options) = match verb {
        IdCommand::Add => {
            let delta = integer(&command[2])?;
            let options = Options::read(command, 3, true)?;
            let change = match (options.min, options.max) {
                (None, None) => Change::Add(delta),
                (min, max) => Change::AddWithin { delta, min, max },
            };
            (change, options)
        }
        IdCommand::Set => {
            let change = match Value::from_text(&command[2]) {
                Value::Counter(value) => Change::Set(value),
                _ => Change::Put(command[2].into()),
            };
            (change, Options::read(command, 3, false)?)
        }
        IdCommand::Reset => (Change::Reset, Options::read(command, 2, false)?),
        _ => (Change::Delete, Options::read(command, 2, false)?),
    };
    let id = options.id(&place.table)?;
    let operation = Operation::single(id, place.cell, change).map_err(|error| format!("ERR {error}"))?;
    let relaxed = place.table.settings().durability == Durability::Relaxed;
    Ok(Asked { operation, relaxed, many: false })
}

/// `JMADD ID id key delta [key delta ...]`.
fn ask_many(command: &Command<'_>, session: &mut Session, millis: u64) -> Result<Asked, String> {
    if !command[1].eq_ignore_ascii_case(b"ID") || command.len().is_multiple_of(2) {
        return Err(SYNTAX.into());
    }
    let mut changes = Vec::with_capacity(command.len() / 2 - 1);
    let mut table = None;
    for at in (3..command.len()).step_by(2) {
        let place = session.place(&command[at], Right::Add, millis)?;
        // In which form the id is, the one table says.
        if table.as_ref().is_some_and(|table: &Arc<Table>| table.id != place.table.id) {
            return Err(CROSS.into());
        }
        changes.push((place.cell, Change::Add(integer(&command[at + 1])?)));
        table = Some(place.table);
    }
    let Some(table) = table else { return Err(SYNTAX.into()) };
    let id = Some(read_id(&table, &command[2])?);
    let operation = Operation::batch(id, changes).map_err(|error| match error {
        OperationError::SeveralPartitions => CROSS.into(),
        other => format!("ERR {other}"),
    })?;
    Ok(Asked { operation, relaxed: table.settings().durability == Durability::Relaxed, many: true })
}

/// Tells what became of it.
pub fn tell(
    reply: &Result<OperationOutcome, EngineError>,
    relaxed: bool,
    many: bool,
    writer: &mut Writer<'_>,
) {
    let (answer, word): (_, &'static [u8]) = match reply {
        Ok(OperationOutcome::Fresh(answer)) if answer.applied => (Some(answer), b"+applied\r\n"),
        Ok(OperationOutcome::Fresh(answer)) => (Some(answer), b"+refused\r\n"),
        Ok(OperationOutcome::Replayed(answer)) if answer.applied => (Some(answer), b"+replayed\r\n"),
        Ok(OperationOutcome::Replayed(answer)) => (Some(answer), b"+refused-replayed\r\n"),
        Ok(OperationOutcome::ProbablySeen) => (None, b"+probably-seen\r\n"),
        Err(refusal) => return writer.error(&reply::refusal(refusal)),
    };
    writer.array(2 + usize::from(relaxed));
    match answer {
        None => writer.null(),
        Some(answer) if many => tell_values(&answer.values, writer),
        Some(answer) => tell_value(answer.values.as_slice().first().copied().flatten(), writer),
    }
    writer.known(word);
    if relaxed {
        writer.known(b"+relaxed\r\n");
    }
}

fn tell_value(value: Option<i64>, writer: &mut Writer<'_>) {
    match value {
        Some(value) => writer.integer(value),
        None => writer.null(),
    }
}

fn tell_values(values: &Values, writer: &mut Writer<'_>) {
    writer.array(values.as_slice().len());
    values.as_slice().iter().for_each(|value| tell_value(*value, writer));
}

/// Tells what `JGET` reads.
pub fn tell_held(value: Option<&Value>, writer: &mut Writer<'_>) {
    match value {
        None => writer.null(),
        Some(value) => match value.counter() {
            Some(number) => writer.integer(number),
            None => writer.bulk(&value.text()),
        },
    }
}

/// `JOP id [TABLE name]`: what became of an id, in words, with its first answer.
pub async fn operation(session: &mut Session, arguments: &[Vec<u8>], millis: u64) -> Reply {
    match find_operation(session, arguments, millis).await {
        Ok(said) => said,
        Err(error) => Reply::Error(error),
    }
}

async fn find_operation(session: &mut Session, arguments: &[Vec<u8>], millis: u64) -> Result<Reply, String> {
    let service = session.service.clone();
    let name = match arguments {
        [_, _] => service.options.default_table.as_str(),
        [_, _, word, name] if word.eq_ignore_ascii_case(b"TABLE") => {
            std::str::from_utf8(name).map_err(|_| "NOTABLE the name of a table is text".to_string())?
        }
        _ => return Err(SYNTAX.into()),
    };
    let table = session.table(name, Right::Read, millis)?;
    let id = read_id(&table, &arguments[1])?;
    let found = service.engine.operation(&table, &id).await.map_err(|refusal| reply::refusal(&refusal))?;
    Ok(summary(&found))
}

/// Answers first, then what is only suspected.
fn summary(found: &[(PartitionId, IdStatus)]) -> Reply {
    let answers: Vec<&OperationResult> = found
        .iter()
        .filter_map(|(_, known)| if let IdStatus::Yes(answer) = known { Some(answer) } else { None })
        .collect();
    if let [answer] = answers[..] {
        return tell_answer(answer);
    }
    if !answers.is_empty() {
        // The same id on rows of several partitions: each counted once.
        return Reply::Array(answers.into_iter().map(tell_answer).collect());
    }
    let any = |wanted: &IdStatus| found.iter().any(|(_, known)| known == wanted);
    Reply::Array(vec![Reply::Word(match () {
        () if any(&IdStatus::Probably) => "probably-seen",
        () if any(&IdStatus::Forgotten) => "forgotten",
        () => "unknown",
    })])
}

fn tell_answer(answer: &OperationResult) -> Reply {
    let values = answer.values.as_slice().iter().map(|value| value.map_or(Reply::Null, Reply::Integer));
    Reply::Array(vec![
        Reply::Word(if answer.applied { "applied" } else { "refused" }),
        Reply::Array(values.collect()),
        Reply::Integer(answer.millis as i64),
    ])
}
