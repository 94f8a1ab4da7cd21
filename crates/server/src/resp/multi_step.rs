//! Commands that take several steps: changes that depend on what a key holds, transactions, and walks through all keys.
//!
//! A change reads its keys, works out what they are to hold, and writes that on the condition that they still hold what was read. If
//! somebody was faster, it begins again. So each is done at one instant, as Redis does it, although nothing is locked.

use std::collections::HashSet;

use jeton_auth::Right;
use jeton_core::{Cell, Change, Check, Operation, OperationError, Value};
use jeton_engine::{Ask, OperationOutcome, Response};

use super::command_table::{CommandSpec, IdCommand, Kind};
use super::connection_commands;
use super::id_commands;
use super::keyspace::Keyspace;
use super::pipeline::MultiStepCommand;
use super::reply::{self, CROSS, Reply};
use super::scan;
use super::session::{MultiQueue, Session};

/// Keys that are looked at at a time, if there are many.
const STRIDE: usize = 1000;

/// The longest answer of a command that looks at many keys.
const LOOKED_BYTES_MAX: usize = 64 << 20;

/// How often a change is tried that others are faster than.
const TRIES_MAX: usize = 100;

/// Does a command.
pub async fn run(command: MultiStepCommand, session: &mut Session, millis: u64) -> Reply {
    let MultiStepCommand { verb, arguments } = command;
    let result = match (verb.kind, verb.name) {
        (Kind::Token(IdCommand::Operation), _) => {
            return id_commands::operation(session, &arguments, millis).await;
        }
        (Kind::Walk, _) => scan::run(verb, &arguments, session, millis).await,
        (_, "MULTI") => begin(session),
        (_, "DISCARD") => give_up(session),
        (_, "EXEC") => execute(session, millis).await,
        (_, "MSET") => set_each(verb, arguments, session, millis).await,
        (Kind::Look, _) => look_at_many(verb, &arguments, session, millis).await,
        (_, "DEL" | "UNLINK") => delete_each(&arguments, session, millis).await,
        _ => change(vec![(verb, arguments)], session, millis).await.map(|mut said| match said.pop() {
            Some(said) => said,
            None => unreachable!("one command has one answer"),
        }),
    };
    result.unwrap_or_else(Reply::Error)
}

fn begin(session: &mut Session) -> Result<Reply, String> {
    if session.queued.is_some() {
        return Err("ERR MULTI calls can not be nested".into());
    }
    session.queued = Some(MultiQueue::default());
    Ok(Reply::Ok)
}

fn give_up(session: &mut Session) -> Result<Reply, String> {
    session.queued.take().map(|_| Reply::Ok).ok_or_else(|| "ERR DISCARD without MULTI".into())
}

async fn execute(session: &mut Session, millis: u64) -> Result<Reply, String> {
    let queued = session.queued.take().ok_or("ERR EXEC without MULTI")?;
    if queued.broken {
        return Err("EXECABORT Transaction discarded because of previous errors.".into());
    }
    let verb = |name: &[u8]| match CommandSpec::find(name) {
        Some(verb) => verb,
        None => unreachable!("it was found when it was queued"),
    };
    let commands = queued.commands.into_iter().map(|command| (verb(&command[0]), command)).collect();
    change(commands, session, millis).await.map(Reply::Array)
}

/// Does commands at one instant: all keys in one table and partition.
async fn change(
    commands: Vec<(&'static CommandSpec, Vec<Vec<u8>>)>,
    session: &mut Session,
    millis: u64,
) -> Result<Vec<Reply>, String> {
    let mut cells: Vec<(Vec<u8>, Cell)> = Vec::new();
    let mut named = HashSet::new();
    for (verb, arguments) in &commands {
        let right = match verb.kind {
            Kind::Look | Kind::Get | Kind::Token(IdCommand::Get) => Right::Read,
            Kind::Add(_) => Right::Add,
            _ if verb.name == "INCREX" => Right::Add,
            _ => Right::Admin,
        };
        // Keys without values are none: the command is told so when it runs, as in Redis.
        let unpaired = verb.name.starts_with("MSET") && arguments.len().is_multiple_of(2);
        for at in verb.keys(arguments.len()).filter(|_| !unpaired) {
            let place = session.place(&arguments[at], right, millis)?;
            let first = cells.first().map(|(_, cell)| (cell.table(), cell.partition()));
            if first.is_some_and(|first| first != (place.cell.table(), place.cell.partition())) {
                return Err(CROSS.into());
            }
            if named.insert(arguments[at].clone()) {
                cells.push((arguments[at].clone(), place.cell));
            }
        }
    }
    let service = session.service.clone();
    for _ in 0..TRIES_MAX {
        let millis = service.millis();
        let reads = cells.iter().map(|(_, cell)| Ask::Read(cell.clone())).collect();
        let mut keyspace = Keyspace::default();
        for ((name, cell), response) in cells.iter().zip(service.submit_batch(reads).await) {
            match response {
                Response::Read(Ok(value)) => keyspace.insert(name, cell.clone(), value),
                Response::Read(Err(refusal)) | Response::Applied(Err(refusal)) => {
                    return Err(reply::refusal(&refusal));
                }
                other => unreachable!("a read is not answered with {other:?}"),
            }
        }
        let mut run = |(verb, arguments): &(&'static CommandSpec, Vec<Vec<u8>>)| {
            connection_commands::plain(verb, arguments, millis)
                .unwrap_or_else(|| keyspace.run(verb.name, arguments, millis))
        };
        let said = commands.iter().map(&mut run).collect();
        if keyspace.changed().next().is_none() {
            return Ok(said);
        }
        let request = service.engine.to_request(Ask::Apply(conditional(&keyspace)?));
        for response in session.submit_batch(vec![request]).await {
            if done(response)? {
                return Ok(said);
            }
        }
    }
    Err("BUSY others change the same keys all the time; ask again".into())
}

/// What makes the changes of a keyspace, if nobody changed anything of it meanwhile.
fn conditional(keyspace: &Keyspace) -> Result<Operation, String> {
    let checks = keyspace.read().map(|(cell, held)| {
        let check = held.map_or(Check::Absent, |value| Check::Holds(value.clone()));
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
        other => format!("ERR {other}"),
    })
}

fn write(value: Option<&Value>) -> Change {
    match value.cloned().map(Value::plain) {
        None => Change::Delete,
        Some(Value::Counter(number)) => Change::Set(number),
        Some(Value::Bytes(bytes)) => Change::Put(bytes),
        Some(Value::Expiring(_)) => unreachable!("a plain value has no end"),
    }
}

/// `MSET`: at one instant if one partition has all keys, and key by key otherwise.
async fn set_each(
    verb: &'static CommandSpec,
    arguments: Vec<Vec<u8>>,
    session: &mut Session,
    millis: u64,
) -> Result<Reply, String> {
    if arguments.len().is_multiple_of(2) {
        return Err(reply::arity_error(b"mset"));
    }
    let mut asks = Vec::new();
    for at in verb.keys(arguments.len()) {
        let cell = session.place(&arguments[at], Right::Admin, millis)?.cell;
        asks.push((cell, write(Some(&Value::from_text(&arguments[at + 1])))));
    }
    let together = Operation::batch(None, asks.clone());
    let operations = match together {
        Ok(operation) => vec![operation],
        Err(_) => {
            let each = asks.into_iter().map(|(cell, change)| Operation::single(None, cell, change));
            each.collect::<Result<Vec<_>, _>>().map_err(|error| format!("ERR {error}"))?
        }
    };
    let prepare = |operation| session.service.engine.to_request(Ask::Apply(operation));
    for response in session.submit_batch(operations.into_iter().map(prepare).collect()).await {
        done(response)?;
    }
    Ok(Reply::Ok)
}

/// `MGET`, `EXISTS` and `TOUCH` of more keys than a round has: some at a time, so that their values are not all in memory twice.
async fn look_at_many(
    verb: &'static CommandSpec,
    arguments: &[Vec<u8>],
    session: &mut Session,
    millis: u64,
) -> Result<Reply, String> {
    let service = session.service.clone();
    let (mut values, mut bytes, mut present) = (Vec::new(), 0, 0);
    for keys in arguments[1..].chunks(STRIDE) {
        let mut asks = Vec::with_capacity(keys.len());
        for key in keys {
            asks.push(Ask::Read(session.place(key, Right::Read, millis)?.cell));
        }
        for response in service.submit_batch(asks).await {
            let value = match response {
                Response::Read(Ok(value)) => value,
                Response::Read(Err(refusal)) | Response::Applied(Err(refusal)) => {
                    return Err(reply::refusal(&refusal));
                }
                other => unreachable!("a read is not answered with {other:?}"),
            };
            present += i64::from(value.is_some());
            if verb.name == "MGET" {
                let said = Reply::value(value.as_ref());
                bytes += if let Reply::Bulk(text) = &said { text.len() } else { 0 };
                values.push(said);
            }
        }
        if bytes > LOOKED_BYTES_MAX {
            return Err(format!(
                "ERR the answer is longer than {LOOKED_BYTES_MAX} bytes: ask for fewer keys at a time"
            ));
        }
    }
    Ok(if verb.name == "MGET" { Reply::Array(values) } else { Reply::Integer(present) })
}

/// `DEL`: how many keys there were, each at an instant of its own.
async fn delete_each(arguments: &[Vec<u8>], session: &mut Session, millis: u64) -> Result<Reply, String> {
    let mut asks = Vec::new();
    for key in &arguments[1..] {
        let cell = session.place(key, Right::Admin, millis)?.cell;
        let changes = vec![(cell.clone(), Change::Check(Check::Present)), (cell, Change::Delete)];
        let operation = Operation::batch(None, changes).map_err(|error| format!("ERR {error}"))?;
        asks.push(Ask::Apply(operation));
    }
    let service = session.service.clone();
    let mut deleted = 0;
    for response in service.submit_batch(asks).await {
        deleted += i64::from(done(response)?);
    }
    Ok(Reply::Integer(deleted))
}

/// Whether an operation was made.
fn done(response: Response) -> Result<bool, String> {
    match response {
        Response::Applied(Ok(OperationOutcome::Fresh(answer) | OperationOutcome::Replayed(answer))) => {
            Ok(answer.applied)
        }
        Response::Applied(Ok(OperationOutcome::ProbablySeen)) => Ok(false),
        Response::Applied(Err(refusal)) => Err(reply::refusal(&refusal)),
        other => unreachable!("an operation is not answered with {other:?}"),
    }
}

/// Deletes cells, each at an instant of its own.
pub async fn delete(cells: Vec<Cell>, session: &Session) -> Result<(), String> {
    let operations = cells.into_iter().map(|cell| Operation::single(None, cell, Change::Delete));
    let operations: Result<Vec<_>, _> = operations.map(|operation| operation.map(Ask::Apply)).collect();
    let operations = operations.map_err(|error| format!("ERR {error}"))?;
    for response in session.service.submit_batch(operations).await {
        done(response)?;
    }
    Ok(())
}
