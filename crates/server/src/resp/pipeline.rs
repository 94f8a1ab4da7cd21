//! A pipeline batch: commands that arrived together. Their requests go to the engine as one batch, and the
//! replies are written in the order of the commands.
//!
//! [`Dispatch::MultiStep`] returns commands that need several steps or all keys. The connection runs them
//! after the batch.

use std::ops::Range;

use jeton_auth::Right;
use jeton_core::{Change, Operation, OperationError};
use jeton_engine::{Ask, EngineError, OperationOutcome, Request, Response};
use jeton_resp::reply_writer::Writer;
use jeton_resp::request_parser::Command;

use super::command_table::{CommandSpec, Delta, IdCommand, Kind};
use super::connection_commands;
use super::id_commands::{self, IdOperation};
use super::keyspace::{self, ExpiryChange, Keyspace, integer};
use super::reply::{self, NO_AUTH, NOT_AN_INTEGER, Reply};
use super::session::{MultiQueue, Session};
use crate::metrics::BatchCommands;

/// Maximum commands of a transaction.
const QUEUED_MAX: usize = 1024;

/// Maximum keys of a transaction. All their values are in memory at once.
const QUEUED_KEYS_MAX: usize = 4096;

/// Maximum arguments of a read command within a batch.
const READ_ARGUMENTS_MAX: usize = 1024;

/// Commands and their requests to the engine.
#[derive(Default)]
pub struct PipelineBatch {
    requests: Vec<Request>,
    items: Vec<Item>,
    /// Encoded replies of commands that need no engine.
    text: Vec<u8>,
    last: Option<&'static CommandSpec>,
    /// The commands whose latency is that of the batch.
    pub commands: BatchCommands,
}

/// Source of the reply to a command.
enum Item {
    /// A range of `text`.
    Text(Range<usize>),
    /// The first result of an operation, as an integer.
    Counter,
    /// `OK` if an operation succeeded.
    Done,
    /// 1 if an operation took effect, otherwise 0.
    Applied,
    /// The outcome of an operation with an id.
    WithId { relaxed: bool, many: bool },
    /// A value in the form of `GET`.
    Get,
    /// A value in the form of `JGET`.
    JGet,
    /// Computed from the values of several keys.
    Computed { name: &'static str, arguments: Vec<Vec<u8>>, keys: Vec<usize> },
}

impl Item {
    /// Number of its requests to the engine.
    fn requests(&self) -> usize {
        match self {
            Self::Text(_) => 0,
            Self::Computed { keys, .. } => keys.len(),
            _ => 1,
        }
    }
}

/// How a command is executed.
pub enum Dispatch {
    Batched,
    /// Changes the state that replies depend on: to be dispatched again after the batch.
    Deferred,
    /// In several steps, after the batch.
    MultiStep(MultiStepCommand),
    /// Closes the connection after the batch.
    Quit,
}

/// A command that runs outside a batch.
pub struct MultiStepCommand {
    pub verb: &'static CommandSpec,
    pub arguments: Vec<Vec<u8>>,
}

impl MultiStepCommand {
    fn new(verb: &'static CommandSpec, command: &Command<'_>) -> Self {
        Self { verb, arguments: command.iter().map(Into::into).collect() }
    }

    pub fn scans(&self) -> bool {
        self.verb.kind == Kind::Scan
    }

    /// Operations to charge to the rate limit: the number of keys of the command or of its transaction.
    pub fn cost(&self, session: &Session) -> u64 {
        let keys =
            |verb: &CommandSpec, arguments: &[Vec<u8>]| verb.keys(arguments.len()).count().max(1) as u64;
        match (self.verb.name, &session.queued) {
            // Free: rejecting them would change the meaning of the commands that follow.
            ("MULTI" | "DISCARD", _) => 0,
            ("EXEC", Some(queued)) => {
                let commands = queued.commands.iter();
                commands.map(|one| CommandSpec::find(&one[0]).map_or(1, |verb| keys(verb, one))).sum()
            }
            _ => keys(self.verb, &self.arguments),
        }
    }
}

impl PipelineBatch {
    /// Requests to the engine.
    pub fn len(&self) -> usize {
        self.requests.len()
    }

    pub fn is_empty(&self) -> bool {
        self.items.is_empty()
    }

    /// Bytes of replies encoded so far.
    pub fn bytes(&self) -> usize {
        self.text.len()
    }

    pub fn take_requests(&mut self) -> Vec<Request> {
        std::mem::take(&mut self.requests)
    }

    /// Adds a command to the batch, or returns how to run it instead.
    pub fn dispatch(&mut self, command: &Command<'_>, session: &mut Session) -> Dispatch {
        let dispatch = self.plan(command, session);
        if matches!(dispatch, Dispatch::Batched | Dispatch::Quit) {
            self.commands.push(self.last.map(|spec| spec.name));
        }
        dispatch
    }

    fn plan(&mut self, command: &Command<'_>, session: &mut Session) -> Dispatch {
        // Usually the same name as before, in capitals.
        let verb = match self.last {
            Some(verb) if verb.name.as_bytes() == command.name() => Some(verb),
            _ => CommandSpec::find(command.name()),
        };
        self.last = verb;
        if verb.is_some_and(|verb| matches!(verb.name, "HELLO" | "AUTH" | "RESET")) && !self.is_empty() {
            return Dispatch::Deferred;
        }
        let Some(verb) = verb else {
            break_queue(session);
            self.reply(&reply::unknown(command.name(), command.iter().skip(1)), session);
            return Dispatch::Batched;
        };
        if !verb.takes(command.len()) {
            if verb.name == "EXEC" {
                session.queued = None;
                let why = "wrong number of arguments for 'exec' command";
                let text = format!("EXECABORT Transaction discarded because of: {why}");
                self.reply(&Reply::Error(text), session);
                return Dispatch::Batched;
            }
            break_queue(session);
            self.reply(&reply::wrong_arity(command.name()), session);
            return Dispatch::Batched;
        }
        if !session.is_authenticated() && !verb.flags.contains(&"no_auth") {
            break_queue(session);
            self.reply(&Reply::error(NO_AUTH), session);
            return Dispatch::Batched;
        }
        if let Some(queued) = &mut session.queued
            && !matches!(verb.name, "EXEC" | "DISCARD" | "MULTI" | "QUIT" | "RESET")
        {
            let reply = queue(queued, verb, command, session.service.options.request_bytes_max);
            self.reply(&reply, session);
            return Dispatch::Batched;
        }
        let result = match verb.kind {
            Kind::WithId(IdCommand::Get) => self.read(&command[1], Item::JGet, session),
            Kind::WithId(IdCommand::Operation) => {
                return Dispatch::MultiStep(MultiStepCommand::new(verb, command));
            }
            Kind::WithId(kind) => self.with_id(kind, command, session),
            Kind::Add(delta) => self.add(delta, command, session),
            Kind::Get => self.read(&command[1], Item::Get, session),
            Kind::Set if command.len() == 3 => self.set(command, session),
            Kind::Append => self.append(command, session),
            Kind::Expire => self.expire(verb.name, command, session),
            Kind::Read if command.len() > READ_ARGUMENTS_MAX => {
                return Dispatch::MultiStep(MultiStepCommand::new(verb, command));
            }
            Kind::Read => self.read_many(verb, command, session),
            Kind::Connection => {
                if verb.name == "QUIT" {
                    self.reply(&Reply::Ok, session);
                    return Dispatch::Quit;
                }
                let start = self.text.len();
                connection_commands::run(verb, command, session, &mut self.text);
                self.items.push(Item::Text(start..self.text.len()));
                Ok(())
            }
            Kind::Set | Kind::Change | Kind::Scan | Kind::Transaction => {
                return Dispatch::MultiStep(MultiStepCommand::new(verb, command));
            }
        };
        if let Err(error) = result {
            self.reply(&Reply::Error(error), session);
        }
        Dispatch::Batched
    }

    fn reply(&mut self, reply: &Reply, session: &Session) {
        let start = self.text.len();
        reply.write(&mut Writer::new(&mut self.text, session.version));
        self.items.push(Item::Text(start..self.text.len()));
    }

    /// Adds a request. Hashes it now, while the arguments are in the cache.
    fn submit(&mut self, ask: Ask, session: &Session) {
        self.requests.push(session.service.engine.to_request(ask));
    }

    fn add(&mut self, delta: Delta, command: &Command<'_>, session: &mut Session) -> Result<(), String> {
        let delta = match delta {
            Delta::Fixed(delta) => delta,
            Delta::Plus => integer(&command[2])?,
            Delta::Minus => integer(&command[2])?.checked_neg().ok_or("ERR decrement would overflow")?,
        };
        self.change(&command[1], Change::Add(delta), Right::Add, Item::Counter, session)
    }

    fn set(&mut self, command: &Command<'_>, session: &mut Session) -> Result<(), String> {
        self.change(&command[1], keyspace::set(&command[2]), Right::Admin, Item::Done, session)
    }

    fn change(
        &mut self,
        key: &[u8],
        change: Change,
        right: Right,
        item: Item,
        session: &mut Session,
    ) -> Result<(), String> {
        let resolved = session.resolve(key, right)?;
        self.apply(Operation::single(None, resolved.cell, change), item, session)
    }

    fn append(&mut self, command: &Command<'_>, session: &mut Session) -> Result<(), String> {
        let resolved = session.resolve(&command[1], Right::Admin)?;
        self.apply(keyspace::append(resolved.cell, &command[2]), Item::Counter, session)
    }

    fn expire(&mut self, name: &str, command: &Command<'_>, session: &mut Session) -> Result<(), String> {
        let resolved = session.resolve(&command[1], Right::Admin)?;
        let arguments: Vec<&[u8]> = command.iter().collect();
        let change = ExpiryChange::parse(name, &arguments, session.millis)?;
        self.apply(change.operation(resolved.cell, session.millis), Item::Applied, session)
    }

    fn apply(
        &mut self,
        operation: Result<Operation, OperationError>,
        item: Item,
        session: &Session,
    ) -> Result<(), String> {
        let operation = operation.map_err(|error| format!("ERR {error}"))?;
        self.submit(Ask::Apply(operation), session);
        self.items.push(item);
        Ok(())
    }

    fn with_id(
        &mut self,
        kind: IdCommand,
        command: &Command<'_>,
        session: &mut Session,
    ) -> Result<(), String> {
        let IdOperation { operation, relaxed, many } = id_commands::parse(kind, command, session)?;
        self.submit(Ask::Apply(operation), session);
        self.items.push(Item::WithId { relaxed, many });
        Ok(())
    }

    fn read(&mut self, key: &[u8], item: Item, session: &mut Session) -> Result<(), String> {
        let resolved = session.resolve(key, Right::Read)?;
        self.submit(Ask::Read(resolved.cell), session);
        self.items.push(item);
        Ok(())
    }

    fn read_many(
        &mut self,
        verb: &'static CommandSpec,
        command: &Command<'_>,
        session: &mut Session,
    ) -> Result<(), String> {
        let keys: Vec<usize> = verb.keys(command.len()).collect();
        let start = self.requests.len();
        for at in &keys {
            match session.resolve(&command[*at], Right::Read) {
                Ok(resolved) => self.submit(Ask::Read(resolved.cell), session),
                Err(error) => {
                    self.requests.truncate(start);
                    return Err(error);
                }
            }
        }
        let arguments = command.iter().map(Into::into).collect();
        self.items.push(Item::Computed { name: verb.name, arguments, keys });
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
                _ => Writer::new(out, session.version).error(error),
            }
        }
        self.text.clear();
    }

    /// Writes the replies of all commands from the responses of the engine, and clears the batch.
    pub fn write_replies(&mut self, responses: &[Response], session: &Session, out: &mut Vec<u8>) {
        let mut responses = responses.iter();
        let mut next = || responses.next().unwrap_or(&Response::Applied(Err(EngineError::Closed)));
        for item in self.items.drain(..) {
            if let Item::Text(range) = item {
                out.extend_from_slice(&self.text[range]);
                continue;
            }
            let mut writer = Writer::new(out, session.version);
            match item {
                Item::Text(_) => unreachable!("written above"),
                Item::Counter => match next() {
                    Response::Applied(Ok(
                        OperationOutcome::Fresh(result) | OperationOutcome::Replayed(result),
                    )) => match result.values.as_slice() {
                        [Some(value), ..] => writer.integer(*value),
                        _ => writer.error(NOT_AN_INTEGER),
                    },
                    other => write_error(other, &mut writer),
                },
                Item::Done => match next() {
                    Response::Applied(Ok(_)) => writer.simple("OK"),
                    other => write_error(other, &mut writer),
                },
                Item::Applied => match next() {
                    Response::Applied(Ok(
                        OperationOutcome::Fresh(result) | OperationOutcome::Replayed(result),
                    )) => writer.integer(result.applied.into()),
                    other => write_error(other, &mut writer),
                },
                Item::WithId { relaxed, many } => match next() {
                    Response::Applied(outcome) => {
                        id_commands::write_outcome(outcome, relaxed, many, &mut writer)
                    }
                    other => write_error(other, &mut writer),
                },
                Item::Get => match next() {
                    Response::Read(Ok(value)) => Reply::value(value.as_ref()).write(&mut writer),
                    other => write_error(other, &mut writer),
                },
                Item::JGet => match next() {
                    Response::Read(Ok(value)) => id_commands::write_value(value.as_ref(), &mut writer),
                    other => write_error(other, &mut writer),
                },
                Item::Computed { name, arguments, keys } => {
                    let mut keyspace = Keyspace::default();
                    let mut failed = None;
                    for at in keys {
                        match next() {
                            Response::Read(Ok(value)) => keyspace.load(&arguments[at], value.clone()),
                            other => failed = Some(other),
                        }
                    }
                    match failed {
                        Some(other) => write_error(other, &mut writer),
                        None => keyspace.run(name, &arguments, session.millis).write(&mut writer),
                    }
                }
            }
        }
        self.text.clear();
    }
}

fn write_error(response: &Response, writer: &mut Writer<'_>) {
    match response {
        Response::Applied(Err(error)) | Response::Read(Err(error)) => {
            writer.error(&reply::engine_error(error));
        }
        other => unreachable!("a response to another request: {other:?}"),
    }
}

fn break_queue(session: &mut Session) {
    if let Some(queued) = &mut session.queued {
        queued.broken = true;
    }
}

/// Queues a command after `MULTI`.
fn queue(queued: &mut MultiQueue, verb: &CommandSpec, command: &Command<'_>, bytes_max: usize) -> Reply {
    let is_allowed = match verb.kind {
        Kind::Connection => matches!(verb.name, "PING" | "ECHO" | "SELECT" | "TIME"),
        Kind::Scan | Kind::Transaction => false,
        Kind::WithId(command) => command == IdCommand::Get,
        _ => true,
    };
    queued.keys += verb.keys(command.len()).count();
    queued.bytes += command.iter().map(<[u8]>::len).sum::<usize>();
    let error = if !is_allowed {
        "ERR Command not allowed inside a transaction".into()
    } else if queued.commands.len() >= QUEUED_MAX {
        format!("ERR a transaction has at most {QUEUED_MAX} commands")
    } else if queued.keys > QUEUED_KEYS_MAX {
        format!("ERR a transaction names at most {QUEUED_KEYS_MAX} keys")
    } else if queued.bytes > bytes_max {
        format!("ERR a transaction has at most {bytes_max} bytes")
    } else {
        queued.commands.push(command.iter().map(Into::into).collect());
        return Reply::Word("QUEUED");
    };
    queued.broken = true;
    Reply::Error(error)
}
