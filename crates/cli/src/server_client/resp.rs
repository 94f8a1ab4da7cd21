//! A blocking client of the Redis protocol.

use std::io::{self, ErrorKind};

use anyhow::{Result, anyhow};
use jeton_resp::command;
use jeton_resp::reply_parser::{Limits, Parser, Progress, Value};

use super::ServerArgs;
use super::error_text::{failure_of, lost};
use super::transport::{self, Stream};

/// Size of a read.
const READ_BYTES: usize = 64 << 10;

/// A connection over the Redis protocol.
pub struct Resp {
    stream: Box<dyn Stream>,
    parser: Parser,
    input: Vec<u8>,
    /// Consumed bytes of the input.
    start: usize,
    chunk: Box<[u8]>,
}

impl Resp {
    /// Connects and authenticates if there is a token.
    pub fn connect(server: &ServerArgs) -> Result<Self> {
        let stream = transport::connect(
            &server.resp(),
            "--resp",
            server.tls_ca().as_deref(),
            server.timeout(),
            server.timeout(),
        )?;
        let mut resp = Self {
            stream,
            parser: Parser::new(Limits::default()),
            input: Vec::new(),
            start: 0,
            chunk: vec![0; READ_BYTES].into(),
        };
        if let Some(token) = server.token()? {
            let reply = resp.ask(&[b"AUTH", token.as_bytes()]).map_err(|error| lost(&error))?;
            if let Value::Error(text) = reply {
                let text = String::from_utf8_lossy(&text).into_owned();
                // A server without tokens accepts every client.
                if !text.contains("without any password") {
                    return Err(failure_of(&text));
                }
            }
        }
        Ok(resp)
    }

    /// Sends one command and returns its reply.
    pub fn ask(&mut self, arguments: &[&[u8]]) -> io::Result<Value> {
        let mut bytes = Vec::new();
        command(&mut bytes, arguments);
        self.send(&bytes)?;
        self.receive()
    }

    /// Sends one command. An error reply is an error.
    pub fn demand(&mut self, arguments: &[&[u8]]) -> Result<Value> {
        match self.ask(arguments).map_err(|error| lost(&error))? {
            Value::Error(text) => Err(failure_of(&String::from_utf8_lossy(&text))),
            value => Ok(value),
        }
    }

    /// Sends encoded commands.
    pub fn send(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.stream.write_all(bytes)?;
        self.stream.flush()
    }

    /// Waits for the next reply.
    pub fn receive(&mut self) -> io::Result<Value> {
        loop {
            let progress = self.parser.next(&self.input[self.start..]);
            match progress.map_err(|error| io::Error::new(ErrorKind::InvalidData, format!("{error:?}")))? {
                Progress::Value { value, consumed } => {
                    self.start += consumed;
                    return Ok(value.without_attributes());
                }
                Progress::Incomplete { consumed } => self.start += consumed,
            }
            self.input.drain(..std::mem::take(&mut self.start));
            let bytes = self.stream.read(&mut self.chunk)?;
            if bytes == 0 {
                return Err(io::Error::new(ErrorKind::UnexpectedEof, "the server closed the connection"));
            }
            self.input.extend_from_slice(&self.chunk[..bytes]);
        }
    }
}

/// The result of an operation with an id.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AddResult {
    pub value: Option<i64>,
    /// `applied`, `replayed`, `refused`, `refused-replayed` or `probably-seen`.
    pub status: String,
}

impl AddResult {
    /// Parses the reply to `JADD`.
    pub fn of(value: &Value) -> Result<Self> {
        let Value::Array(parts) = value else { return Err(anyhow!("not a reply to JADD: {value:?}")) };
        let status =
            parts.get(1).and_then(Value::as_bytes).map(|word| String::from_utf8_lossy(word).into_owned());
        let status = status.ok_or_else(|| anyhow!("the reply to JADD has no status"))?;
        Ok(Self { value: parts.first().and_then(Value::as_integer), status })
    }
}
