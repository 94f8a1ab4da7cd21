//! Commands that take several steps: changes that depend on present values, transactions, and scans.
//!
//! A change reads its keys, computes their new values, and writes them on the condition that the keys still
//! hold what was read. After a conflict it starts again. Each command is therefore atomic, as in Redis,
//! without locks.

use std::collections::HashMap;

use jeton_auth::Right;
use jeton_core::{Cell, Change, Check, Operation, OperationError, Value};
use jeton_engine::{Ask, OperationOutcome, Response};

use super::command_table::{CommandSpec, IdCommand, Kind};
use super::connection_commands;
use super::id_commands;
use super::keyspace::{self, Keyspace};
use super::pipeline::OwnedCommand;
use super::reply::{self, CROSS, Reply};
use super::scan;
use super::session::{MultiQueue, Session};
use super::turn::Turn;
use crate::service::{operation_outcome, read_value};

/// Keys read or written per batch by commands with many keys.
const KEYS_BATCH: usize = 1000;

/// Maximum bytes of values in the reply of a command with many keys.
const READ_BYTES_MAX: usize = 64 << 20;

/// Attempts of a change that conflicts with other writers.
const ATTEMPTS_MAX: usize = 100;

pub async fn run(command: OwnedCommand, session: &mut Session) -> Reply {
    let OwnedCommand { spec, arguments } = &command;
    let result = match (spec.kind, spec.name) {
        (Kind::WithId(IdCommand::Operation), _) => id_commands::operation(session, arguments).await,
        (Kind::Scan, _) => scan::run(spec, arguments, session).await,
        (_, "MULTI") if session.queued.is_some() => Err("ERR MULTI calls can not be nested".into()),
        (_, "MULTI") => {
            session.queued = Some(MultiQueue::default());
            Ok(Reply::Ok)
        }
        (_, "DISCARD") => {
            session.queued.take().map(|_| Reply::Ok).ok_or_else(|| "ERR DISCARD without MULTI".into())
        }
        (_, "EXEC") => execute(session).await,
        (_, "MSET") => set_each(spec, arguments, session).await,
        (Kind::Read, _) => read_many(spec, arguments, session).await,
        (_, "DEL" | "UNLINK") => delete_each(arguments, session).await,
        _ => {
            let replies = change(&[command], session).await;
            replies.map(|mut replies| replies.pop().unwrap_or(Reply::Null))
        }
    };
    result.unwrap_or_else(Reply::Error)
}

async fn execute(session: &mut Session) -> Result<Reply, String> {
    let queued = session.queued.take().ok_or("ERR EXEC without MULTI")?;
    if queued.broken {
        return Err("EXECABORT Transaction discarded because of previous errors.".into());
    }
    change(&queued.commands, session).await.map(Reply::Array)
}

/// Executes commands atomically. All keys must be in one table and partition.
async fn change(commands: &[OwnedCommand], session: &mut Session) -> Result<Vec<Reply>, String> {
    let mut cells: HashMap<&[u8], Cell> = HashMap::new();
    for OwnedCommand { spec, arguments } in commands {
        let right = match spec.kind {
            Kind::Read | Kind::Get | Kind::WithId(IdCommand::Get) => Right::Read,
            Kind::Add(_) => Right::Add,
            _ if spec.name == "INCREX" => Right::Add,
            _ => Right::Admin,
        };
        // A key without a value is an error that the command reports when it runs, as in Redis.
        let unpaired = spec.name.starts_with("MSET") && arguments.len().is_multiple_of(2);
        for at in spec.keys(arguments.len()).filter(|_| !unpaired) {
            let resolved = session.resolve(&arguments[at], right)?;
            let differs = |first: &Cell| {
                (first.table(), first.routing_key()) != (resolved.cell.table(), resolved.cell.routing_key())
            };
            if cells.values().next().is_some_and(differs) {
                return Err(CROSS.into());
            }
            cells.insert(&arguments[at], resolved.cell);
        }
    }
    let service = session.service.clone();
    for _ in 0..ATTEMPTS_MAX {
        let millis = service.millis();
        let reads = cells.values().map(|cell| Ask::Read(cell.clone())).collect();
        let mut keyspace = Keyspace::default();
        for ((name, cell), response) in cells.iter().zip(service.submit_batch(reads).await) {
            keyspace.insert(name, Some(cell.clone()), read_value(response).map_err(reply::engine_error)?);
        }
        let (mut replies, mut turn) = (Vec::with_capacity(commands.len()), Turn::start());
        for OwnedCommand { spec, arguments } in commands {
            let plain = connection_commands::plain(spec, arguments, millis);
            replies.push(plain.unwrap_or_else(|| keyspace.run(spec, arguments, millis)));
            turn.yield_at_end().await;
        }
        if keyspace.changed().next().is_none() {
            return Ok(replies);
        }
        let request = service.engine.to_request(Ask::Apply(conditional(&keyspace)?));
        for response in session.submit_batch(vec![request]).await {
            if is_applied(response)? {
                return Ok(replies);
            }
        }
    }
    Err("BUSY other clients change the same keys; retry".into())
}

/// The operation that writes the changes of a keyspace if its keys still hold the values read.
fn conditional(keyspace: &Keyspace) -> Result<Operation, String> {
    let checks = keyspace.read().map(|(cell, value)| {
        let check = value.map_or(Check::Absent, |value| Check::Holds(value.clone()));
        (cell.clone(), Change::Check(check))
    });
    let mut changes: Vec<_> = checks.collect();
    for (cell, before, now) in keyspace.changed() {
        let until = now.and_then(Value::until);
        // Where only the expiry time changes, the value is not logged a second time.
        let same_value = now.is_some() && before.cloned().map(Value::plain) == now.cloned().map(Value::plain);
        if !same_value {
            changes.push((cell.clone(), write(now)));
        }
        if same_value || until.is_some() {
            changes.push((cell.clone(), Change::Expire(until)));
        }
    }
    Operation::batch(None, changes).map_err(|error| match error {
        OperationError::TooManyChanges(_) | OperationError::TooLarge(_) => {
            format!("ERR too much to change at once: {error}")
        }
        other => reply::invalid_operation(other),
    })
}

fn write(value: Option<&Value>) -> Change {
    match value.cloned().map(Value::plain) {
        None => Change::Delete,
        Some(Value::Counter(number)) => Change::Set(number),
        Some(Value::Bytes(bytes)) => Change::Put(bytes),
        Some(Value::Expiring(_)) => unreachable!("a plain value does not expire"),
    }
}

/// `MSET`: atomic if all keys have the same hash tag, otherwise key by key.
async fn set_each(spec: &CommandSpec, arguments: &[Vec<u8>], session: &mut Session) -> Result<Reply, String> {
    if arguments.len().is_multiple_of(2) {
        return Err(reply::arity_error(b"mset"));
    }
    let cells = resolve_all(arguments[1..].iter().step_by(spec.keys.2 as usize), session).await?;
    let values = arguments[2..].iter().step_by(2).map(|value| keyspace::set(value));
    let requests: Vec<_> = cells.into_iter().zip(values).collect();
    let operations = match Operation::batch(None, requests.clone()) {
        Ok(operation) => vec![operation],
        Err(_) => {
            let each = requests.into_iter().map(|(cell, change)| Operation::single(None, cell, change));
            each.collect::<Result<Vec<_>, _>>().map_err(reply::invalid_operation)?
        }
    };
    apply_each(operations, session).await?;
    Ok(Reply::Ok)
}

/// `MGET`, `EXISTS` and `TOUCH` of more keys than a pipeline batch takes. Reads in batches, so that the
/// values are not all in memory twice.
async fn read_many(
    spec: &CommandSpec,
    arguments: &[Vec<u8>],
    session: &mut Session,
) -> Result<Reply, String> {
    let service = session.service.clone();
    let (mut values, mut bytes, mut present) = (Vec::new(), 0, 0);
    for keys in arguments[1..].chunks(KEYS_BATCH) {
        let mut requests = Vec::with_capacity(keys.len());
        for key in keys {
            requests.push(Ask::Read(session.resolve(key, Right::Read)?.cell));
        }
        for response in service.submit_batch(requests).await {
            let value = read_value(response).map_err(reply::engine_error)?;
            present += i64::from(value.is_some());
            if spec.name == "MGET" {
                let reply = Reply::value(value.as_ref());
                bytes += if let Reply::Bulk(text) = &reply { text.len() } else { 0 };
                values.push(reply);
            }
        }
        if bytes > READ_BYTES_MAX {
            return Err(format!("ERR the reply is longer than {READ_BYTES_MAX} bytes: request fewer keys"));
        }
    }
    Ok(if spec.name == "MGET" { Reply::Array(values) } else { Reply::Integer(present) })
}

/// `DEL`: returns how many of the keys existed.
async fn delete_each(arguments: &[Vec<u8>], session: &mut Session) -> Result<Reply, String> {
    let cells = resolve_all(arguments[1..].iter(), session).await?;
    delete(cells, session).await.map(Reply::Integer)
}

/// Deletes each cell in an operation of its own and returns how many existed.
pub async fn delete(cells: Vec<Cell>, session: &Session) -> Result<i64, String> {
    let deletion = |cell: Cell| {
        let changes = vec![(cell.clone(), Change::Check(Check::Present)), (cell, Change::Delete)];
        Operation::batch(None, changes).map_err(reply::invalid_operation)
    };
    let operations = cells.into_iter().map(deletion).collect::<Result<Vec<_>, _>>()?;
    apply_each(operations, session).await
}

/// Resolves the keys of a command that writes. All of them are checked before the first is changed.
async fn resolve_all(
    keys: impl Iterator<Item = &Vec<u8>>,
    session: &mut Session,
) -> Result<Vec<Cell>, String> {
    let (mut cells, mut turn) = (Vec::new(), Turn::start());
    for key in keys {
        cells.push(session.resolve(key, Right::Admin)?.cell);
        turn.yield_at_end().await;
    }
    Ok(cells)
}

/// Applies operations in batches, which the queue of the engine takes, and returns how many were applied.
async fn apply_each(operations: Vec<Operation>, session: &Session) -> Result<i64, String> {
    let mut operations = operations.into_iter();
    let mut applied = 0;
    while !operations.as_slice().is_empty() {
        let batch = operations.by_ref().take(KEYS_BATCH);
        let requests = batch.map(|one| session.service.engine.to_request(Ask::Apply(one))).collect();
        for response in session.submit_batch(requests).await {
            applied += i64::from(is_applied(response)?);
        }
    }
    Ok(applied)
}

fn is_applied(response: Response) -> Result<bool, String> {
    Ok(match operation_outcome(response).map_err(reply::engine_error)? {
        OperationOutcome::Fresh(result) | OperationOutcome::Replayed(result) => result.applied,
        OperationOutcome::ProbablySeen => false,
    })
}
