//! The Redis protocol as a client needs it: requests cut from a pattern, replies skipped, and a few values read.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use anyhow::{Context, Result, bail};

use crate::operation::{ID_TEXT, Operation, write_id};
use crate::protocol::{Answer, Dialect};
use crate::workload::NUMBERS;

/// Stands in a word for the number of the counter.
pub const NUMBER: &str = "NNNNNNN";
/// Stands for the id, as text.
pub const ID: &str = "IIIIIIII-IIII-IIII-IIII-IIIIIIIIIIII";
/// Stands for the id, as its sixteen bytes.
pub const RAW_ID: &str = "RRRRRRRRRRRRRRRR";

/// A request with its holes for the counter and the id. All requests are equally long.
pub struct Pattern {
    bytes: Vec<u8>,
    number: Option<usize>,
    id: Option<usize>,
    raw_id: Option<usize>,
}

impl Pattern {
    pub fn new(words: &[&str]) -> Self {
        const { assert!(NUMBERS == 10_u32.pow(NUMBER.len() as u32)) };
        let bytes = request(words);
        let place = |hole: &str| bytes.windows(hole.len()).position(|window| window == hole.as_bytes());
        Self { number: place(NUMBER), id: place(ID), raw_id: place(RAW_ID), bytes }
    }

    /// The length of a request.
    pub fn len(&self) -> usize {
        self.bytes.len()
    }

    /// Appends the request for a counter and an id.
    pub fn write(&self, counter: u32, id: &[u8; 16], out: &mut Vec<u8>) {
        let begin = out.len();
        out.extend_from_slice(&self.bytes);
        if let Some(place) = self.number {
            let mut rest = counter;
            for digit in out[begin + place..][..NUMBER.len()].iter_mut().rev() {
                *digit = b'0' + (rest % 10) as u8;
                rest /= 10;
            }
        }
        if let Some(place) = self.id
            && let Some(text) = out[begin + place..].first_chunk_mut::<ID_TEXT>()
        {
            write_id(id, text);
        }
        if let Some(place) = self.raw_id {
            out[begin + place..][..16].copy_from_slice(id);
        }
    }
}

/// A request of some words.
pub fn request(words: &[&str]) -> Vec<u8> {
    let mut bytes = format!("*{}\r\n", words.len()).into_bytes();
    for word in words {
        bytes.extend_from_slice(format!("${}\r\n{word}\r\n", word.len()).as_bytes());
    }
    bytes
}

/// Additions by one request each.
pub struct Resp {
    pattern: Pattern,
}

impl Resp {
    pub fn new(words: &[&str]) -> Self {
        Self { pattern: Pattern::new(words) }
    }

    /// The length of a request.
    pub fn request_len(&self) -> usize {
        self.pattern.len()
    }
}

impl Dialect for Resp {
    fn greet(&self, _stream: &mut TcpStream) -> Result<()> {
        Ok(())
    }

    fn encode(&self, operations: &[Operation], out: &mut Vec<u8>) {
        for operation in operations {
            self.pattern.write(operation.counter, &operation.id, out);
        }
    }

    fn answer(&self, bytes: &[u8]) -> Result<Option<(usize, Answer)>> {
        let answer = if bytes.first() == Some(&b'-') { Answer::Refused } else { Answer::Done };
        Ok(skip(bytes, 0)?.map(|len| (len, answer)))
    }
}

/// How deep replies may be nested.
const DEPTH: usize = 8;

/// The length of the first line, its end included.
fn line_len(bytes: &[u8]) -> Option<usize> {
    bytes.iter().position(|&byte| byte == b'\n').map(|at| at + 1)
}

/// The number in a line after its first character.
fn line_number(line: &[u8]) -> Result<i64> {
    let text = line.get(1..line.len().saturating_sub(2)).and_then(|text| std::str::from_utf8(text).ok());
    text.and_then(|text| text.parse().ok())
        .with_context(|| format!("no number in the reply {:?}", String::from_utf8_lossy(line)))
}

/// The length of the first reply; nothing if its end is not there yet.
fn skip(bytes: &[u8], depth: usize) -> Result<Option<usize>> {
    let Some(line) = line_len(bytes) else { return Ok(None) };
    match bytes[0] {
        b'+' | b'-' | b':' | b'_' | b'#' | b',' | b'(' => Ok(Some(line)),
        b'$' | b'=' | b'!' => {
            let len = usize::try_from(line_number(&bytes[..line])?);
            let len = len.map_or(line, |len| line + len + 2);
            Ok((bytes.len() >= len).then_some(len))
        }
        kind @ (b'*' | b'~' | b'>' | b'%') if depth < DEPTH => {
            let pieces = line_number(&bytes[..line])?.max(0) * if kind == b'%' { 2 } else { 1 };
            let mut len = line;
            for _ in 0..pieces {
                let Some(piece) = skip(&bytes[len..], depth + 1)? else { return Ok(None) };
                len += piece;
            }
            Ok(Some(len))
        }
        other => bail!("not a reply: it begins with {:?}", char::from(other)),
    }
}

/// The number in a reply: an integer, digits in a string, or the first of an array; nothing counts as zero.
fn number(reply: &[u8]) -> Result<i64> {
    let line = line_len(reply).unwrap_or(reply.len());
    let text = || String::from_utf8_lossy(&reply[1..]).trim_end().to_owned();
    match reply.first() {
        Some(b':') => line_number(reply),
        Some(b'_') => Ok(0),
        Some(b'+') => text().parse().with_context(text),
        Some(b'$') if reply.starts_with(b"$-1") => Ok(0),
        Some(b'$') => {
            let text = String::from_utf8_lossy(&reply[line..]).trim_end().to_owned();
            text.parse().with_context(|| format!("not a number: {text}"))
        }
        Some(b'*') if reply.starts_with(b"*-1") || reply.starts_with(b"*0") => Ok(0),
        Some(b'*') => {
            let first = skip(&reply[line..], 1)?.context("a reply without its end")?;
            number(&reply[line..line + first])
        }
        _ => bail!("refused: {}", text()),
    }
}

/// A client that asks and waits, for all that is not measured.
pub struct Client {
    stream: TcpStream,
    input: Vec<u8>,
}

impl Client {
    pub fn connect(address: SocketAddr) -> Result<Self> {
        let stream = TcpStream::connect_timeout(&address, Duration::from_secs(5))?;
        stream.set_read_timeout(Some(Duration::from_secs(60)))?;
        stream.set_write_timeout(Some(Duration::from_secs(60)))?;
        stream.set_nodelay(true)?;
        Ok(Self { stream, input: Vec::new() })
    }

    /// The next reply, as its bytes.
    fn reply(&mut self) -> Result<Vec<u8>> {
        loop {
            if let Some(len) = skip(&self.input, 0)? {
                return Ok(self.input.drain(..len).collect());
            }
            let mut buffer = [0; 1 << 16];
            let len = self.stream.read(&mut buffer)?;
            if len == 0 {
                bail!("the server closed the connection");
            }
            self.input.extend_from_slice(&buffer[..len]);
        }
    }

    /// Asks, and returns the reply as text; a refusal is an error.
    pub fn ask(&mut self, words: &[&str]) -> Result<String> {
        self.stream.write_all(&request(words))?;
        let reply = self.reply()?;
        let text = String::from_utf8_lossy(&reply).trim_end().to_owned();
        if reply.first() == Some(&b'-') {
            bail!("`{}` is answered by {text}", words.join(" "));
        }
        Ok(text)
    }

    /// The sum of the counters from 0 to a given number, each asked for by a pattern.
    pub fn sum(&mut self, counters: u32, words: &[&str]) -> Result<i64> {
        const AT_ONCE: u32 = 500;
        let pattern = Pattern::new(words);
        let (mut sum, mut next) = (0, 0);
        let mut out = Vec::new();
        while next < counters {
            let end = counters.min(next + AT_ONCE);
            out.clear();
            (next..end).for_each(|counter| pattern.write(counter, &[0; 16], &mut out));
            self.stream.write_all(&out)?;
            // All replies of a chunk, then their numbers: taking them off the front one by one would move the rest each time.
            let mut at = 0;
            for _ in next..end {
                let len = loop {
                    if let Some(len) = skip(&self.input[at..], 0)? {
                        break len;
                    }
                    let mut buffer = [0; 1 << 16];
                    let len = self.stream.read(&mut buffer)?;
                    if len == 0 {
                        bail!("the server closed the connection");
                    }
                    self.input.extend_from_slice(&buffer[..len]);
                };
                sum += number(&self.input[at..at + len])?;
                at += len;
            }
            self.input.drain(..at);
            next = end;
        }
        Ok(sum)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pattern_is_filled_where_its_holes_are() {
        let pattern = Pattern::new(&["JADD", &format!("bench/{NUMBER}"), "1", "ID", ID]);
        let mut out = Vec::new();
        pattern.write(1_234, &[0xab; 16], &mut out);
        let expected = "*5\r\n$4\r\nJADD\r\n$13\r\nbench/0001234\r\n$1\r\n1\r\n$2\r\nID\r\n$36\r\n\
                        abababab-abab-abab-abab-abababababab\r\n";
        assert_eq!(String::from_utf8_lossy(&out), expected);
        assert_eq!(out.len(), pattern.len());
    }

    #[test]
    fn replies_of_every_kind_are_skipped_and_never_before_their_end() {
        for reply in ["+OK\r\n", ":12\r\n", "-ERR no\r\n", "$3\r\nabc\r\n", "$-1\r\n", "_\r\n", "*0\r\n"]
            .into_iter()
            .chain(["*2\r\n:5\r\n$5\r\nadded\r\n", "*2\r\n*1\r\n:1\r\n+x\r\n", "%1\r\n+a\r\n:1\r\n"])
        {
            for end in 0..reply.len() {
                assert_eq!(skip(&reply.as_bytes()[..end], 0).unwrap(), None, "{reply:?} to {end}");
            }
            let more = format!("{reply}:7\r\n");
            assert_eq!(skip(more.as_bytes(), 0).unwrap(), Some(reply.len()), "{reply:?}");
        }
        assert!(skip(b"what\r\n", 0).is_err());
    }

    #[test]
    fn numbers_are_read_from_every_form() {
        for (reply, expected) in [
            (":12\r\n", 12),
            ("$2\r\n-7\r\n", -7),
            ("$-1\r\n", 0),
            ("_\r\n", 0),
            ("*2\r\n:5\r\n+added\r\n", 5),
            ("*0\r\n", 0),
        ] {
            assert_eq!(number(reply.as_bytes()).unwrap(), expected, "{reply:?}");
        }
        assert!(number(b"-NOPE\r\n").unwrap_err().to_string().contains("NOPE"));
    }
}
