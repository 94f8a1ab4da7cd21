//! A pipeline batch: commands that arrived together. Their requests go to the engine as one batch, and the
//! replies are written in the order of the commands.
//!
//! [`Dispatch::MultiStep`] returns commands that need several steps or all keys. The connection runs them
//! after the batch.

use std::collections::VecDeque;
use std::ops::Range;

use jeton_auth::Right;
use jeton_core::{Change, Operation, OperationResult, Value};
use jeton_engine::{Ask, EngineError, OperationOutcome, Request, Response};
use jeton_resp::reply_writer::Writer;
use jeton_resp::request_parser::Command;

use super::command_table::{self, CommandSpec, IdCommand, Kind, ONE};
use super::connection_commands;
use super::id_commands;
use super::keyspace::{self, ExpiryChange, Keyspace};
use super::reply::{self, NO_AUTH, NOT_AN_INTEGER, OUTCOME_UNKNOWN, OUTCOME_UNKNOWN_RETRY, Reply};
use super::session::{MultiQueue, Session};
use crate::metrics::{BatchCommands, Metric};

/// Maximum commands of a transaction.
pub const QUEUED_MAX: usize = 1024;

/// Maximum keys of a transaction, and of a command that is executed as one.
pub const QUEUED_KEYS_MAX: usize = 4096;

/// Maximum commands of a pipeline batch, and maximum requests of the commands before its last one. Other
/// connections are served between two batches.
pub const BATCH_REQUESTS_MAX: usize = 256;

/// Maximum reads of a pipeline batch, and of a command within it. Their values are in memory at once.
pub const BATCH_READS_MAX: usize = 256;

/// Maximum bytes of the commands and encoded replies of a pipeline batch, except its last command.
pub const BATCH_BYTES_MAX: usize = 1 << 20;

/// Maximum commands of a pipeline batch that describe the server: `INFO` takes a tenth of a millisecond.
const BATCH_REPORTS_MAX: usize = 8;

/// Memory of an argument of an owned command besides its bytes.
const ARGUMENT_OVERHEAD: usize = size_of::<Vec<u8>>() + 32;

#[derive(Default)]
pub struct PipelineBatch {
    requests: Vec<Request>,
    /// Number of requests that read a value.
    reads: usize,
    items: VecDeque<Item>,
    /// Number of commands that describe the server.
    reports: usize,
    /// Bytes of the commands.
    input_bytes: usize,
    /// Encoded replies of commands that need no engine.
    text: Vec<u8>,
    last: Option<&'static CommandSpec>,
    /// The commands whose latency is that of the batch.
    pub commands: BatchCommands,
}

/// Source of the reply to a command.
pub enum Item {
    /// A range of `text`.
    Text(Range<usize>),
    /// The result of an operation without an id.
    Change(fn(&OperationResult) -> Reply),
    /// The outcome of an operation with an id.
    WithId { relaxed: bool, many: bool },
    /// The value of a key.
    Value(fn(Option<&Value>) -> Reply),
    /// The values of several keys, or the number of those that exist.
    Values { keys: usize, counted: bool },
    /// Computed from the value of a key.
    Computed(OwnedCommand),
}

impl Item {
    /// Number of its requests to the engine.
    fn requests(&self) -> usize {
        match self {
            Self::Text(_) => 0,
            Self::Values { keys, .. } => *keys,
            _ => 1,
        }
    }
}

pub enum Dispatch {
    Batched,
    /// Changes the state that replies depend on: to be dispatched again after the batch.
    Deferred,
    /// In several steps, after the batch.
    MultiStep(OwnedCommand),
    /// Closes the connection after the batch.
    Quit,
}

/// A command that runs after the batch or in a transaction.
#[derive(Debug)]
pub struct OwnedCommand {
    pub spec: &'static CommandSpec,
    pub arguments: Vec<Vec<u8>>,
    /// Its size in memory.
    pub bytes: usize,
}

impl OwnedCommand {
    fn new(spec: &'static CommandSpec, command: &Command<'_>) -> Self {
        let bytes = Self::bytes_of(command);
        Self { spec, arguments: command.iter().map(Into::into).collect(), bytes }
    }

    /// Memory of a copy of a command.
    fn bytes_of(command: &Command<'_>) -> usize {
        command.iter().map(|argument| argument.len() + ARGUMENT_OVERHEAD).sum()
    }

    /// Operations to charge to the rate limit: the number of keys of the command or of its transaction.
    pub fn cost(&self, session: &Session) -> u64 {
        let keys = |command: &Self| command.spec.keys(command.arguments.len()).count().max(1) as u64;
        match (self.spec.name, &session.queued) {
            // Free: rejecting them would change the meaning of the commands that follow.
            ("MULTI" | "DISCARD", _) => 0,
            ("EXEC", Some(queued)) => queued.commands.iter().map(keys).sum(),
            _ => keys(self),
        }
    }
}

impl PipelineBatch {
    pub fn len(&self) -> usize {
        self.requests.len()
    }

    pub fn reads(&self) -> usize {
        self.reads
    }

    pub fn is_full(&self) -> bool {
        self.items.len().max(self.requests.len()) >= BATCH_REQUESTS_MAX
            || self.reads >= BATCH_READS_MAX
            || self.reports >= BATCH_REPORTS_MAX
            || self.text.len() + self.input_bytes >= BATCH_BYTES_MAX
    }

    /// Adds the bytes of a command that was dispatched.
    pub fn add_input(&mut self, bytes: usize) {
        self.input_bytes += bytes;
    }

    /// Bytes of its buffers and of the arguments that its requests have copied.
    pub fn allocated(&self) -> usize {
        let (requests, items) = (self.requests.capacity(), self.items.capacity());
        requests * size_of::<Request>() + items * size_of::<Item>() + self.text.capacity() + self.input_bytes
    }

    pub fn is_empty(&self) -> bool {
        self.items.is_empty()
    }

    pub fn take_requests(&mut self) -> Vec<Request> {
        (self.reads, self.reports) = (0, 0);
        std::mem::take(&mut self.requests)
    }

    /// Adds a command to the batch, or returns how to run it instead.
    pub fn dispatch(&mut self, command: &Command<'_>, session: &mut Session) -> Dispatch {
        let dispatch = self.try_dispatch(command, session).unwrap_or_else(|error| {
            // A command that cannot be queued makes `EXEC` fail.
            if let Some(queued) = &mut session.queued {
                queued.broken = true;
            }
            self.reply(&Reply::Error(error), session);
            Dispatch::Batched
        });
        if matches!(dispatch, Dispatch::Batched | Dispatch::Quit) {
            self.commands.push(self.last.map(|spec| spec.name));
        }
        dispatch
    }

    fn try_dispatch(&mut self, command: &Command<'_>, session: &mut Session) -> Result<Dispatch, String> {
        // Usually the same name as before, in capitals.
        let spec = match self.last {
            Some(spec) if spec.name.as_bytes() == command.name() => Some(spec),
            _ => CommandSpec::find(command.name()),
        };
        self.last = spec;
        if spec.is_some_and(|spec| matches!(spec.name, "HELLO" | "AUTH" | "RESET")) && !self.is_empty() {
            return Ok(Dispatch::Deferred);
        }
        let spec = spec.ok_or_else(|| command_table::unknown(command.name(), command.iter().skip(1)))?;
        if !spec.takes(command.len()) {
            if spec.name == "EXEC" {
                session.queued = None;
                let why = "wrong number of arguments for 'exec' command";
                return Err(format!("EXECABORT Transaction discarded because of: {why}"));
            }
            return Err(reply::arity_error(command.name()));
        }
        if !session.is_authenticated() && !spec.flags.contains(&"no_auth") {
            return Err(NO_AUTH.into());
        }
        let metrics = &session.service.metrics;
        spec.check_size(command.len()).inspect_err(|_| metrics.add(Metric::CommandSizeHit, 1))?;
        if let Some(queued) = &mut session.queued
            && !matches!(spec.name, "EXEC" | "DISCARD" | "MULTI" | "QUIT" | "RESET")
        {
            let within = queue(queued, spec, command, session.service.options.request_bytes_max)?;
            within.inspect_err(|_| metrics.add(Metric::TransactionHit, 1))?;
            self.reply(&Reply::Word("QUEUED"), session);
            return Ok(Dispatch::Batched);
        }
        match spec.kind {
            Kind::Get => self.read(&command[1], Reply::value, session)?,
            Kind::WithId(IdCommand::Get) => self.read(&command[1], Reply::counter_or_text, session)?,
            Kind::WithId(kind) if kind != IdCommand::Operation => {
                let (operation, item) = id_commands::parse(kind, command, session)?;
                self.submit(Ask::Apply(operation), item, session);
            }
            Kind::Add(_) | Kind::Append | Kind::Expire => self.change(spec, command, session)?,
            Kind::Set if command.len() == 3 => self.change(spec, command, session)?,
            Kind::Read if spec.keys == ONE => self.compute(spec, command, session)?,
            Kind::Read if command.len() <= BATCH_READS_MAX => self.read_many(spec, command, session)?,
            Kind::Connection => {
                self.reports += usize::from(!is_short(spec));
                let reply = connection_commands::run(spec, command, session)?;
                self.reply(&reply, session);
                if spec.name == "QUIT" {
                    return Ok(Dispatch::Quit);
                }
            }
            _ => {
                if let Err(exceeded) = session.memory.charge_more(OwnedCommand::bytes_of(command)) {
                    self.reply(&Reply::Error(reply::memory_exceeded(exceeded)), session);
                    return Ok(Dispatch::Quit);
                }
                return Ok(Dispatch::MultiStep(OwnedCommand::new(spec, command)));
            }
        }
        Ok(Dispatch::Batched)
    }

    fn reply(&mut self, reply: &Reply, session: &Session) {
        let start = self.text.len();
        reply.write(&mut Writer::new(&mut self.text, session.version));
        self.items.push_back(Item::Text(start..self.text.len()));
    }

    /// Adds a command with one request. Hashes it now, while the arguments are in the cache.
    fn submit(&mut self, ask: Ask, item: Item, session: &Session) {
        self.requests.push(session.service.engine.to_request(ask));
        self.items.push_back(item);
    }

    /// Adds a change of one key.
    fn change(
        &mut self,
        spec: &CommandSpec,
        command: &Command<'_>,
        session: &mut Session,
    ) -> Result<(), String> {
        let right = if matches!(spec.kind, Kind::Add(_)) { Right::Add } else { Right::Admin };
        let cell = session.resolve(&command[1], right)?.cell;
        let (operation, reply): (_, fn(&OperationResult) -> Reply) = match spec.kind {
            Kind::Add(delta) => {
                let delta = delta.of(command.get(2).unwrap_or_default())?;
                (Operation::single(None, cell, Change::Add(delta)), first_value)
            }
            Kind::Append => (keyspace::append(cell, &command[2]), first_value),
            Kind::Expire => {
                let arguments: Vec<&[u8]> = command.iter().collect();
                let change = ExpiryChange::parse(spec.name, &arguments, session.millis)?;
                (change.operation(cell, session.millis), |result| Reply::Integer(result.applied.into()))
            }
            _ => (Operation::single(None, cell, keyspace::set(&command[2])), |_| Reply::Ok),
        };
        let operation = operation.map_err(reply::invalid_operation)?;
        self.submit(Ask::Apply(operation), Item::Change(reply), session);
        Ok(())
    }

    fn read(
        &mut self,
        key: &[u8],
        reply: fn(Option<&Value>) -> Reply,
        session: &mut Session,
    ) -> Result<(), String> {
        let cell = session.resolve(key, Right::Read)?.cell;
        self.reads += 1;
        self.submit(Ask::Read(cell), Item::Value(reply), session);
        Ok(())
    }

    fn compute(
        &mut self,
        spec: &'static CommandSpec,
        command: &Command<'_>,
        session: &mut Session,
    ) -> Result<(), String> {
        let cell = session.resolve(&command[1], Right::Read)?.cell;
        self.reads += 1;
        self.submit(Ask::Read(cell), Item::Computed(OwnedCommand::new(spec, command)), session);
        Ok(())
    }

    fn read_many(
        &mut self,
        spec: &'static CommandSpec,
        command: &Command<'_>,
        session: &mut Session,
    ) -> Result<(), String> {
        let cells = spec.keys(command.len()).map(|at| Ok(session.resolve(&command[at], Right::Read)?.cell));
        let cells = cells.collect::<Result<Vec<_>, String>>()?;
        let (engine, keys) = (&session.service.engine, cells.len());
        self.requests.extend(cells.into_iter().map(|cell| engine.to_request(Ask::Read(cell))));
        self.reads += keys;
        self.items.push_back(Item::Values { keys, counted: spec.name != "MGET" });
        Ok(())
    }

    /// Charges each command to the rate limit, and rejects those above it. Returns their number.
    pub fn apply_rate_limit(&mut self, session: &Session, spend: impl Fn(u64) -> Result<(), String>) -> u64 {
        let mut requests = std::mem::take(&mut self.requests).into_iter();
        let mut rejected = 0;
        for item in &mut self.items {
            let own: Vec<Request> = requests.by_ref().take(item.requests()).collect();
            if own.is_empty() {
                continue;
            }
            match spend(own.len() as u64) {
                Ok(()) => self.requests.extend(own),
                Err(error) => {
                    let start = self.text.len();
                    Writer::new(&mut self.text, session.version).error(&error);
                    *item = Item::Text(start..self.text.len());
                    rejected += 1;
                }
            }
        }
        rejected
    }

    /// Replies to all commands that need the engine with an error, and clears the batch.
    pub fn fail(&mut self, error: &str, session: &Session, out: &mut Vec<u8>) {
        for item in self.items.drain(..) {
            match item {
                Item::Text(range) => out.extend_from_slice(&self.text[range]),
                Item::WithId { .. } if error == OUTCOME_UNKNOWN => {
                    Writer::new(out, session.version).error(OUTCOME_UNKNOWN_RETRY);
                }
                _ => Writer::new(out, session.version).error(error),
            }
        }
        self.clear();
    }

    pub fn clear(&mut self) {
        self.requests.clear();
        (self.reads, self.reports) = (0, 0);
        self.items.clear();
        self.text.clear();
        self.input_bytes = 0;
    }

    /// Drops large buffers of an empty batch.
    pub fn shrink(&mut self, bytes_max: usize) {
        if self.is_empty() && self.allocated() > bytes_max {
            (self.items, self.text, self.input_bytes) = Default::default();
        }
    }

    /// Writes replies from the responses of the engine, until `out` has `bytes_max` bytes or more. Returns
    /// whether all are written; the batch is empty then.
    pub fn write_replies(
        &mut self,
        responses: &mut impl Iterator<Item = Response>,
        session: &Session,
        out: &mut Vec<u8>,
        bytes_max: usize,
    ) -> bool {
        let mut next = || responses.next().unwrap_or(Response::Applied(Err(EngineError::Closed)));
        while out.len() < bytes_max {
            let Some(item) = self.items.pop_front() else {
                self.clear();
                return true;
            };
            let mut writer = Writer::new(out, session.version);
            match item {
                Item::Text(range) => out.extend_from_slice(&self.text[range]),
                Item::Change(reply) => match next() {
                    Response::Applied(Ok(
                        OperationOutcome::Fresh(result) | OperationOutcome::Replayed(result),
                    )) => reply(&result).write(&mut writer),
                    other => write_error(&other, &mut writer),
                },
                Item::WithId { relaxed, many } => match next() {
                    Response::Applied(Ok(outcome)) => {
                        id_commands::write_outcome(&outcome, relaxed, many, &mut writer);
                    }
                    Response::Applied(Err(error)) => writer.error(&reply::engine_error_with_id(&error)),
                    other => write_error(&other, &mut writer),
                },
                Item::Value(reply) => match next() {
                    Response::Read(Ok(value)) => reply(value.as_ref()).write(&mut writer),
                    other => write_error(&other, &mut writer),
                },
                Item::Values { keys, counted } => {
                    let values: Vec<Response> = (0..keys).map(|_| next()).collect();
                    let is_value = |response: &&Response| matches!(response, Response::Read(Ok(Some(_))));
                    let failed = values.iter().find(|value| !matches!(value, Response::Read(Ok(_))));
                    match failed {
                        Some(other) => write_error(other, &mut writer),
                        None if counted => writer.integer(values.iter().filter(is_value).count() as i64),
                        None => {
                            writer.array(keys);
                            for value in values {
                                let Response::Read(Ok(value)) = value else { continue };
                                Reply::value(value.as_ref()).write(&mut writer);
                            }
                        }
                    }
                }
                Item::Computed(OwnedCommand { spec, arguments, .. }) => match next() {
                    Response::Read(Ok(value)) => {
                        let mut keyspace = Keyspace::default();
                        keyspace.insert(&arguments[1], None, value);
                        keyspace.run(spec, &arguments, session.millis).write(&mut writer);
                    }
                    other => write_error(&other, &mut writer),
                },
            }
        }
        false
    }
}

/// The reply of a command that returns the counter or the length after it.
fn first_value(result: &OperationResult) -> Reply {
    let value = result.values.as_slice().first().copied().flatten();
    value.map_or_else(|| Reply::error(NOT_AN_INTEGER), Reply::Integer)
}

fn write_error(response: &Response, writer: &mut Writer<'_>) {
    match response {
        Response::Applied(Err(error)) | Response::Read(Err(error)) => {
            writer.error(&reply::engine_error(error));
        }
        other => unreachable!("a response to another request: {other:?}"),
    }
}

/// Whether a command of the connection takes no time and depends on no other one.
fn is_short(spec: &CommandSpec) -> bool {
    matches!(spec.name, "PING" | "ECHO" | "SELECT" | "TIME" | "UNWATCH")
}

/// Queues a command after `MULTI`, if it is allowed there and within the limits of a transaction.
fn queue(
    queued: &mut MultiQueue,
    spec: &'static CommandSpec,
    command: &Command<'_>,
    bytes_max: usize,
) -> Result<Result<(), String>, String> {
    let is_allowed = match spec.kind {
        Kind::Connection => is_short(spec),
        Kind::Scan | Kind::Transaction => false,
        Kind::WithId(command) => command == IdCommand::Get,
        _ => true,
    };
    queued.keys += spec.keys(command.len()).count();
    queued.bytes += OwnedCommand::bytes_of(command);
    if !is_allowed {
        return Err("ERR Command not allowed inside a transaction".into());
    }
    if queued.commands.len() >= QUEUED_MAX {
        return Ok(Err(format!("ERR a transaction has at most {QUEUED_MAX} commands")));
    }
    if queued.keys > QUEUED_KEYS_MAX {
        return Ok(Err(format!("ERR a transaction names at most {QUEUED_KEYS_MAX} keys")));
    }
    if queued.bytes > bytes_max {
        return Ok(Err(format!("ERR a transaction has at most {bytes_max} bytes")));
    }
    queued.commands.push(OwnedCommand::new(spec, command));
    Ok(Ok(()))
}
