//! Replies as a client reads them: bytes in, values out, of both versions of the protocol.
//!
//! What must hold:
//! - The parser takes each part of a reply as soon as it is whole, and the next call gets the bytes behind what was
//!   consumed. A string is the only thing that waits in the buffer, so no byte is parsed twice but the length of a
//!   string.
//! - No reply makes a value deeper, longer or larger than [`Limits`] say, and none is refused later than at the
//!   length that announces it.
//! - After an error there is no telling where the next reply begins: the parser only repeats the error.
//!
//! Strings and arrays whose length is not said in advance (`$?`, `*?`) are refused: no server sends them unasked,
//! and their only end is the good will of the sender.

use std::fmt;

use crate::number::{self, Length};

/// No value is deeper, whatever the limits say: a value is dropped by recursion, and the stack has an end.
const DEPTH_MAX: usize = 1024;

/// Room made in advance for the elements of an array, at most; more is taken as they come.
const ROOM_MAX: usize = 16;

/// What a server may send. All of them are bounds that are still allowed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Limits {
    /// Arrays in arrays: an array of integers has depth 1. Never more than 1024.
    pub depth: usize,
    /// Elements of all arrays, maps and the like in one reply.
    pub elements: usize,
    /// Bytes of one string.
    pub string_bytes: usize,
    /// Bytes of a line: of an error, or of a number.
    pub line_bytes: usize,
    /// Bytes of the whole reply.
    pub reply_bytes: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            depth: 32,
            elements: 1 << 20,
            string_bytes: 16 << 20,
            line_bytes: 64 << 10,
            reply_bytes: 64 << 20,
        }
    }
}

/// A reply, or a part of one.
#[derive(Debug, Clone, PartialEq)]
pub enum Value {
    /// Nothing, in each of its three spellings.
    Null,
    /// A whole number.
    Integer(i64),
    /// Yes or no.
    Boolean(bool),
    /// A floating-point number.
    Double(f64),
    /// A whole number of any size, as its digits.
    BigNumber(String),
    /// A line of text.
    Simple(Vec<u8>),
    /// Any bytes.
    Bulk(Vec<u8>),
    /// A text to be shown to people, and three letters that say how it is written.
    Verbatim {
        /// Such as `txt`.
        format: [u8; 3],
        /// The text.
        text: Vec<u8>,
    },
    /// An error of either spelling: a code in capitals, and what happened.
    Error(Vec<u8>),
    /// Values in their order.
    Array(Vec<Value>),
    /// Values in no order.
    Set(Vec<Value>),
    /// Keys and values.
    Map(Vec<(Value, Value)>),
    /// A message that is no answer to anything.
    Push(Vec<Value>),
    /// A value about which the server says more.
    Attributed {
        /// What it says.
        attributes: Vec<(Value, Value)>,
        /// What was asked for.
        value: Box<Value>,
    },
}

impl Value {
    /// The bytes of a string of any kind; not of an error.
    pub fn as_bytes(&self) -> Option<&[u8]> {
        match self {
            Self::Simple(bytes) | Self::Bulk(bytes) | Self::Verbatim { text: bytes, .. } => Some(bytes),
            _ => None,
        }
    }

    /// The value of an integer.
    pub fn as_integer(&self) -> Option<i64> {
        match self {
            Self::Integer(value) => Some(*value),
            _ => None,
        }
    }

    /// The value without what the server says about it.
    pub fn without_attributes(self) -> Self {
        let mut value = self;
        while let Self::Attributed { value: inner, .. } = value {
            value = *inner;
        }
        value
    }
}

/// Why the bytes of a server are not a reply.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum ReplyError {
    /// No reply begins with this byte.
    UnknownType(u8),
    /// Not what a reply of its type looks like.
    Malformed(&'static str),
    /// A length that is not said in advance.
    Streamed,
    /// Beyond [`Limits::depth`].
    TooDeep,
    /// Beyond [`Limits::elements`].
    TooManyElements,
    /// Beyond [`Limits::string_bytes`].
    TooBigString,
    /// Beyond [`Limits::line_bytes`].
    TooLongLine,
    /// Beyond [`Limits::reply_bytes`].
    TooBigReply,
}

impl fmt::Display for ReplyError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("not a valid reply: ")?;
        match self {
            Self::UnknownType(byte) => write!(f, "no type of reply is '{}'", byte.escape_ascii()),
            Self::Malformed(what) => f.write_str(what),
            Self::Streamed => f.write_str("strings and arrays of unknown length are not supported"),
            Self::TooDeep => f.write_str("too many arrays in arrays"),
            Self::TooManyElements => f.write_str("too many elements"),
            Self::TooBigString => f.write_str("a string is too big"),
            Self::TooLongLine => f.write_str("a line is too long"),
            Self::TooBigReply => f.write_str("it is too big as a whole"),
        }
    }
}

impl std::error::Error for ReplyError {}

/// What a call of [`Parser::next`] found.
#[derive(Debug, PartialEq)]
pub enum Progress {
    /// No whole reply is there.
    Incomplete {
        /// How many bytes the next call must not see again.
        consumed: usize,
    },
    /// A reply.
    Value {
        /// What it says.
        value: Value,
        /// How many bytes the next call must not see again.
        consumed: usize,
    },
}

/// Reads the replies of one connection.
#[derive(Debug)]
pub struct Parser {
    limits: Limits,
    /// Arrays and the like that are not whole, each in the one before.
    open: Vec<Open>,
    /// Elements and bytes of the reply so far.
    elements: usize,
    bytes: usize,
    /// How far the line that is not whole has been searched for its end.
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
    /// Keys and values; once they are there, one more value is missing: what they are about.
    Attributes,
    Attributed,
}

/// What is at the front of the bytes.
enum Part {
    Partial,
    Scalar { value: Value, used: usize },
    Header { kind: Kind, len: usize, used: usize },
}

impl Parser {
    /// A parser for a connection of which nothing is read yet.
    pub fn new(limits: Limits) -> Self {
        let limits = Limits { depth: limits.depth.min(DEPTH_MAX), ..limits };
        Self { limits, open: Vec::new(), elements: 0, bytes: 0, searched: 0, failed: None }
    }

    /// Finds the next reply in the bytes not consumed so far.
    ///
    /// # Panics
    ///
    /// May panic if bytes that were seen and not consumed are missing from the front of `input`.
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
            let whole = match self.part(&input[consumed..])? {
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
            if let Some(value) = whole {
                (self.elements, self.bytes) = (0, 0);
                return Ok(Progress::Value { value, consumed });
            }
        }
    }

    /// Counts the bytes of a part that was taken.
    fn charge(&mut self, used: usize) -> Result<usize, ReplyError> {
        self.check_bytes(used)?;
        self.bytes += used;
        self.searched = 0;
        Ok(used)
    }

    fn check_bytes(&self, more: usize) -> Result<(), ReplyError> {
        if self.bytes.saturating_add(more) > self.limits.reply_bytes {
            Err(ReplyError::TooBigReply)
        } else {
            Ok(())
        }
    }

    /// Begins an array or the like; returns the reply if that completes it.
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
        let open = Open { kind, values: Vec::with_capacity(missing.min(ROOM_MAX)), missing };
        if missing > 0 {
            self.open.push(open);
            return Ok(None);
        }
        Ok(self.close(open).and_then(|value| self.place(value)))
    }

    /// Puts a value where it belongs; returns the reply if that completes it.
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

    /// Makes a value of what is whole; of attributes, what waits for their value.
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

    /// The bytes up to the end of the line.
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
            _ => Err(ReplyError::Malformed("a line end in a line")),
        }
    }

    /// A string with its length before it.
    fn string(&self, kind: u8, bytes: &[u8]) -> Result<Part, ReplyError> {
        let Some((len, header)) = length(bytes)? else { return Ok(Part::Partial) };
        if len == -1 && kind == b'$' {
            return Ok(Part::Scalar { value: Value::Null, used: 1 + header });
        }
        let len = usize::try_from(len).map_err(|_| ReplyError::Malformed("a string of less than nothing"))?;
        if len > self.limits.string_bytes {
            return Err(ReplyError::TooBigString);
        }
        let used = (1 + header + 2).saturating_add(len);
        self.check_bytes(used)?;
        let Some(text) = bytes.get(header..used - 1) else { return Ok(Part::Partial) };
        let (text, end) = text.split_at(len);
        if end != b"\r\n" {
            return Err(ReplyError::Malformed("a string that is longer than it says"));
        }
        let value = match (kind, text) {
            (b'$', _) => Value::Bulk(text.into()),
            (b'!', _) => Value::Error(text.into()),
            (_, [a, b, c, b':', text @ ..]) => Value::Verbatim { format: [*a, *b, *c], text: text.into() },
            _ => return Err(ReplyError::Malformed("a verbatim string that does not say how it is written")),
        };
        Ok(Part::Scalar { value, used })
    }

    /// The beginning of an array or the like.
    fn header(&self, kind: Kind, bytes: &[u8]) -> Result<Part, ReplyError> {
        let Some((len, header)) = length(bytes)? else { return Ok(Part::Partial) };
        let used = 1 + header;
        if len == -1 && kind == Kind::Array {
            return Ok(Part::Scalar { value: Value::Null, used });
        }
        let len = usize::try_from(len).map_err(|_| ReplyError::Malformed("an array of less than nothing"))?;
        Ok(Part::Header { kind, len, used })
    }
}

/// A length and the bytes that it took, or nothing if it is not whole.
fn length(bytes: &[u8]) -> Result<Option<(i64, usize)>, ReplyError> {
    match number::length(bytes) {
        Length::Whole { value, used } => Ok(Some((value, used))),
        Length::Partial => Ok(None),
        Length::Bad if bytes.starts_with(b"?") => Err(ReplyError::Streamed),
        Length::Bad | Length::TooLong => Err(ReplyError::Malformed("a length that is not a number")),
    }
}

/// The value of a line of this type.
fn scalar(kind: u8, line: &[u8]) -> Result<Value, ReplyError> {
    let text = || std::str::from_utf8(line).unwrap_or_default();
    Ok(match (kind, line) {
        (b'+', _) => Value::Simple(line.into()),
        (b'-', _) => Value::Error(line.into()),
        (b':', _) => Value::Integer(integer(line).ok_or(ReplyError::Malformed("an integer that is none"))?),
        (b'_', []) => Value::Null,
        (b'#', b"t") => Value::Boolean(true),
        (b'#', b"f") => Value::Boolean(false),
        (b',', _) => {
            Value::Double(text().parse().map_err(|_| ReplyError::Malformed("a double that is none"))?)
        }
        (b'(', _) if is_whole_number(line) => Value::BigNumber(text().into()),
        (b'_', _) => return Err(ReplyError::Malformed("a null that is something")),
        (b'#', _) => return Err(ReplyError::Malformed("a boolean that is neither true nor false")),
        _ => return Err(ReplyError::Malformed("a big number that is none")),
    })
}

fn integer(line: &[u8]) -> Option<i64> {
    std::str::from_utf8(line).ok()?.parse().ok()
}

fn is_whole_number(line: &[u8]) -> bool {
    let digits = line.strip_prefix(b"-").or(line.strip_prefix(b"+")).unwrap_or(line);
    !digits.is_empty() && digits.iter().all(u8::is_ascii_digit)
}

/// Keys and values by turns, as pairs.
fn pairs(values: Vec<Value>) -> Vec<(Value, Value)> {
    let mut pairs = Vec::with_capacity(values.len() / 2);
    let mut values = values.into_iter();
    while let (Some(key), Some(value)) = (values.next(), values.next()) {
        pairs.push((key, value));
    }
    pairs
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The first value in these bytes, which must be all of it.
    fn parse_with(limits: Limits, input: &[u8]) -> Result<Option<Value>, ReplyError> {
        match Parser::new(limits).next(input)? {
            Progress::Incomplete { .. } => Ok(None),
            Progress::Value { value, consumed } => {
                assert_eq!(consumed, input.len(), "{}", input.escape_ascii());
                Ok(Some(value))
            }
        }
    }

    fn parse(input: &[u8]) -> Result<Option<Value>, ReplyError> {
        parse_with(Limits::default(), input)
    }

    fn bulk(text: &str) -> Value {
        Value::Bulk(text.into())
    }

    #[test]
    fn every_type_is_known() {
        use Value::*;
        for (input, value) in [
            (&b"+OK\r\n"[..], Simple(b"OK".into())),
            (b"+\r\n", Simple(b"".into())),
            (b"-ERR no\r\n", Error(b"ERR no".into())),
            (b":0\r\n", Integer(0)),
            (b":+7\r\n", Integer(7)),
            (b":-9223372036854775808\r\n", Integer(i64::MIN)),
            (b"$0\r\n\r\n", bulk("")),
            (b"$4\r\na\r\nb\r\n", bulk("a\r\nb")),
            (b"$-1\r\n", Null),
            (b"*-1\r\n", Null),
            (b"_\r\n", Null),
            (b"#t\r\n", Boolean(true)),
            (b"#f\r\n", Boolean(false)),
            (b",1.5\r\n", Double(1.5)),
            (b",-1e-3\r\n", Double(-0.001)),
            (b",inf\r\n", Double(f64::INFINITY)),
            (b",-inf\r\n", Double(f64::NEG_INFINITY)),
            (
                b"(-3492890328409238509324850943850943825024385\r\n",
                BigNumber("-3492890328409238509324850943850943825024385".into()),
            ),
            (b"!5\r\nERR a\r\n", Error(b"ERR a".into())),
            (b"=8\r\ntxt:a\r\nb\r\n", Verbatim { format: *b"txt", text: b"a\r\nb".into() }),
            (b"*0\r\n", Array(vec![])),
            (b"*2\r\n:1\r\n*1\r\n_\r\n", Array(vec![Integer(1), Array(vec![Null])])),
            (b"~2\r\n:1\r\n:2\r\n", Set(vec![Integer(1), Integer(2)])),
            (b"%0\r\n", Map(vec![])),
            (
                b"%1\r\n$1\r\na\r\n%1\r\n:1\r\n:2\r\n",
                Map(vec![(bulk("a"), Map(vec![(Integer(1), Integer(2))]))]),
            ),
            (b">2\r\n+message\r\n*0\r\n", Push(vec![Simple(b"message".into()), Array(vec![])])),
        ] {
            assert_eq!(parse(input), Ok(Some(value)), "{}", input.escape_ascii());
        }
        assert!(matches!(parse(b",nan\r\n"), Ok(Some(Double(value))) if value.is_nan()));
    }

    #[test]
    fn attributes_are_kept_with_their_value() {
        let attributed = |value| Value::Attributed {
            attributes: vec![(Value::Simple(b"ttl".into()), Value::Integer(9))],
            value: Box::new(value),
        };
        let seven = attributed(Value::Integer(7));
        assert_eq!(parse(b"|1\r\n+ttl\r\n:9\r\n:7\r\n"), Ok(Some(seven.clone())));
        assert_eq!(parse(b"*1\r\n|1\r\n+ttl\r\n:9\r\n:7\r\n"), Ok(Some(Value::Array(vec![seven.clone()]))));
        assert_eq!(
            parse(b"|1\r\n+ttl\r\n:9\r\n|1\r\n+ttl\r\n:9\r\n:7\r\n"),
            Ok(Some(attributed(seven.clone())))
        );
        assert_eq!(attributed(seven).without_attributes(), Value::Integer(7));
        let nothing = Value::Attributed { attributes: vec![], value: Box::new(Value::Null) };
        assert_eq!(parse(b"|0\r\n_\r\n"), Ok(Some(nothing)));
        assert_eq!(parse(b"|0\r\n"), Ok(None));
    }

    #[test]
    fn what_a_value_holds_can_be_asked_for() {
        for text in [&b"+a\r\n"[..], b"$1\r\na\r\n", b"=5\r\ntxt:a\r\n"] {
            assert_eq!(parse(text).unwrap().unwrap().as_bytes(), Some(&b"a"[..]));
        }
        assert_eq!(Value::Error(b"ERR".into()).as_bytes(), None);
        assert_eq!(Value::Integer(3).as_integer(), Some(3));
        assert_eq!(Value::Boolean(true).as_integer(), None);
    }

    #[test]
    fn what_is_no_reply_is_refused() {
        for (input, text) in [
            (&b"x"[..], "no type of reply is 'x'"),
            (b"\n", "no type of reply is '\\n'"),
            (b"$?\r\n", "strings and arrays of unknown length are not supported"),
            (b"*?", "strings and arrays of unknown length are not supported"),
            (b";4\r\n", "strings and arrays of unknown length are not supported"),
            (b".\r\n", "strings and arrays of unknown length are not supported"),
            (b"+a\nb\r\n", "a line end in a line"),
            (b"+a\rb\r\n", "a line end in a line"),
            (b":x\r\n", "an integer that is none"),
            (b":\r\n", "an integer that is none"),
            (b":9223372036854775808\r\n", "an integer that is none"),
            (b"$x\r\n", "a length that is not a number"),
            (b"*01\r\n", "a length that is not a number"),
            (b"$111111111111111111111111111111111", "a length that is not a number"),
            (b"$-2\r\n", "a string of less than nothing"),
            (b"!-1\r\n", "a string of less than nothing"),
            (b"*-2\r\n", "an array of less than nothing"),
            (b"%-1\r\n", "an array of less than nothing"),
            (b"$1\r\nab\r\n", "a string that is longer than it says"),
            (b"=3\r\ntxt\r\n", "a verbatim string that does not say how it is written"),
            (b"=4\r\ntxt;\r\n", "a verbatim string that does not say how it is written"),
            (b"_x\r\n", "a null that is something"),
            (b"#x\r\n", "a boolean that is neither true nor false"),
            (b",x\r\n", "a double that is none"),
            (b",\r\n", "a double that is none"),
            (b"(1x\r\n", "a big number that is none"),
            (b"(\r\n", "a big number that is none"),
            (b"(-\r\n", "a big number that is none"),
        ] {
            let error = parse(input).unwrap_err();
            assert_eq!(error.to_string(), format!("not a valid reply: {text}"), "{}", input.escape_ascii());
        }
    }

    #[test]
    fn limits_are_still_allowed_and_one_more_is_not() {
        let limits = Limits { depth: 2, elements: 4, string_bytes: 5, line_bytes: 6, reply_bytes: 30 };
        for (input, error, text) in [
            (&b"*1\r\n*1\r\n:1\r\n"[..], None, ""),
            (b"*1\r\n*1\r\n*0\r\n", Some(ReplyError::TooDeep), "too many arrays in arrays"),
            (b"|0\r\n|0\r\n:1\r\n", None, ""),
            (b"|0\r\n|0\r\n|0\r\n", Some(ReplyError::TooDeep), "too many arrays in arrays"),
            (b"*2\r\n*2\r\n_\r\n_\r\n_\r\n", None, ""),
            (b"*2\r\n*3\r\n", Some(ReplyError::TooManyElements), "too many elements"),
            (b"%3\r\n", Some(ReplyError::TooManyElements), "too many elements"),
            (b"*999999999999999999\r\n", Some(ReplyError::TooManyElements), "too many elements"),
            (b"%999999999999999999\r\n", Some(ReplyError::TooManyElements), "too many elements"),
            (b"$5\r\n12345\r\n", None, ""),
            (b"$6\r\n", Some(ReplyError::TooBigString), "a string is too big"),
            (b"+123456\r\n", None, ""),
            (b"+1234567", Some(ReplyError::TooLongLine), "a line is too long"),
            (b"*3\r\n+12345\r\n+12345\r\n$4\r\n1234\r\n", None, ""),
            (b"*3\r\n+12345\r\n+12345\r\n$5\r\n", Some(ReplyError::TooBigReply), "it is too big as a whole"),
            (b"*4\r\n+12345\r\n+12345\r\n+123\r\n+1\r\n", None, ""),
            (
                b"*4\r\n+12345\r\n+12345\r\n+1234\r\n+1\r\n",
                Some(ReplyError::TooBigReply),
                "it is too big as a whole",
            ),
        ] {
            match error {
                None => assert!(
                    matches!(parse_with(limits.clone(), input), Ok(Some(_))),
                    "{}",
                    input.escape_ascii()
                ),
                Some(error) => {
                    assert_eq!(parse_with(limits.clone(), input), Err(error), "{}", input.escape_ascii());
                    assert_eq!(error.to_string(), format!("not a valid reply: {text}"));
                }
            }
        }
        let deep = Limits { depth: usize::MAX, ..Limits::default() };
        assert_eq!(parse_with(deep.clone(), &b"*1\r\n".repeat(DEPTH_MAX)), Ok(None));
        assert_eq!(parse_with(deep, &b"*1\r\n".repeat(DEPTH_MAX + 1)), Err(ReplyError::TooDeep));
    }

    #[test]
    fn limits_count_anew_with_each_reply() {
        let mut parser = Parser::new(Limits { elements: 2, reply_bytes: 14, ..Limits::default() });
        for _ in 0..3 {
            let progress = parser.next(b"*2\r\n:1\r\n+abc\r\n:1\r\n");
            assert!(matches!(progress, Ok(Progress::Value { consumed: 14, .. })), "{progress:?}");
        }
    }

    #[test]
    fn after_an_error_there_is_nothing_but_the_error() {
        let mut parser = Parser::new(Limits::default());
        assert_eq!(parser.next(b"*1\r\nx"), Err(ReplyError::UnknownType(b'x')));
        assert_eq!(parser.next(b":1\r\n"), Err(ReplyError::UnknownType(b'x')));
    }

    #[test]
    fn parts_are_taken_as_they_come() {
        let mut parser = Parser::new(Limits::default());
        assert_eq!(parser.next(b"*2\r\n:1\r\n$3\r\nab"), Ok(Progress::Incomplete { consumed: 8 }));
        let value = Value::Array(vec![Value::Integer(1), bulk("abc")]);
        assert_eq!(parser.next(b"$3\r\nabc\r\n"), Ok(Progress::Value { value, consumed: 9 }));

        // What was searched for the end of a line is not searched again: change it, and nobody notices.
        assert_eq!(parser.next(b"+abc"), Ok(Progress::Incomplete { consumed: 0 }));
        let value = Value::Simple(b"\n\n\nd".into());
        assert_eq!(parser.next(b"+\n\n\nd\r\n"), Ok(Progress::Value { value, consumed: 7 }));
    }
}
