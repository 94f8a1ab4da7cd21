//! Commands of several connections, through whole connections: each gets one reply, and the values are those
//! that follow from the replies.
//!
//! The first byte of the input selects whether the server has tokens. Each line after it is a step: a byte
//! that selects the connection and the action, then a command as text. The arguments `@admin`, `@client` and
//! `@cursor` stand for the tokens and for the cursor of the last `SCAN`.

use std::collections::HashMap;
use std::sync::Arc;

use jeton_resp::reply_parser::{self, Value};
use jeton_resp::request_parser::{self, Args};
use jeton_server::{Metric, Service, resp};
use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream};
use tokio::task::JoinHandle;

use super::FuzzServer;

/// Disconnects before the command.
pub const CLOSE: u8 = 4;
/// Sends the commands so far, and reads the replies.
pub const FLUSH: u8 = 8;
/// Sends the first argument as it stands, and disconnects.
pub const RAW: u8 = 64;

const CONNECTIONS: usize = 4;

/// Failed logins are delayed, so that an input has at most this many.
const LOGINS_MAX: usize = 2;

/// Holds everything that an input sends: a client that reads later does not block.
const STREAM_BYTES: usize = 1 << 20;

/// Commands with keys that change no value.
const READS: [&[u8]; 8] = [b"MGET", b"EXISTS", b"STRLEN", b"GETRANGE", b"TYPE", b"TTL", b"PTTL", b"JOP"];

type Arguments = Vec<Vec<u8>>;

impl FuzzServer {
    pub fn session(&self, data: &[u8]) {
        let Some((choice, steps)) = data.split_first() else { return };
        let has_tokens = choice & 1 == 1;
        let service = if has_tokens { &self.guarded } else { &self.open };
        self.runtime.block_on(async {
            let mut connections: [Option<Connection>; CONNECTIONS] = Default::default();
            let (mut model, mut logins) = (Model::default(), 0);
            for step in steps.split(|byte| *byte == b'\n') {
                let Some((action, line)) = step.split_first() else { continue };
                let connection = &mut connections[usize::from(*action) % CONNECTIONS];
                if action & CLOSE != 0
                    && let Some(open) = connection.take()
                {
                    open.close(&mut model).await;
                }
                let Some(mut command) = parse(line) else { continue };
                if has_tokens && line.to_ascii_uppercase().windows(4).any(|word| word == b"AUTH") {
                    logins += 1;
                    if logins > LOGINS_MAX {
                        continue;
                    }
                }
                let open = connection.get_or_insert_with(|| Connection::open(service));
                for argument in &mut command {
                    match &argument[..] {
                        b"@admin" => *argument = self.tokens[0].clone().into(),
                        b"@client" => *argument = self.tokens[1].clone().into(),
                        b"@cursor" => argument.clone_from(&open.cursor),
                        _ => {}
                    }
                }
                if action & RAW == 0 {
                    open.sent.push(command);
                    if action & FLUSH != 0 && !open.flush(&mut model).await {
                        *connection = None;
                    }
                } else if let Some(mut open) = connection.take()
                    && open.flush(&mut model).await
                {
                    open.stream.write_all(&command[0]).await.expect("room");
                    open.stream.shutdown().await.expect("an open stream");
                    while open.reply().await.is_some() {}
                    model = Model::default();
                    open.serving.await.expect("no panic");
                }
            }
            for open in connections.into_iter().flatten() {
                open.close(&mut model).await;
            }
            self.check_values(service, has_tokens, model).await;
            assert_eq!(service.client_memory.charged(), 0, "memory of closed connections");
            assert_eq!(service.metrics.get(Metric::RespOpen), 0);
        });
    }

    async fn check_values(&self, service: &Arc<Service>, has_tokens: bool, mut model: Model) {
        let mut reader = Connection::open(service);
        let login = has_tokens.then(|| vec![b"AUTH".to_vec(), self.tokens[0].clone().into()]);
        let reads = model.0.keys().map(|key| vec![b"GET".to_vec(), key.clone()]);
        reader.sent = login.into_iter().chain(reads).collect();
        reader.close(&mut model).await;
    }
}

/// A command as text, if it is one.
fn parse(line: &[u8]) -> Option<Arguments> {
    let (line, mut args) = ([line, b"\n"].concat(), Args::default());
    let mut parser = request_parser::Parser::new(request_parser::Limits::default());
    match parser.next(&line, &mut args) {
        Ok(request_parser::Progress::Command { command, .. }) => {
            Some(command.iter().map(Vec::from).collect())
        }
        _ => None,
    }
}

struct Connection {
    stream: DuplexStream,
    serving: JoinHandle<()>,
    parser: reply_parser::Parser,
    input: Vec<u8>,
    /// Commands to be sent.
    sent: Vec<Arguments>,
    /// Commands since `MULTI`.
    queued: Option<Vec<Arguments>>,
    cursor: Vec<u8>,
}

impl Connection {
    fn open(service: &Arc<Service>) -> Self {
        let (stream, server) = tokio::io::duplex(STREAM_BYTES);
        let serving = tokio::spawn(resp::serve_connection(service.clone(), server, "127.0.0.1:1".into()));
        let parser = reply_parser::Parser::new(reply_parser::Limits::default());
        let (input, sent, queued, cursor) = (Vec::new(), Vec::new(), None, b"0".to_vec());
        Self { stream, serving, parser, input, sent, queued, cursor }
    }

    /// Sends the commands and reads a reply to each. Returns whether the connection is still open.
    async fn flush(&mut self, model: &mut Model) -> bool {
        let mut bytes = Vec::new();
        for command in &self.sent {
            jeton_resp::command(&mut bytes, &command.iter().map(Vec::as_slice).collect::<Vec<_>>());
        }
        self.stream.write_all(&bytes).await.expect("room");
        for command in std::mem::take(&mut self.sent) {
            let reply = self.reply().await;
            let reply = reply.unwrap_or_else(|| panic!("no reply to {}", command.join(&b' ').escape_ascii()));
            let is_last = command[0].eq_ignore_ascii_case(b"QUIT")
                || matches!(&reply, Value::Error(text) if text.starts_with(b"ERR Protocol error"));
            self.apply(command, &reply, model);
            if is_last {
                assert_eq!(self.reply().await, None, "a reply after the last");
                return false;
            }
        }
        true
    }

    /// The next reply; `None` at the end of the stream.
    async fn reply(&mut self) -> Option<Value> {
        loop {
            match self.parser.next(&self.input).expect("a valid reply") {
                reply_parser::Progress::Value { value, consumed } => {
                    self.input.drain(..consumed);
                    return Some(value);
                }
                reply_parser::Progress::Incomplete { consumed } => drop(self.input.drain(..consumed)),
            }
            if self.stream.read_buf(&mut self.input).await.expect("an open stream") == 0 {
                assert!(self.input.is_empty(), "a part of a reply");
                return None;
            }
        }
    }

    async fn close(mut self, model: &mut Model) {
        if self.flush(model).await {
            self.stream.shutdown().await.expect("an open stream");
            assert_eq!(self.reply().await, None, "a reply without a command");
        }
        drop(self.stream);
        self.serving.await.expect("no panic");
    }

    fn apply(&mut self, command: Arguments, reply: &Value, model: &mut Model) {
        match (&command[0].to_ascii_uppercase()[..], reply) {
            (_, Value::Simple(word)) if word == b"QUEUED" => {
                self.queued.as_mut().expect("MULTI").push(command);
            }
            (b"MULTI", Value::Simple(_)) => self.queued = Some(Vec::new()),
            (b"DISCARD" | b"RESET", Value::Simple(_)) => self.queued = None,
            (b"EXEC", reply) => {
                let queued = self.queued.take().unwrap_or_default();
                match reply {
                    Value::Array(replies) => {
                        assert_eq!(replies.len(), queued.len());
                        queued.iter().zip(replies).for_each(|(command, reply)| model.apply(command, reply));
                    }
                    error => queued.iter().for_each(|command| model.apply(command, error)),
                }
            }
            (b"SCAN", Value::Array(parts)) => {
                self.cursor = parts[0].as_bytes().expect("a cursor").to_vec();
            }
            _ => model.apply(&command, reply),
        }
    }
}

/// The values that follow from the replies, by key. The values of other keys are not known.
#[derive(Default)]
struct Model(HashMap<Vec<u8>, Option<Vec<u8>>>);

impl Model {
    fn apply(&mut self, command: &[Vec<u8>], reply: &Value) {
        let name = &command[0].to_ascii_uppercase()[..];
        let key = command.get(1).map(|key| canonical(key)).unwrap_or_default();
        let number = |at: usize| std::str::from_utf8(&command[at]).expect("text").parse().expect("a number");
        match (name, reply) {
            // Some keys may have changed.
            (b"MSET" | b"DEL" | b"UNLINK" | b"FLUSHALL" | b"FLUSHDB", Value::Error(_)) => {
                self.forget(command)
            }
            (_, Value::Error(text)) if text.starts_with(b"IDBUSY") => self.forget(command),
            // Nothing has changed.
            (_, Value::Error(_)) => {}
            (b"INCR", Value::Integer(sum)) => self.add(&key, 1, *sum),
            (b"DECR", Value::Integer(sum)) => self.add(&key, -1, *sum),
            (b"INCRBY", Value::Integer(sum)) => self.add(&key, number(2), *sum),
            (b"DECRBY", Value::Integer(sum)) => self.add(&key, -number(2), *sum),
            (b"INCREX" | b"JADD" | b"JMADD", Value::Array(parts)) => match &parts[..] {
                [Value::Integer(sum), Value::Integer(added)] => self.add(&key, *added, *sum),
                [Value::Integer(sum), Value::Simple(word)] if word == b"applied" => {
                    self.add(&key, number(2), *sum);
                }
                [Value::Array(sums), Value::Simple(word)] if word == b"applied" => {
                    for (sum, at) in sums.iter().zip((3..).step_by(2)) {
                        let Value::Integer(sum) = sum else { panic!("{reply:?}") };
                        self.add(&canonical(&command[at]), number(at + 1), *sum);
                    }
                }
                // A replay or a refusal.
                _ => {}
            },
            (b"APPEND", Value::Integer(length)) => {
                if let Some(value) = self.0.get_mut(&key) {
                    let value = value.get_or_insert_default();
                    value.extend_from_slice(&command[2]);
                    assert_eq!(value.len() as i64, *length, "APPEND {}", key.escape_ascii());
                }
            }
            (b"GET" | b"JGET", value) => self.check(&key, value),
            (b"SET", Value::Simple(_)) if command.len() == 3 => {
                self.0.insert(key, Some(command[2].clone()));
            }
            (b"DEL", _) => command[1..].iter().for_each(|key| drop(self.0.insert(canonical(key), None))),
            (b"FLUSHALL" | b"FLUSHDB", _) => self.0.clear(),
            _ if READS.contains(&name) => {}
            _ => self.forget(command),
        }
    }

    fn add(&mut self, key: &[u8], delta: i64, sum: i64) {
        let Some(value) = self.0.get_mut(key) else { return };
        let before = value.as_deref().map_or(Some(0), |text| std::str::from_utf8(text).ok()?.parse().ok());
        let expected = before.and_then(|before: i64| before.checked_add(delta));
        assert_eq!(Some(sum), expected, "{} plus {delta}", key.escape_ascii());
        *value = Some(sum.to_string().into());
    }

    fn check(&self, key: &[u8], reply: &Value) {
        let Some(expected) = self.0.get(key) else { return };
        let found = match reply {
            Value::Integer(number) => Some(number.to_string().into_bytes()),
            reply => reply.as_bytes().map(<[u8]>::to_vec),
        };
        assert_eq!(&found, expected, "{}", key.escape_ascii());
    }

    fn forget(&mut self, command: &[Vec<u8>]) {
        command.iter().for_each(|argument| drop(self.0.remove(&canonical(argument))));
    }
}

/// A key with the name of its table.
fn canonical(key: &[u8]) -> Vec<u8> {
    if key.contains(&b'/') { key.to_vec() } else { [b"default/", key].concat() }
}
