//! A client that returns replies together with their bytes.

use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::time::Duration;

use jeton_resp::reply_parser::{Limits, Parser, Progress, Value};

pub const TIMEOUT: Duration = Duration::from_secs(30);

pub struct Client {
    pub stream: TcpStream,
    parser: Parser,
    input: Vec<u8>,
}

impl Client {
    pub fn connect(port: u16) -> Self {
        let stream = TcpStream::connect(("127.0.0.1", port)).unwrap();
        stream.set_nodelay(true).unwrap();
        stream.set_read_timeout(Some(TIMEOUT)).unwrap();
        stream.set_write_timeout(Some(TIMEOUT)).unwrap();
        Self { stream, parser: Parser::new(Limits::default()), input: Vec::new() }
    }

    /// Sends bytes as they are.
    pub fn send(&mut self, bytes: &[u8]) {
        self.stream.write_all(bytes).unwrap();
    }

    /// The next reply with its bytes; `None` at the end of the stream.
    pub fn try_read(&mut self) -> Option<(Value, Vec<u8>)> {
        let mut raw = Vec::new();
        loop {
            let progress = self.parser.next(&self.input).unwrap_or_else(|error| {
                panic!("{error}: {}", self.input.escape_ascii());
            });
            let (value, consumed) = match progress {
                Progress::Value { value, consumed } => (Some(value), consumed),
                Progress::Incomplete { consumed } => (None, consumed),
            };
            raw.extend(self.input.drain(..consumed));
            if let Some(value) = value {
                return Some((value, raw));
            }
            let mut chunk = [0; 64 << 10];
            match self.stream.read(&mut chunk) {
                Ok(0) => return None,
                Ok(bytes) => self.input.extend_from_slice(&chunk[..bytes]),
                // The server closed the connection with unread input.
                Err(error) if error.kind() == ErrorKind::ConnectionReset => return None,
                Err(error) => panic!("no reply: {error}"),
            }
        }
    }

    pub fn read(&mut self) -> Value {
        self.try_read().expect("the server sends a reply").0
    }

    pub fn read_raw(&mut self) -> Vec<u8> {
        self.try_read().expect("the server sends a reply").1
    }

    /// All bytes until the server closes the connection.
    pub fn read_to_end(&mut self) -> Vec<u8> {
        let mut all = std::mem::take(&mut self.input);
        let mut chunk = [0; 64 << 10];
        loop {
            match self.stream.read(&mut chunk) {
                Ok(0) => return all,
                Ok(bytes) => all.extend_from_slice(&chunk[..bytes]),
                Err(error) if error.kind() == ErrorKind::ConnectionReset => return all,
                Err(error) => panic!("not closed: {error}, after {}", all.escape_ascii()),
            }
        }
    }

    pub fn call<A: AsRef<[u8]>>(&mut self, arguments: &[A]) -> Value {
        self.send(&command(arguments));
        self.read()
    }

    /// Sends the words of a line as a command and returns the reply as [`show`] formats it.
    pub fn run(&mut self, words: &str) -> String {
        let words: Vec<&str> = words.split_whitespace().collect();
        show(&self.call(&words))
    }

    /// Sends the commands in one write and returns their replies.
    pub fn pipeline(&mut self, commands: &[&str]) -> Vec<String> {
        self.send(&commands.iter().flat_map(|command| words(command)).collect::<Vec<_>>());
        commands.iter().map(|_| show(&self.read())).collect()
    }

    /// Runs the commands of a script, each with the reply it must get: `INCR a => 1`. A `*` at the end of a
    /// reply stands for any text.
    #[track_caller]
    pub fn check(&mut self, script: &str) {
        for line in script.lines().map(str::trim).filter(|line| !line.is_empty()) {
            let (command, expected) = line.split_once(" => ").expect("a command and its reply");
            let reply = self.run(command);
            let is_right = match expected.strip_suffix('*') {
                Some(prefix) => reply.starts_with(prefix),
                None => reply == expected,
            };
            assert!(is_right, "{command}: {reply} instead of {expected}");
        }
    }

    pub fn end(&mut self) {
        let _may_be_closed = self.stream.shutdown(Shutdown::Write);
    }
}

pub fn command<A: AsRef<[u8]>>(arguments: &[A]) -> Vec<u8> {
    let mut bytes = Vec::new();
    let arguments: Vec<&[u8]> = arguments.iter().map(AsRef::as_ref).collect();
    jeton_resp::command(&mut bytes, &arguments);
    bytes
}

/// Encodes the words of a line as a command.
pub fn words(words: &str) -> Vec<u8> {
    command(&words.split_whitespace().collect::<Vec<_>>())
}

/// Formats a reply: `7`, `nil`, `OK`, `"bytes"`, `-ERR ...`, `[1 applied]`.
pub fn show(value: &Value) -> String {
    let list = |open: &str, values: &[Value], close: &str| {
        let inside: Vec<String> = values.iter().map(show).collect();
        format!("{open}{}{close}", inside.join(" "))
    };
    match value {
        Value::Null => "nil".into(),
        Value::Integer(number) => number.to_string(),
        Value::Simple(text) => String::from_utf8_lossy(text).into_owned(),
        Value::Error(text) => format!("-{}", String::from_utf8_lossy(text)),
        Value::Bulk(bytes) => format!("\"{}\"", bytes.escape_ascii()),
        Value::Array(values) => list("[", values, "]"),
        Value::Set(values) => list("~[", values, "]"),
        Value::Map(pairs) => {
            let flat: Vec<Value> = pairs.iter().cloned().flat_map(|(key, value)| [key, value]).collect();
            list("{", &flat, "}")
        }
        other => format!("{other:?}"),
    }
}
