//! Commands that take several steps: changes that depend on present values, transactions, and scans.
//!
//! A change reads its keys, computes their new values, and writes them on the condition that the keys still
//! hold what was read. After a conflict it starts again. Each command is therefore atomic, as in Redis,
//! without locks.

use std::collections::HashMap;

use jeton_auth::Right;
use jeton_core::{Cell, Change, Check, Operation, OperationError, Value};
use jeton_engine::{Ask, OperationOutcome, Response};
use jeton_resp::reply_writer::Writer;

use super::command_table::{CommandSpec, IdCommand, Kind};
use super::connection_commands;
use super::id_commands;
use super::keyspace::{self, Keyspace};
use super::pipeline::{BATCH_READS_MAX, OwnedCommand, QUEUED_KEYS_MAX};
use super::reply::{self, CROSS, Reply};
use super::scan;
use super::session::{MultiQueue, Session};
use super::turn::Turn;
use crate::metrics::Metric;
use crate::service::{operation_outcome, read_value};

/// Keys read or written per batch by commands with many keys.
const KEYS_BATCH: usize = 1000;

/// Maximum bytes of the reply of a command or transaction, and of the values that a transaction reads. A
/// quarter of what a connection may hold, if that is less.
pub const REPLY_BYTES_MAX: usize = 64 << 20;

/// Maximum bytes of the reply of a counter.
const SMALL_VALUE_BYTES: usize = 32;

/// Attempts of a change that conflicts with other writers.
const ATTEMPTS_MAX: usize = 100;

/// Runs a command and writes its reply.
pub async fn run(command: OwnedCommand, session: &mut Session, out: &mut Vec<u8>) {
    let start = out.len();
    let reply = try_run(command, session, out).await;
    if reply.is_err() {
        out.truncate(start);
    }
    if let Some(reply) = reply.unwrap_or_else(|error| Some(Reply::Error(error))) {
        reply.write(&mut Writer::new(out, session.version));
    }
}

/// Returns the reply, or `None` if it was written because it may be large.
async fn try_run(
    command: OwnedCommand,
    session: &mut Session,
    out: &mut Vec<u8>,
) -> Result<Option<Reply>, String> {
    let OwnedCommand { spec, arguments, bytes } = &command;
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
        (_, "EXEC") => return execute(session, out).await.map(|()| None),
        (_, "MSET") => set_each(spec, arguments, session).await,
        (Kind::Read, _) => return read_many(spec, arguments, *bytes, session, out).await.map(|()| None),
        (_, "DEL" | "UNLINK") => delete_each(arguments, session).await,
        _ => {
            let bytes = *bytes;
            return change(&[command], bytes, session, out).await.map(|()| None);
        }
    };
    result.map(Some)
}

async fn execute(session: &mut Session, out: &mut Vec<u8>) -> Result<(), String> {
    let queued = session.queued.take().ok_or("ERR EXEC without MULTI")?;
    if queued.broken {
        return Err("EXECABORT Transaction discarded because of previous errors.".into());
    }
    Writer::new(out, session.version).array(queued.commands.len());
    change(&queued.commands, 0, session, out).await
}

/// Executes commands atomically and writes their replies. All keys must be in one table and partition.
/// `bytes` are those of the commands that the connection is not charged for yet.
async fn change(
    commands: &[OwnedCommand],
    bytes: usize,
    session: &mut Session,
    out: &mut Vec<u8>,
) -> Result<(), String> {
    let mut cells: HashMap<&[u8], Cell> = HashMap::new();
    for OwnedCommand { spec, arguments, .. } in commands {
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
            if cells.len() > QUEUED_KEYS_MAX {
                session.service.metrics.add(Metric::TransactionHit, 1);
                return Err(format!("ERR a command that is atomic names at most {QUEUED_KEYS_MAX} keys"));
            }
        }
    }
    let service = session.service.clone();
    for _ in 0..ATTEMPTS_MAX {
        let millis = service.millis();
        let mut keyspace = Keyspace::default();
        let mut budget = ReplyBudget::new(bytes, session);
        let mut unread = cells.iter();
        loop {
            let keys: Vec<_> = unread.by_ref().take(BATCH_READS_MAX).collect();
            if keys.is_empty() {
                break;
            }
            let _reserved = service.client_memory.reserve_reads(keys.len()).await;
            let reads = keys.iter().map(|(_, cell)| Ask::Read((*cell).clone())).collect();
            for ((name, cell), response) in keys.into_iter().zip(service.submit_batch(reads).await) {
                let value = read_value(response).map_err(reply::engine_error)?;
                budget.spend(value.as_ref().map_or(0, Value::heap_bytes), session)?;
                keyspace.insert(name, Some(cell.clone()), value);
            }
        }
        budget.left = budget.max;
        let (start, mut turn) = (out.len(), Turn::start());
        for OwnedCommand { spec, arguments, .. } in commands {
            let written = out.len();
            let reply = match connection_commands::plain(spec, arguments, millis) {
                Some(reply) => reply,
                None => {
                    if spec.name == "MGET" {
                        budget.check(keyspace.bytes_of(&arguments[1..]), session)?;
                    }
                    keyspace.run(spec, arguments, millis)
                }
            };
            reply.write(&mut Writer::new(out, session.version));
            budget.spend(out.len() - written, session)?;
            turn.yield_at_end().await;
        }
        if keyspace.changed().next().is_none() {
            return Ok(());
        }
        let request = service.engine.to_request(Ask::Apply(conditional(&keyspace)?));
        for response in session.submit_batch(vec![request]).await {
            if is_applied(response)? {
                return Ok(());
            }
        }
        out.truncate(start);
    }
    Err("BUSY other clients change the same keys; retry".into())
}

/// What a command or transaction may still read or reply. Charges it to the connection before it is too much.
struct ReplyBudget {
    max: usize,
    left: usize,
    /// Bytes that the connection is to be charged for, the commands included.
    charged: usize,
}

impl ReplyBudget {
    fn new(bytes: usize, session: &Session) -> Self {
        let max = REPLY_BYTES_MAX.min(session.service.client_memory.connection_max() / 4);
        Self { max, left: max, charged: bytes }
    }

    fn check(&self, bytes: usize, session: &Session) -> Result<(), String> {
        if bytes <= self.left {
            return Ok(());
        }
        session.service.metrics.add(Metric::ReplyBytesHit, 1);
        Err(format!("ERR the reply is longer than {} bytes: request fewer keys", self.max))
    }

    fn spend(&mut self, bytes: usize, session: &mut Session) -> Result<(), String> {
        self.check(bytes, session)?;
        self.left -= bytes;
        // A keyspace has each value before and after the commands; a growing buffer is copied.
        self.charged += 2 * bytes;
        session.memory.charge_more(self.charged).map_err(reply::memory_exceeded)
    }
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
    bytes: usize,
    session: &mut Session,
    out: &mut Vec<u8>,
) -> Result<(), String> {
    let service = session.service.clone();
    let (mut present, mut budget) = (0, ReplyBudget::new(bytes, session));
    let is_mget = spec.name == "MGET";
    if is_mget {
        Writer::new(out, session.version).array(arguments.len() - 1);
    }
    for keys in arguments[1..].chunks(BATCH_READS_MAX) {
        let mut requests = Vec::with_capacity(keys.len());
        for key in keys {
            requests.push(Ask::Read(session.resolve(key, Right::Read)?.cell));
        }
        let _reserved = service.client_memory.reserve_reads(keys.len()).await;
        for response in service.submit_batch(requests).await {
            let value = read_value(response).map_err(reply::engine_error)?;
            present += i64::from(value.is_some());
            if is_mget {
                budget.spend(SMALL_VALUE_BYTES + value.as_ref().map_or(0, Value::heap_bytes), session)?;
                Reply::value(value.as_ref()).write(&mut Writer::new(out, session.version));
            }
        }
    }
    if !is_mget {
        Writer::new(out, session.version).integer(present);
    }
    Ok(())
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
