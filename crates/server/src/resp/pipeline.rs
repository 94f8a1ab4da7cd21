//! A round: the commands that a client sent together. What they ask of the engine goes there as one burst, and their answers come back in
//! order.
//!
//! Commands that need more than that (several steps, or all keys) are not for here: [`Dispatch::Apart`] hands them back, to be done when
//! the round is over.

use std::ops::Range;

use jeton_auth::Right;
use jeton_core::{Change, Operation, Value};
use jeton_engine::{Ask, EngineError, OperationOutcome, Request, Response};
use jeton_resp::reply_writer::Writer;
use jeton_resp::request_parser::Command;

use super::command_table::{CommandSpec, Delta, IdCommand, Kind};
use super::connection_commands;
use super::id_commands;
use super::keyspace::{Keyspace, integer};
use super::reply::{self, NO_AUTH, NOT_AN_INTEGER, Reply};
use super::session::{MultiQueue, Session};
use crate::metrics::BatchCommands;

/// The most commands of a transaction.
const QUEUED_MAX: usize = 1024;

/// The most keys that they name, together; what a transaction reads is in memory at once.
const QUEUED_KEYS_MAX: usize = 4096;

/// The most keys that are looked at within a round.
const LOOKED_MAX: usize = 1024;

/// The commands of a round, and what they ask.
#[derive(Default)]
pub struct PipelineBatch {
    asks: Vec<Request>,
    items: Vec<Item>,
    /// Answers that need nothing of the engine, one after the other.
    text: Vec<u8>,
    /// The command before.
    last: Option<&'static CommandSpec>,
    /// The commands whose latency is that of the batch.
    pub commands: BatchCommands,
}

/// Where the answer to a command comes from.
enum Item {
    /// From the text.
    Text(Range<usize>),
    /// From an operation: the counter after it.
    Counter,
    /// From an operation: that it was done.
    Done,
    /// From an operation with an id.
    Token { relaxed: bool, many: bool },
    /// From a read, as Redis tells it.
    Get,
    /// From a read, as `JGET` tells it.
    Held,
    /// From reads of the keys of a command.
    Look { name: &'static str, arguments: Vec<Vec<u8>>, keys: Vec<usize> },
}

impl Item {
    /// How many requests for the engine it has.
    fn asks(&self) -> usize {
        match self {
            Self::Text(_) => 0,
            Self::Look { keys, .. } => keys.len(),
            _ => 1,
        }
    }
}

/// What becomes of a command.
pub enum Dispatch {
    /// It is in the round.
    In,
    /// It changes how the others are answered: to be given again when the round is over.
    Later,
    /// It is to be done apart, after the round.
    Apart(MultiStepCommand),
    /// The connection is to be closed, after the round.
    Quit,
}

/// A command to be done apart.
pub struct MultiStepCommand {
    pub verb: &'static CommandSpec,
    pub arguments: Vec<Vec<u8>>,
}

impl MultiStepCommand {
    fn new(verb: &'static CommandSpec, command: &Command<'_>) -> Self {
        Self { verb, arguments: command.iter().map(Into::into).collect() }
    }

    /// Whether it goes through all keys.
    pub fn walks(&self) -> bool {
        self.verb.kind == Kind::Walk
    }

    /// How many operations it counts as: its keys, or those of the transaction that it ends.
    pub fn cost(&self, session: &Session) -> u64 {
        let keys =
            |verb: &CommandSpec, arguments: &[Vec<u8>]| verb.keys(arguments.len()).count().max(1) as u64;
        match (self.verb.name, &session.queued) {
            // Were these refused, the commands that follow would not be what they were meant to be.
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
    /// How many requests it has for the engine.
    pub fn len(&self) -> usize {
        self.asks.len()
    }

    /// Whether nothing is to be answered.
    pub fn is_empty(&self) -> bool {
        self.items.is_empty()
    }

    /// How many bytes of answers it has already.
    pub fn bytes(&self) -> usize {
        self.text.len()
    }

    /// What it asks of the engine.
    pub fn take_asks(&mut self) -> Vec<Request> {
        std::mem::take(&mut self.asks)
    }

    /// Takes a command in.
    pub fn take(&mut self, command: &Command<'_>, session: &mut Session, millis: u64) -> Dispatch {
        let dispatch = self.dispatch(command, session, millis);
        if matches!(dispatch, Dispatch::In | Dispatch::Quit) {
            self.commands.push(self.last.map(|spec| spec.name));
        }
        dispatch
    }

    fn dispatch(&mut self, command: &Command<'_>, session: &mut Session, millis: u64) -> Dispatch {
        // Mostly the same as before, and in capitals.
        let verb = match self.last {
            Some(verb) if verb.name.as_bytes() == command.name() => Some(verb),
            _ => CommandSpec::find(command.name()),
        };
        self.last = verb;
        if verb.is_some_and(|verb| matches!(verb.name, "HELLO" | "AUTH" | "RESET")) && !self.is_empty() {
            return Dispatch::Later;
        }
        let Some(verb) = verb else {
            break_queue(session);
            self.say(&reply::unknown(command.name(), command.iter().skip(1)), session);
            return Dispatch::In;
        };
        if !verb.takes(command.len()) {
            if verb.name == "EXEC" {
                session.queued = None;
                let why = "wrong number of arguments for 'exec' command";
                let text = format!("EXECABORT Transaction discarded because of: {why}");
                self.say(&Reply::Error(text), session);
                return Dispatch::In;
            }
            break_queue(session);
            self.say(&reply::wrong_arity(command.name()), session);
            return Dispatch::In;
        }
        if !session.is_known() && !verb.flags.contains(&"no_auth") {
            break_queue(session);
            self.say(&Reply::error(NO_AUTH), session);
            return Dispatch::In;
        }
        if let Some(queued) = &mut session.queued
            && !matches!(verb.name, "EXEC" | "DISCARD" | "MULTI" | "QUIT" | "RESET")
        {
            let said = queue(queued, verb, command, session.service.options.request_bytes_max);
            self.say(&said, session);
            return Dispatch::In;
        }
        let taken = match verb.kind {
            Kind::Token(IdCommand::Get) => self.read(&command[1], Item::Held, session, millis),
            Kind::Token(IdCommand::Operation) => {
                return Dispatch::Apart(MultiStepCommand::new(verb, command));
            }
            Kind::Token(token) => self.token(token, command, session, millis),
            Kind::Add(delta) => self.add(delta, command, session, millis),
            Kind::Get => self.read(&command[1], Item::Get, session, millis),
            Kind::Set if command.len() == 3 => self.set(command, session, millis),
            Kind::Look if command.len() > LOOKED_MAX => {
                return Dispatch::Apart(MultiStepCommand::new(verb, command));
            }
            Kind::Look => self.look(verb, command, session, millis),
            Kind::Connection => {
                if verb.name == "QUIT" {
                    self.say(&Reply::Ok, session);
                    return Dispatch::Quit;
                }
                let start = self.text.len();
                connection_commands::answer(verb, command, session, &mut self.text);
                self.items.push(Item::Text(start..self.text.len()));
                Ok(())
            }
            Kind::Set | Kind::Change | Kind::Walk | Kind::Transaction => {
                return Dispatch::Apart(MultiStepCommand::new(verb, command));
            }
        };
        if let Err(error) = taken {
            self.say(&Reply::Error(error), session);
        }
        Dispatch::In
    }

    fn say(&mut self, said: &Reply, session: &Session) {
        let start = self.text.len();
        said.write(&mut Writer::new(&mut self.text, session.version));
        self.items.push(Item::Text(start..self.text.len()));
    }

    /// Hashed here, where the words of the command are still at hand.
    fn ask(&mut self, ask: Ask, session: &Session) {
        self.asks.push(session.service.engine.to_request(ask));
    }

    fn add(
        &mut self,
        delta: Delta,
        command: &Command<'_>,
        session: &mut Session,
        millis: u64,
    ) -> Result<(), String> {
        let delta = match delta {
            Delta::Fixed(delta) => delta,
            Delta::Plus => integer(&command[2])?,
            Delta::Minus => integer(&command[2])?.checked_neg().ok_or("ERR decrement would overflow")?,
        };
        self.change(&command[1], Change::Add(delta), Right::Add, Item::Counter, session, millis)
    }

    fn set(&mut self, command: &Command<'_>, session: &mut Session, millis: u64) -> Result<(), String> {
        let change = match Value::from_text(&command[2]) {
            Value::Counter(value) => Change::Set(value),
            _ => Change::Put(command[2].into()),
        };
        self.change(&command[1], change, Right::Admin, Item::Done, session, millis)
    }

    fn change(
        &mut self,
        key: &[u8],
        change: Change,
        right: Right,
        item: Item,
        session: &mut Session,
        millis: u64,
    ) -> Result<(), String> {
        let place = session.place(key, right, millis)?;
        let operation =
            Operation::single(None, place.cell, change).map_err(|error| format!("ERR {error}"))?;
        self.ask(Ask::Apply(operation), session);
        self.items.push(item);
        Ok(())
    }

    fn token(
        &mut self,
        token: IdCommand,
        command: &Command<'_>,
        session: &mut Session,
        millis: u64,
    ) -> Result<(), String> {
        let asked = id_commands::ask(token, command, session, millis)?;
        self.ask(Ask::Apply(asked.operation), session);
        self.items.push(Item::Token { relaxed: asked.relaxed, many: asked.many });
        Ok(())
    }

    fn read(&mut self, key: &[u8], item: Item, session: &mut Session, millis: u64) -> Result<(), String> {
        let place = session.place(key, Right::Read, millis)?;
        self.ask(Ask::Read(place.cell), session);
        self.items.push(item);
        Ok(())
    }

    fn look(
        &mut self,
        verb: &'static CommandSpec,
        command: &Command<'_>,
        session: &mut Session,
        millis: u64,
    ) -> Result<(), String> {
        let keys: Vec<usize> = verb.keys(command.len()).collect();
        let start = self.asks.len();
        for at in &keys {
            match session.place(&command[*at], Right::Read, millis) {
                Ok(place) => self.ask(Ask::Read(place.cell), session),
                Err(error) => {
                    self.asks.truncate(start);
                    return Err(error);
                }
            }
        }
        let arguments = command.iter().map(Into::into).collect();
        self.items.push(Item::Look { name: verb.name, arguments, keys });
        Ok(())
    }

    /// Lets only those commands ask the engine that may be spent for, each by itself: that they came together is no fault of theirs. The
    /// others are answered with why.
    pub fn ration(&mut self, session: &Session, spend: impl Fn(u64) -> Result<(), String>) -> u64 {
        let mut asks = std::mem::take(&mut self.asks).into_iter();
        let mut refused = 0;
        for item in &mut self.items {
            let own: Vec<Request> = asks.by_ref().take(item.asks()).collect();
            if own.is_empty() {
                continue;
            }
            match spend(own.len() as u64) {
                Ok(()) => self.asks.extend(own),
                Err(error) => {
                    let start = self.text.len();
                    Writer::new(&mut self.text, session.version).error(&error);
                    *item = Item::Text(start..self.text.len());
                    refused += 1;
                }
            }
        }
        refused
    }

    /// Answers all commands that would have asked the engine with an error, and is empty again.
    pub fn refuse(&mut self, error: &str, session: &Session, out: &mut Vec<u8>) {
        for item in self.items.drain(..) {
            match item {
                Item::Text(range) => out.extend_from_slice(&self.text[range]),
                _ => Writer::new(out, session.version).error(error),
            }
        }
        self.text.clear();
    }

    /// Answers all commands, with what the engine said to what they asked, and is empty again.
    pub fn answer(&mut self, responses: &[Response], session: &Session, millis: u64, out: &mut Vec<u8>) {
        let mut responses = responses.iter();
        let mut next = || responses.next().unwrap_or(&Response::Applied(Err(EngineError::Closed)));
        for item in self.items.drain(..) {
            if let Item::Text(range) = item {
                out.extend_from_slice(&self.text[range]);
                continue;
            }
            let mut writer = Writer::new(out, session.version);
            match item {
                Item::Text(_) => unreachable!("told above"),
                Item::Counter => match next() {
                    Response::Applied(Ok(
                        OperationOutcome::Fresh(answer) | OperationOutcome::Replayed(answer),
                    )) => match answer.values.as_slice() {
                        [Some(value)] => writer.integer(*value),
                        _ => writer.error(NOT_AN_INTEGER),
                    },
                    other => failed(other, &mut writer),
                },
                Item::Done => match next() {
                    Response::Applied(Ok(_)) => writer.simple("OK"),
                    other => failed(other, &mut writer),
                },
                Item::Token { relaxed, many } => match next() {
                    Response::Applied(reply) => id_commands::tell(reply, relaxed, many, &mut writer),
                    other => failed(other, &mut writer),
                },
                Item::Get => match next() {
                    Response::Read(Ok(value)) => Reply::value(value.as_ref()).write(&mut writer),
                    other => failed(other, &mut writer),
                },
                Item::Held => match next() {
                    Response::Read(Ok(value)) => id_commands::tell_held(value.as_ref(), &mut writer),
                    other => failed(other, &mut writer),
                },
                Item::Look { name, arguments, keys } => {
                    let mut keyspace = Keyspace::default();
                    let mut wrong = None;
                    for at in keys {
                        match next() {
                            Response::Read(Ok(value)) => keyspace.load(&arguments[at], value.clone()),
                            other => wrong = Some(other),
                        }
                    }
                    match wrong {
                        Some(other) => failed(other, &mut writer),
                        None => keyspace.run(name, &arguments, millis).write(&mut writer),
                    }
                }
            }
        }
        self.text.clear();
    }
}

fn failed(response: &Response, writer: &mut Writer<'_>) {
    match response {
        Response::Applied(Err(refusal)) | Response::Read(Err(refusal)) => {
            writer.error(&reply::refusal(refusal));
        }
        other => unreachable!("another kind of answer: {other:?}"),
    }
}

fn break_queue(session: &mut Session) {
    if let Some(queued) = &mut session.queued {
        queued.broken = true;
    }
}

/// Queues a command of a transaction.
fn queue(queued: &mut MultiQueue, verb: &CommandSpec, command: &Command<'_>, bytes_max: usize) -> Reply {
    let about_keys = matches!(
        verb.kind,
        Kind::Add(_) | Kind::Set | Kind::Get | Kind::Look | Kind::Change | Kind::Token(IdCommand::Get)
    );
    if !about_keys && !matches!(verb.name, "PING" | "ECHO" | "SELECT" | "TIME") {
        queued.broken = true;
        return Reply::error("ERR Command not allowed inside a transaction");
    }
    if queued.commands.len() >= QUEUED_MAX {
        queued.broken = true;
        return Reply::Error(format!("ERR a transaction has at most {QUEUED_MAX} commands"));
    }
    queued.keys += verb.keys(command.len()).count();
    if queued.keys > QUEUED_KEYS_MAX {
        queued.broken = true;
        return Reply::Error(format!("ERR a transaction names at most {QUEUED_KEYS_MAX} keys"));
    }
    queued.bytes += command.iter().map(<[u8]>::len).sum::<usize>();
    if queued.bytes > bytes_max {
        queued.broken = true;
        return Reply::Error(format!("ERR a transaction has at most {bytes_max} bytes"));
    }
    queued.commands.push(command.iter().map(Into::into).collect());
    Reply::Word("QUEUED")
}
