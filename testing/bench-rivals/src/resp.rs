//! RESP: requests from a template, and a client that waits for each reply. The codec is that of `jeton-resp`.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use anyhow::{Context, Result, bail};
use bytes::{Buf, BytesMut};
use jeton_resp::command;
use jeton_resp::reply_parser::{Limits, Parser, Progress, Value};

use crate::operation::{ID_TEXT, Operation, write_id};
use crate::protocol::{Answer, Protocol};
use crate::workload::NUMBERS;

/// Placeholder for the number of the counter.
pub const NUMBER: &str = "NNNNNNN";
/// Placeholder for the id as text.
pub const ID: &str = "IIIIIIII-IIII-IIII-IIII-IIIIIIIIIIII";
/// Placeholder for the 16 bytes of the id.
pub const RAW_ID: &str = "RRRRRRRRRRRRRRRR";

/// Additions with one request each. A request is a template with placeholders, so all requests have the same
/// length.
pub struct Resp {
    bytes: Vec<u8>,
    number: Option<usize>,
    id: Option<usize>,
    raw_id: Option<usize>,
}

impl Resp {
    pub fn new(words: &[&str]) -> Self {
        const { assert!(NUMBERS == 10_u32.pow(NUMBER.len() as u32)) };
        let bytes = request(words);
        let find = |text: &str| bytes.windows(text.len()).position(|window| window == text.as_bytes());
        Self { number: find(NUMBER), id: find(ID), raw_id: find(RAW_ID), bytes }
    }

    pub fn request_len(&self) -> usize {
        self.bytes.len()
    }

    /// Appends the request for a counter and an id.
    fn write(&self, counter: u32, id: &[u8; 16], out: &mut BytesMut) {
        let begin = out.len();
        out.extend_from_slice(&self.bytes);
        let request = &mut out[begin..];
        if let Some(at) = self.number {
            let mut rest = counter;
            for digit in request[at..][..NUMBER.len()].iter_mut().rev() {
                *digit = b'0' + (rest % 10) as u8;
                rest /= 10;
            }
        }
        if let Some(at) = self.id
            && let Some(text) = request[at..].first_chunk_mut::<ID_TEXT>()
        {
            write_id(id, text);
        }
        if let Some(at) = self.raw_id {
            request[at..][..16].copy_from_slice(id);
        }
    }
}

/// Encodes a request.
pub fn request(words: &[&str]) -> Vec<u8> {
    let mut bytes = Vec::new();
    command(&mut bytes, &words.iter().map(|word| word.as_bytes()).collect::<Vec<_>>());
    bytes
}

impl Protocol for Resp {
    fn greet(&self, _stream: &mut TcpStream) -> Result<()> {
        Ok(())
    }

    fn encode(&self, operations: &[Operation], out: &mut BytesMut) -> Result<()> {
        operations.iter().for_each(|operation| self.write(operation.counter, &operation.id, out));
        Ok(())
    }

    fn answer(&self, bytes: &[u8]) -> Result<Option<(usize, Answer)>> {
        // Replies are short: an incomplete one is parsed again from its start.
        Ok(match Parser::new(Limits::default()).next(bytes)? {
            Progress::Incomplete { .. } => None,
            Progress::Value { value: Value::Error(_), consumed } => Some((consumed, Answer::Refused)),
            Progress::Value { consumed, .. } => Some((consumed, Answer::Done)),
        })
    }
}

/// The number in a reply: an integer, decimal digits, or the first of an array. A null is zero.
fn number(reply: &Value) -> Result<i64> {
    match reply {
        Value::Null => Ok(0),
        Value::Integer(number) => Ok(*number),
        Value::Array(values) => values.first().map_or(Ok(0), number),
        other => {
            let text = other.as_bytes().and_then(|bytes| std::str::from_utf8(bytes).ok());
            text.and_then(|text| text.parse().ok()).with_context(|| format!("not a number: {other:?}"))
        }
    }
}

/// A blocking client, for requests that are not measured.
pub struct Client {
    stream: TcpStream,
    parser: Parser,
    input: BytesMut,
}

impl Client {
    pub fn connect(address: SocketAddr) -> Result<Self> {
        let stream = TcpStream::connect_timeout(&address, Duration::from_secs(5))?;
        stream.set_read_timeout(Some(Duration::from_secs(60)))?;
        stream.set_write_timeout(Some(Duration::from_secs(60)))?;
        stream.set_nodelay(true)?;
        Ok(Self { stream, parser: Parser::new(Limits::default()), input: BytesMut::new() })
    }

    /// Reads the next reply. An error reply is an error.
    fn reply(&mut self) -> Result<Value> {
        loop {
            match self.parser.next(&self.input)? {
                Progress::Value { value, consumed } => {
                    self.input.advance(consumed);
                    match value {
                        Value::Error(text) => bail!("{}", String::from_utf8_lossy(&text)),
                        value => return Ok(value),
                    }
                }
                Progress::Incomplete { consumed } => self.input.advance(consumed),
            }
            let mut buffer = [0; 1 << 16];
            let len = self.stream.read(&mut buffer)?;
            if len == 0 {
                bail!("the server closed the connection");
            }
            self.input.extend_from_slice(&buffer[..len]);
        }
    }

    /// Sends a request and returns the reply, if that is a string.
    pub fn ask(&mut self, words: &[&str]) -> Result<String> {
        self.stream.write_all(&request(words))?;
        let reply = self.reply().with_context(|| words.join(" "))?;
        Ok(String::from_utf8_lossy(reply.as_bytes().unwrap_or_default()).into_owned())
    }

    /// The sum of the first counters. The request for a counter is a template.
    pub fn sum(&mut self, counters: u32, words: &[&str]) -> Result<i64> {
        const PIPELINE: usize = 500;
        let (template, mut sum, mut out) = (Resp::new(words), 0, BytesMut::new());
        for first in (0..counters).step_by(PIPELINE) {
            let chunk = first..counters.min(first + PIPELINE as u32);
            out.clear();
            chunk.clone().for_each(|counter| template.write(counter, &[0; 16], &mut out));
            self.stream.write_all(&out)?;
            for _ in chunk {
                sum += number(&self.reply()?)?;
            }
        }
        Ok(sum)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn placeholders_are_replaced() {
        let template = Resp::new(&["JADD", &format!("bench/{NUMBER}"), "1", "ID", ID]);
        let mut out = BytesMut::new();
        template.write(1_234, &[0xab; 16], &mut out);
        let expected = "*5\r\n$4\r\nJADD\r\n$13\r\nbench/0001234\r\n$1\r\n1\r\n$2\r\nID\r\n$36\r\n\
                        abababab-abab-abab-abab-abababababab\r\n";
        assert_eq!(String::from_utf8_lossy(&out), expected);
        assert_eq!(out.len(), template.request_len());
    }

    #[test]
    fn a_reply_is_parsed_when_it_is_complete() {
        let protocol = Resp::new(&["PING"]);
        for (reply, answer) in [
            ("+OK\r\n", Answer::Done),
            ("-ERR no\r\n", Answer::Refused),
            ("*2\r\n:5\r\n$5\r\nadded\r\n", Answer::Done),
        ] {
            for end in 0..reply.len() {
                assert_eq!(protocol.answer(&reply.as_bytes()[..end]).unwrap(), None, "{reply:?} to {end}");
            }
            let two = format!("{reply}:7\r\n");
            assert_eq!(protocol.answer(two.as_bytes()).unwrap(), Some((reply.len(), answer)), "{reply:?}");
        }
        assert!(protocol.answer(b"what\r\n").is_err());
    }

    #[test]
    fn every_form_of_a_number_is_read() {
        for (reply, expected) in [
            (Value::Integer(12), Some(12)),
            (Value::Bulk(b"-7".to_vec()), Some(-7)),
            (Value::Null, Some(0)),
            (Value::Array(vec![Value::Integer(5), Value::Simple(b"added".to_vec())]), Some(5)),
            (Value::Array(vec![]), Some(0)),
            (Value::Simple(b"no".to_vec()), None),
        ] {
            assert_eq!(number(&reply).ok(), expected, "{reply:?}");
        }
    }
}
