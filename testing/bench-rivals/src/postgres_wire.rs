//! PostgreSQL's protocol as a client needs it: prepared statements with binary parameters, and simple queries for the rest.
//!
//! Written out because the load is to cost as little as that on the other contenders, by the same loop.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use anyhow::{Context, Result, bail};

use crate::operation::Operation;
use crate::protocol::{Answer, Dialect};

/// A message with its kind; the length is filled in after the contents.
fn message(kind: u8, out: &mut Vec<u8>, contents: impl FnOnce(&mut Vec<u8>)) {
    out.push(kind);
    let begin = out.len();
    put_i32(out, 0);
    contents(out);
    let len = (out.len() - begin) as u32;
    out[begin..begin + 4].copy_from_slice(&len.to_be_bytes());
}

fn put_i32(out: &mut Vec<u8>, number: i32) {
    out.extend_from_slice(&number.to_be_bytes());
}

/// The first message in these bytes: its kind, its contents, and its length in all.
fn first_message(bytes: &[u8]) -> Option<(u8, &[u8], usize)> {
    let len = u32::from_be_bytes(*bytes.get(1..5)?.first_chunk()?) as usize + 1;
    Some((bytes[0], bytes.get(5..len)?, len))
}

/// What an error message says, with its code.
fn error_text(contents: &[u8]) -> String {
    let field = |kind: u8| {
        let field = contents.split(|&byte| byte == 0).find(|field| field.first() == Some(&kind));
        field.map(|field| String::from_utf8_lossy(&field[1..]).into_owned()).unwrap_or_default()
    };
    format!("{} ({})", field(b'M'), field(b'C'))
}

/// A connection that asks and waits.
pub struct Session<'a> {
    stream: &'a mut TcpStream,
    input: Vec<u8>,
}

/// A connection with bounds on the time it may take.
pub fn connect(address: SocketAddr) -> Result<TcpStream> {
    let stream = TcpStream::connect_timeout(&address, Duration::from_secs(5))?;
    stream.set_read_timeout(Some(Duration::from_secs(120)))?;
    stream.set_nodelay(true)?;
    Ok(stream)
}

impl<'a> Session<'a> {
    /// Introduces itself, as a user that is trusted.
    pub fn open(stream: &'a mut TcpStream, options: &str) -> Result<Self> {
        let mut out = Vec::new();
        message(0, &mut out, |out| {
            put_i32(out, 196_608);
            for word in ["user", jeton_testbed::POSTGRES_USER, "database", "postgres", "options", options] {
                out.extend_from_slice(word.as_bytes());
                out.push(0);
            }
            out.push(0);
        });
        // The first message has no kind.
        stream.write_all(&out[1..])?;
        let mut session = Self { stream, input: Vec::new() };
        session.until_ready()?;
        Ok(session)
    }

    /// Reads until the server is ready again; the first columns of the rows that came.
    fn until_ready(&mut self) -> Result<Vec<String>> {
        let (mut rows, mut error) = (Vec::new(), None);
        loop {
            while let Some((kind, contents, len)) = first_message(&self.input) {
                match kind {
                    b'E' => error = Some(error_text(contents)),
                    b'D' => {
                        let len = contents.get(2..6).and_then(|len| len.first_chunk().copied());
                        let len = usize::try_from(i32::from_be_bytes(len.unwrap_or_default())).unwrap_or(0);
                        let value = contents.get(6..6 + len).unwrap_or_default();
                        rows.push(String::from_utf8_lossy(value).into_owned());
                    }
                    b'Z' => {
                        self.input.drain(..len);
                        return error.map_or(Ok(rows), |error| bail!(error));
                    }
                    _ => {}
                }
                self.input.drain(..len);
            }
            let mut buffer = [0; 1 << 14];
            let len = self.stream.read(&mut buffer)?;
            if len == 0 {
                bail!("the server closed the connection: {}", error.unwrap_or_default());
            }
            self.input.extend_from_slice(&buffer[..len]);
        }
    }

    /// Runs statements; the first columns of the rows.
    pub fn query(&mut self, sql: &str) -> Result<Vec<String>> {
        let mut out = Vec::new();
        message(b'Q', &mut out, |out| out.extend_from_slice(format!("{sql}\0").as_bytes()));
        self.stream.write_all(&out)?;
        self.until_ready().with_context(|| sql.to_owned())
    }

    /// Prepares a statement as `s`.
    fn prepare(&mut self, sql: &str) -> Result<()> {
        let mut out = Vec::new();
        message(b'P', &mut out, |out| {
            out.extend_from_slice(format!("s\0{sql}\0").as_bytes());
            out.extend_from_slice(&0_i16.to_be_bytes());
        });
        message(b'S', &mut out, |_| {});
        self.stream.write_all(&out)?;
        self.until_ready().with_context(|| sql.to_owned()).map(drop)
    }
}

/// How a recipe takes its additions.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum BatchForm {
    /// One statement, and one transaction, for each.
    Single,
    /// One statement for all of a request, with arrays.
    Arrays,
    /// One statement for each, and one transaction around all of a request.
    Sequence,
}

/// Additions by a prepared statement.
pub struct Prepared {
    pub sql: String,
    pub form: BatchForm,
    /// Settings of the session, as an option of the first message.
    pub options: &'static str,
}

impl Dialect for Prepared {
    fn greet(&self, stream: &mut TcpStream) -> Result<()> {
        Session::open(stream, self.options)?.prepare(&self.sql)
    }

    fn encode(&self, operations: &[Operation], out: &mut Vec<u8>) {
        match self.form {
            BatchForm::Arrays => {
                bind(out, |out| {
                    array(out, 2950, 16, operations.iter().map(|operation| operation.id));
                    array(out, 23, 4, operations.iter().map(|operation| operation.counter.to_be_bytes()));
                });
            }
            BatchForm::Single => operations.iter().for_each(|operation| bind_one(operation, out)),
            BatchForm::Sequence => {
                // All lock the counters in the same order, so that no two wait for each other.
                let mut sorted: Vec<&Operation> = operations.iter().collect();
                sorted.sort_unstable_by_key(|operation| operation.counter);
                sorted.into_iter().for_each(|operation| bind_one(operation, out));
            }
        }
        message(b'S', out, |_| {});
    }

    fn answers_at_once(&self) -> bool {
        true
    }

    fn answer(&self, bytes: &[u8]) -> Result<Option<(usize, Answer)>> {
        Ok(first_message(bytes).map(|(kind, _, len)| {
            let answer = match kind {
                b'E' => Answer::Flaw,
                b'Z' => Answer::Done,
                _ => Answer::Piece,
            };
            (len, answer)
        }))
    }
}

/// Binds two parameters to `s` and executes it; all values are binary.
fn bind(out: &mut Vec<u8>, parameters: impl FnOnce(&mut Vec<u8>)) {
    message(b'B', out, |out| {
        out.extend_from_slice(b"\0s\0\0\x01\0\x01\0\x02");
        parameters(out);
        out.extend_from_slice(b"\0\x01\0\x01");
    });
    message(b'E', out, |out| out.extend_from_slice(&[0; 5]));
}

fn bind_one(operation: &Operation, out: &mut Vec<u8>) {
    bind(out, |out| {
        put_i32(out, 16);
        out.extend_from_slice(&operation.id);
        put_i32(out, 4);
        out.extend_from_slice(&operation.counter.to_be_bytes());
    });
}

/// A parameter that is an array of one dimension.
fn array<const LEN: usize>(
    out: &mut Vec<u8>,
    kind: i32,
    len: i32,
    elements: impl ExactSizeIterator<Item = [u8; LEN]>,
) {
    let count = elements.len() as i32;
    put_i32(out, 20 + count * (4 + len));
    for number in [1, 0, kind, count, 1] {
        put_i32(out, number);
    }
    for element in elements {
        put_i32(out, len);
        out.extend_from_slice(&element);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn incomplete_messages_are_not_parsed() {
        let mut bytes = Vec::new();
        message(b'E', &mut bytes, |out| out.extend_from_slice(b"SERROR\0C40P01\0Mdeadlock detected\0\0"));
        message(b'Z', &mut bytes, |out| out.push(b'I'));
        let dialect = Prepared { sql: String::new(), form: BatchForm::Single, options: "" };
        let (first, answer) = dialect.answer(&bytes).unwrap().expect("a message");
        assert_eq!(answer, Answer::Flaw);
        assert_eq!(error_text(&bytes[5..first]), "deadlock detected (40P01)");
        assert_eq!(dialect.answer(&bytes[first..]).unwrap(), Some((6, Answer::Done)));
        for end in 0..first {
            assert_eq!(dialect.answer(&bytes[..end]).unwrap(), None);
        }
    }

    #[test]
    fn a_request_of_arrays_is_as_long_as_it_says() {
        let operations = [Operation { id: [1; 16], counter: 7, again: false }; 3];
        let mut out = Vec::new();
        Prepared { sql: String::new(), form: BatchForm::Arrays, options: "" }.encode(&operations, &mut out);
        let (kind, bound, len) = first_message(&out).expect("a message");
        assert_eq!(kind, b'B');
        let ids = 4 + 20 + 3 * 20;
        assert_eq!(bound.len(), 9 + ids + (4 + 20 + 3 * 8) + 4);
        let (kind, _, next) = first_message(&out[len..]).expect("a message");
        assert_eq!(kind, b'E');
        assert_eq!(&out[len + next..], b"S\0\0\0\x04");
    }
}
