//! Parses the replies of a server, RESP2 and RESP3, into values.
//!
//! Invariants:
//! - The parser consumes each part of a reply as soon as it is complete; the next call gets the bytes that
//!   follow. Only strings stay in the buffer until they are complete, so only the length of a string is
//!   parsed twice.
//! - No value exceeds [`Limits`]. An oversized reply is rejected at the length that announces it.
//! - After an error the start of the next reply is unknown, and the parser repeats the error.
//!
//! Streamed strings and arrays (`$?`, `*?`), which have no length header, are rejected: servers send them
//! only on request, and their size is not bounded.

use crate::number;

/// Upper bound of [`Limits::depth`]. Values are dropped recursively, which must not overflow the stack.
const DEPTH_MAX: usize = 1024;

/// Elements of an array that are preallocated; more are allocated as they arrive.
const PREALLOCATED_MAX: usize = 16;

/// Inclusive limits on replies.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Limits {
    /// Nesting of arrays, maps and sets: an array of integers has depth 1. Capped at 1024.
    pub depth: usize,
    /// Elements of all arrays, maps and sets of one reply.
    pub elements: usize,
    pub string_bytes: usize,
    /// Bytes of a single-line value, such as an error or a number.
    pub line_bytes: usize,
    pub reply_bytes: usize,
}

impl Default for Limits {
    fn default() -> Self {
        let (string_bytes, line_bytes, reply_bytes) = (16 << 20, 64 << 10, 64 << 20);
        Self { depth: 32, elements: 1 << 20, string_bytes, line_bytes, reply_bytes }
    }
}

/// A reply, or an element of one.
#[derive(Debug, Clone, PartialEq)]
pub enum Value {
    /// A null: `_`, `$-1` or `*-1`.
    Null,
    Integer(i64),
    Boolean(bool),
    Double(f64),
    /// An integer of any size, as decimal digits.
    BigNumber(String),
    Simple(Vec<u8>),
    Bulk(Vec<u8>),
    /// A text and its format of three letters, such as `txt`.
    Verbatim {
        format: [u8; 3],
        text: Vec<u8>,
    },
    /// A simple or bulk error: a code in capitals and a message.
    Error(Vec<u8>),
    Array(Vec<Value>),
    Set(Vec<Value>),
    /// Keys and their values, in the order received.
    Map(Vec<(Value, Value)>),
    /// A push message, which is no reply to a request.
    Push(Vec<Value>),
    /// A value and its attributes, in keys and values.
    Attributed {
        attributes: Vec<(Value, Value)>,
        value: Box<Value>,
    },
}

impl Value {
    /// The bytes of a simple, bulk or verbatim string.
    pub fn as_bytes(&self) -> Option<&[u8]> {
        match self {
            Self::Simple(bytes) | Self::Bulk(bytes) | Self::Verbatim { text: bytes, .. } => Some(bytes),
            _ => None,
        }
    }

    pub fn as_integer(&self) -> Option<i64> {
        match self {
            Self::Integer(value) => Some(*value),
            _ => None,
        }
    }

    /// The value without its attributes.
    pub fn without_attributes(self) -> Self {
        let mut value = self;
        while let Self::Attributed { value: inner, .. } = value {
            value = *inner;
        }
        value
    }
}

/// Why a reply is invalid.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ReplyError {
    #[error("invalid reply: unknown type '{}'", .0.escape_ascii())]
    UnknownType(u8),
    #[error("invalid reply: {0}")]
    Malformed(&'static str),
    #[error("invalid reply: streamed strings and arrays are not supported")]
    Streamed,
    #[error("invalid reply: arrays are nested too deeply")]
    TooDeep,
    #[error("invalid reply: too many elements")]
    TooManyElements,
    #[error("invalid reply: a string is too long")]
    TooBigString,
    #[error("invalid reply: a line is too long")]
    TooLongLine,
    #[error("invalid reply: the reply is too long")]
    TooBigReply,
}

/// Result of [`Parser::next`]. The next call must not see the consumed bytes again.
#[derive(Debug, PartialEq)]
pub enum Progress {
    Incomplete { consumed: usize },
    Value { value: Value, consumed: usize },
}

/// Parses the replies of one connection.
#[derive(Debug)]
pub struct Parser {
    limits: Limits,
    /// Incomplete arrays, maps and sets; each is an element of the one before.
    open: Vec<Open>,
    /// Elements and bytes of the reply so far.
    elements: usize,
    bytes: usize,
    /// Bytes of the incomplete line that were searched for its end.
    searched: usize,
    failed: Option<ReplyError>,
}

#[derive(Debug)]
struct Open {
    kind: Kind,
    values: Vec<Value>,
    missing: usize,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Array,
    Set,
    Map,
    Push,
    /// Attributes, which are followed by the value they belong to.
    Attributes,
    Attributed,
}

/// The next part of a reply.
enum Part {
    Partial,
    Scalar { value: Value, used: usize },
    Header { kind: Kind, len: usize, used: usize },
}

impl Parser {
    pub fn new(limits: Limits) -> Self {
        let limits = Limits { depth: limits.depth.min(DEPTH_MAX), ..limits };
        Self { limits, open: Vec::new(), elements: 0, bytes: 0, searched: 0, failed: None }
    }

    /// Parses the next reply from the bytes that were not consumed yet.
    ///
    /// # Panics
    ///
    /// May panic if `input` does not start with the unconsumed bytes of the previous call.
    pub fn next(&mut self, input: &[u8]) -> Result<Progress, ReplyError> {
        if let Some(error) = self.failed {
            return Err(error);
        }
        self.advance(input).inspect_err(|error| {
            self.failed = Some(*error);
            self.open = Vec::new();
        })
    }

    fn advance(&mut self, input: &[u8]) -> Result<Progress, ReplyError> {
        let mut consumed = 0;
        loop {
            let complete = match self.part(&input[consumed..])? {
                Part::Partial => return Ok(Progress::Incomplete { consumed }),
                Part::Scalar { value, used } => {
                    consumed += self.charge(used)?;
                    self.place(value)
                }
                Part::Header { kind, len, used } => {
                    consumed += self.charge(used)?;
                    self.begin(kind, len)?
                }
            };
            if let Some(value) = complete {
                (self.elements, self.bytes) = (0, 0);
                return Ok(Progress::Value { value, consumed });
            }
        }
    }

    /// Adds the bytes of a consumed part to the size of the reply.
    fn charge(&mut self, used: usize) -> Result<usize, ReplyError> {
        self.check_bytes(used)?;
        self.bytes += used;
        self.searched = 0;
        Ok(used)
    }

    fn check_bytes(&self, more: usize) -> Result<(), ReplyError> {
        let fits = self.bytes.saturating_add(more) <= self.limits.reply_bytes;
        if fits { Ok(()) } else { Err(ReplyError::TooBigReply) }
    }

    /// Starts an array, map or set. Returns the reply if this completes it.
    fn begin(&mut self, kind: Kind, len: usize) -> Result<Option<Value>, ReplyError> {
        if self.open.len() >= self.limits.depth {
            return Err(ReplyError::TooDeep);
        }
        let missing = match kind {
            Kind::Map | Kind::Attributes => len.saturating_mul(2),
            _ => len,
        };
        self.elements = self.elements.saturating_add(missing);
        if self.elements > self.limits.elements {
            return Err(ReplyError::TooManyElements);
        }
        let open = Open { kind, values: Vec::with_capacity(missing.min(PREALLOCATED_MAX)), missing };
        if missing > 0 {
            self.open.push(open);
            return Ok(None);
        }
        Ok(self.close(open).and_then(|value| self.place(value)))
    }

    /// Adds a value to the innermost open array. Returns the reply if this completes it.
    fn place(&mut self, mut value: Value) -> Option<Value> {
        loop {
            let Some(open) = self.open.last_mut() else { return Some(value) };
            open.values.push(value);
            open.missing -= 1;
            if open.missing > 0 {
                return None;
            }
            let open = self.open.pop()?;
            value = self.close(open)?;
        }
    }

    /// Turns a complete array, map or set into a value. Attributes stay open for the value they belong to.
    fn close(&mut self, open: Open) -> Option<Value> {
        Some(match open.kind {
            Kind::Array => Value::Array(open.values),
            Kind::Set => Value::Set(open.values),
            Kind::Push => Value::Push(open.values),
            Kind::Map => Value::Map(pairs(open.values)),
            Kind::Attributes => {
                self.open.push(Open { kind: Kind::Attributed, missing: 1, ..open });
                return None;
            }
            Kind::Attributed => {
                let mut values = open.values;
                let value = Box::new(values.pop()?);
                Value::Attributed { attributes: pairs(values), value }
            }
        })
    }

    fn part(&mut self, bytes: &[u8]) -> Result<Part, ReplyError> {
        let [kind, rest @ ..] = bytes else { return Ok(Part::Partial) };
        match kind {
            b'$' | b'!' | b'=' => self.string(*kind, rest),
            b'*' => self.header(Kind::Array, rest),
            b'~' => self.header(Kind::Set, rest),
            b'%' => self.header(Kind::Map, rest),
            b'>' => self.header(Kind::Push, rest),
            b'|' => self.header(Kind::Attributes, rest),
            b'+' | b'-' | b':' | b'_' | b'#' | b',' | b'(' => {
                let Some(line) = self.line(rest)? else { return Ok(Part::Partial) };
                Ok(Part::Scalar { value: scalar(*kind, line)?, used: 1 + line.len() + 2 })
            }
            b';' | b'.' => Err(ReplyError::Streamed),
            other => Err(ReplyError::UnknownType(*other)),
        }
    }

    /// The bytes up to the line end; `None` if incomplete.
    fn line<'b>(&mut self, bytes: &'b [u8]) -> Result<Option<&'b [u8]>, ReplyError> {
        let window = &bytes[..bytes.len().min(self.limits.line_bytes.saturating_add(1))];
        let found = window[self.searched..].iter().position(|byte| matches!(byte, b'\r' | b'\n'));
        let Some(end) = found.map(|at| self.searched + at) else {
            if window.len() > self.limits.line_bytes {
                return Err(ReplyError::TooLongLine);
            }
            self.searched = window.len();
            return Ok(None);
        };
        self.searched = end;
        match &bytes[end..] {
            [b'\r', b'\n', ..] => Ok(Some(&bytes[..end])),
            [b'\r'] => Ok(None),
            _ => Err(ReplyError::Malformed("line end inside a line")),
        }
    }

    /// Parses a string with a length header.
    fn string(&self, kind: u8, bytes: &[u8]) -> Result<Part, ReplyError> {
        let Some((len, header)) = length(bytes)? else { return Ok(Part::Partial) };
        if len == -1 && kind == b'$' {
            return Ok(Part::Scalar { value: Value::Null, used: 1 + header });
        }
        let len = usize::try_from(len).map_err(|_| ReplyError::Malformed("negative string length"))?;
        if len > self.limits.string_bytes {
            return Err(ReplyError::TooBigString);
        }
        let used = (1 + header + 2).saturating_add(len);
        self.check_bytes(used)?;
        let Some(text) = bytes.get(header..used - 1) else { return Ok(Part::Partial) };
        let (text, end) = text.split_at(len);
        if end != b"\r\n" {
            return Err(ReplyError::Malformed("string longer than its length"));
        }
        let value = match (kind, text) {
            (b'$', _) => Value::Bulk(text.into()),
            (b'!', _) => Value::Error(text.into()),
            (_, [a, b, c, b':', text @ ..]) => Value::Verbatim { format: [*a, *b, *c], text: text.into() },
            _ => return Err(ReplyError::Malformed("verbatim string without a format")),
        };
        Ok(Part::Scalar { value, used })
    }

    /// Parses the header of an array, map or set.
    fn header(&self, kind: Kind, bytes: &[u8]) -> Result<Part, ReplyError> {
        let Some((len, header)) = length(bytes)? else { return Ok(Part::Partial) };
        let used = 1 + header;
        if len == -1 && kind == Kind::Array {
            return Ok(Part::Scalar { value: Value::Null, used });
        }
        let len = usize::try_from(len).map_err(|_| ReplyError::Malformed("negative array length"))?;
        Ok(Part::Header { kind, len, used })
    }
}

fn length(bytes: &[u8]) -> Result<Option<(i64, usize)>, ReplyError> {
    let malformed = ReplyError::Malformed("invalid length");
    number::length(bytes).map_err(|_| if bytes.starts_with(b"?") { ReplyError::Streamed } else { malformed })
}

/// Parses a single-line value.
fn scalar(kind: u8, line: &[u8]) -> Result<Value, ReplyError> {
    let text = || std::str::from_utf8(line).unwrap_or_default();
    Ok(match (kind, line) {
        (b'+', _) => Value::Simple(line.into()),
        (b'-', _) => Value::Error(line.into()),
        (b':', _) => Value::Integer(text().parse().map_err(|_| ReplyError::Malformed("invalid integer"))?),
        (b'_', []) => Value::Null,
        (b'#', b"t") => Value::Boolean(true),
        (b'#', b"f") => Value::Boolean(false),
        (b',', _) => Value::Double(text().parse().map_err(|_| ReplyError::Malformed("invalid double"))?),
        (b'(', _) if is_integer(line) => Value::BigNumber(text().into()),
        (b'_', _) => return Err(ReplyError::Malformed("invalid null")),
        (b'#', _) => return Err(ReplyError::Malformed("invalid boolean")),
        _ => return Err(ReplyError::Malformed("invalid big number")),
    })
}

fn is_integer(line: &[u8]) -> bool {
    let digits = line.strip_prefix(b"-").or(line.strip_prefix(b"+")).unwrap_or(line);
    !digits.is_empty() && digits.iter().all(u8::is_ascii_digit)
}

/// Groups alternating keys and values into pairs.
fn pairs(values: Vec<Value>) -> Vec<(Value, Value)> {
    let mut values = values.into_iter();
    let mut pairs = Vec::with_capacity(values.len() / 2);
    pairs.extend(std::iter::from_fn(|| Some((values.next()?, values.next()?))));
    pairs
}

#[cfg(test)]
mod tests;
