//! PostgreSQL: prepared statements with binary parameters, and simple queries. The codec is that of
//! `postgres-protocol`.
//!
//! A full client such as `tokio-postgres` would cost the load generator more than the other targets cost it.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use anyhow::{Context, Result, anyhow, bail};
use bytes::BytesMut;
use fallible_iterator::FallibleIterator;
use postgres_protocol::message::backend::{self, ErrorFields, Message};
use postgres_protocol::message::frontend::{self, BindError};
use postgres_protocol::types::{self, ArrayDimension};
use postgres_protocol::{IsNull, Oid};

use crate::operation::Operation;
use crate::protocol::{Answer, Protocol};

const UUID: Oid = 2950;
const INT4: Oid = 23;

/// Name of the prepared statement.
const STATEMENT: &str = "s";

/// The message of an error, with its code.
fn error_text(mut fields: ErrorFields<'_>) -> String {
    let (mut message, mut code) = (String::new(), String::new());
    while let Ok(Some(field)) = fields.next() {
        match field.type_() {
            b'M' => message = String::from_utf8_lossy(field.value_bytes()).into_owned(),
            b'C' => code = String::from_utf8_lossy(field.value_bytes()).into_owned(),
            _ => {}
        }
    }
    format!("{message} ({code})")
}

/// A connection that waits for each response.
pub struct Session<'a> {
    stream: &'a mut TcpStream,
    input: BytesMut,
}

/// Connects, with timeouts.
pub fn connect(address: SocketAddr) -> Result<TcpStream> {
    let stream = TcpStream::connect_timeout(&address, Duration::from_secs(5))?;
    stream.set_read_timeout(Some(Duration::from_secs(120)))?;
    stream.set_nodelay(true)?;
    Ok(stream)
}

impl<'a> Session<'a> {
    /// Starts a session of a trusted user.
    pub fn open(stream: &'a mut TcpStream, options: &str) -> Result<Self> {
        let mut session = Self { stream, input: BytesMut::new() };
        let user = jeton_testbed::POSTGRES_USER;
        let parameters = [("user", user), ("database", "postgres"), ("options", options)];
        session.exchange(|out| frontend::startup_message(parameters, out))?;
        Ok(session)
    }

    /// Sends messages and reads until the server is ready again. Returns the first column of the rows.
    fn exchange(&mut self, encode: impl FnOnce(&mut BytesMut) -> std::io::Result<()>) -> Result<Vec<String>> {
        let mut out = BytesMut::new();
        encode(&mut out)?;
        self.stream.write_all(&out)?;
        let (mut rows, mut error) = (Vec::new(), None);
        loop {
            while let Some(message) = Message::parse(&mut self.input)? {
                match message {
                    Message::ErrorResponse(body) => error = Some(error_text(body.fields())),
                    Message::DataRow(row) => {
                        let column = row.ranges().next()?.flatten().unwrap_or_default();
                        rows.push(String::from_utf8_lossy(&row.buffer()[column]).into_owned());
                    }
                    Message::ReadyForQuery(_) => return error.map_or(Ok(rows), |error| bail!(error)),
                    _ => {}
                }
            }
            let mut buffer = [0; 1 << 14];
            let len = self.stream.read(&mut buffer)?;
            if len == 0 {
                bail!("the server closed the connection: {}", error.unwrap_or_default());
            }
            self.input.extend_from_slice(&buffer[..len]);
        }
    }

    /// Runs statements. Returns the first column of the rows.
    pub fn query(&mut self, sql: &str) -> Result<Vec<String>> {
        self.exchange(|out| frontend::query(sql, out)).with_context(|| sql.to_owned())
    }

    fn prepare(&mut self, sql: &str) -> Result<()> {
        let prepared = self.exchange(|out| {
            frontend::parse(STATEMENT, sql, [], out)?;
            frontend::sync(out);
            Ok(())
        });
        prepared.with_context(|| sql.to_owned()).map(drop)
    }
}

/// How a recipe executes the additions of a request.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum BatchForm {
    /// One statement and one transaction for each.
    Single,
    /// One statement for all, with arrays.
    Arrays,
    /// One statement for each, and one transaction for all.
    Sequence,
}

/// Additions by a prepared statement.
pub struct Prepared {
    pub sql: String,
    pub form: BatchForm,
    /// Settings of the session, as an option of the startup message.
    pub options: &'static str,
}

impl Protocol for Prepared {
    fn greet(&self, stream: &mut TcpStream) -> Result<()> {
        Session::open(stream, self.options)?.prepare(&self.sql)
    }

    fn encode(&self, operations: &[Operation], out: &mut BytesMut) -> Result<()> {
        match self.form {
            BatchForm::Arrays => bind(out, |parameter, out| {
                let dimension = ArrayDimension { len: operations.len() as i32, lower_bound: 1 };
                let oid = if parameter == Parameter::Id { UUID } else { INT4 };
                let element = |operation, out: &mut BytesMut| put(parameter, operation, out);
                types::array_to_sql([dimension], oid, operations, element, out)
            })?,
            BatchForm::Single => operations.iter().try_for_each(|operation| bind_one(operation, out))?,
            BatchForm::Sequence => {
                // All transactions lock the counters in the same order: no deadlock.
                let mut sorted: Vec<&Operation> = operations.iter().collect();
                sorted.sort_unstable_by_key(|operation| operation.counter);
                sorted.into_iter().try_for_each(|operation| bind_one(operation, out))?;
            }
        }
        frontend::sync(out);
        Ok(())
    }

    fn answers_at_once(&self) -> bool {
        true
    }

    fn answer(&self, bytes: &[u8]) -> Result<Option<(usize, Answer)>> {
        let Some(header) = backend::Header::parse(bytes)? else { return Ok(None) };
        let answer = match header.tag() {
            backend::ERROR_RESPONSE_TAG => Answer::ErrorPart,
            backend::READY_FOR_QUERY_TAG => Answer::Done,
            _ => Answer::Part,
        };
        // The length in the header does not include the tag.
        let len = header.len() as usize + 1;
        Ok((bytes.len() >= len).then_some((len, answer)))
    }
}

/// A parameter of every statement.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Parameter {
    Id,
    Counter,
}

type Serialized<T> = Result<T, Box<dyn std::error::Error + Sync + Send>>;

/// Appends a parameter of an operation in binary form.
fn put(parameter: Parameter, operation: &Operation, out: &mut BytesMut) -> Serialized<IsNull> {
    match parameter {
        Parameter::Id => types::uuid_to_sql(operation.id, out),
        Parameter::Counter => types::int4_to_sql(operation.counter.cast_signed(), out),
    }
    Ok(IsNull::No)
}

/// Binds the parameters and executes the statement.
fn bind(out: &mut BytesMut, put: impl Fn(Parameter, &mut BytesMut) -> Serialized<()>) -> Result<()> {
    let put = |parameter, out: &mut BytesMut| put(parameter, out).map(|()| IsNull::No);
    let parameters = [Parameter::Id, Parameter::Counter];
    frontend::bind("", STATEMENT, [1], parameters, put, [1], out).map_err(|error| match error {
        BindError::Conversion(error) => anyhow!(error),
        BindError::Serialization(error) => error.into(),
    })?;
    Ok(frontend::execute("", 0, out)?)
}

fn bind_one(operation: &Operation, out: &mut BytesMut) -> Result<()> {
    bind(out, |parameter, out| put(parameter, operation, out).map(drop))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_is_parsed_when_it_is_complete() {
        let bytes = b"E\0\0\0\x26SERROR\0C40P01\0Mdeadlock detected\0\0Z\0\0\0\x05I";
        let first = bytes.len() - 6;
        let protocol = Prepared { sql: String::new(), form: BatchForm::Single, options: "" };
        assert_eq!(protocol.answer(bytes).unwrap(), Some((first, Answer::ErrorPart)));
        assert_eq!(protocol.answer(&bytes[first..]).unwrap(), Some((6, Answer::Done)));
        for end in 0..first {
            assert_eq!(protocol.answer(&bytes[..end]).unwrap(), None);
        }
        let message = Message::parse(&mut BytesMut::from(&bytes[..])).unwrap();
        let Some(Message::ErrorResponse(body)) = message else { panic!("not an error") };
        assert_eq!(error_text(body.fields()), "deadlock detected (40P01)");
    }

    #[test]
    fn a_request_of_arrays_binds_once() {
        let operations = [Operation { id: [1; 16], counter: 7, again: false }; 3];
        let mut out = BytesMut::new();
        let protocol = Prepared { sql: String::new(), form: BatchForm::Arrays, options: "" };
        protocol.encode(&operations, &mut out).unwrap();
        let (ids, counters) = (4 + 20 + 3 * 20, 4 + 20 + 3 * 8);
        let bound = 5 + 9 + ids + counters + 4;
        assert_eq!((out[0], out[bound]), (b'B', b'E'));
        assert_eq!(&out[bound + 10..], b"S\0\0\0\x04");
    }
}
