//! Parses the requests of a client into commands. Only inline commands are copied.
//!
//! ```
//! use jeton_resp::request_parser::{Args, Limits, Parser, Progress};
//!
//! let (mut parser, mut args) = (Parser::new(Limits::default()), Args::default());
//! let mut received = b"*2\r\n$4\r\nJGET\r\n$1\r\na\r\nPING\r\n*1\r\n".to_vec();
//! let (mut names, mut at) = (Vec::new(), 0);
//! loop {
//!     match parser.next(&received[at..], &mut args)? {
//!         Progress::Command { command, consumed } => {
//!             names.push(command.name().to_vec());
//!             at += consumed;
//!         }
//!         Progress::Incomplete { consumed } => {
//!             received.drain(..at + consumed);
//!             break;
//!         }
//!     }
//! }
//! assert_eq!(names, [b"JGET", b"PING"]);
//! assert_eq!(received, b"*1\r\n");
//! # Ok::<(), jeton_resp::request_parser::ProtocolError>(())
//! ```
//!
//! Invariants:
//! - The parser keeps its position. The caller passes all bytes that were not consumed, followed by new ones.
//! - An invalid command is rejected at the first byte that shows it, however the input is cut into chunks.
//! - After an error the start of the next command is unknown. The parser repeats the error; the server
//!   replies with it and closes the connection.
//!
//! One difference from Redis: where a line or an argument must end in `\r\n`, Redis skips two bytes without
//! checking them, and a client that counts its bytes wrongly has its data executed as commands. This parser
//! rejects it.

use std::fmt;
use std::ops::Index;

use crate::inline;
use crate::number::{self, BadLength};

/// Bytes of the smallest argument, `$0\r\n\r\n`.
const ARGUMENT_BYTES_MIN: usize = 6;

/// Argument spans, of eight bytes each, for which an idle parser keeps its allocation.
const SPANS_KEPT: usize = 1024;

/// Inclusive limits on requests.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Limits {
    /// Arguments of a command, its name included.
    pub arguments: usize,
    pub argument_bytes: usize,
    /// Bytes of a command with its lengths and line ends. Capped at 4 GiB.
    pub command_bytes: usize,
    /// Bytes of the line of an inline command, before its `\n`.
    pub inline_bytes: usize,
    pub unauthenticated_arguments: usize,
    pub unauthenticated_argument_bytes: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            arguments: 1 << 20,
            argument_bytes: 512 << 10,
            command_bytes: 16 << 20,
            inline_bytes: 64 << 10,
            unauthenticated_arguments: 10,
            unauthenticated_argument_bytes: 16 << 10,
        }
    }
}

/// Why a request is invalid. The messages are those of Redis, because clients match on them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum ProtocolError {
    /// The number of arguments is not a number, or is above [`Limits::arguments`].
    #[error("Protocol error: invalid multibulk length")]
    InvalidMultibulkLength,
    /// The length of an argument is not a number, is above [`Limits::argument_bytes`], or does not match the
    /// argument.
    #[error("Protocol error: invalid bulk length")]
    InvalidBulkLength,
    #[error("Protocol error: expected '$', got '{}'", printable(*.0))]
    ExpectedDollar(u8),
    #[error("Protocol error: too big mbulk count string")]
    TooBigMultibulkCount,
    #[error("Protocol error: too big bulk count string")]
    TooBigBulkCount,
    #[error("Protocol error: too big inline request")]
    TooBigInline,
    #[error("Protocol error: unbalanced quotes in request")]
    UnbalancedQuotes,
    #[error("Protocol error: unauthenticated multibulk length")]
    UnauthenticatedMultibulkLength,
    #[error("Protocol error: unauthenticated bulk length")]
    UnauthenticatedBulkLength,
    /// The command is above [`Limits::command_bytes`]. Redis has no such limit and no message for it.
    #[error("Protocol error: too big request")]
    TooBigRequest,
    /// An inline command that is an HTTP request. A web page can send one to any port, with commands in its
    /// body. Redis closes the connection without a message.
    #[error("Protocol error: this is an HTTP request to the port of RESP")]
    HttpRequest,
}

/// The byte as is if printable: control bytes could corrupt a log or a terminal.
fn printable(byte: u8) -> String {
    match byte {
        b' '..=b'~' => char::from(byte).to_string(),
        _ => byte.escape_ascii().to_string(),
    }
}

/// Start and end of an argument, relative to the start of its command.
#[derive(Debug, Clone, Copy)]
struct Span {
    start: u32,
    end: u32,
}

/// Reusable buffer for the arguments of one command.
#[derive(Debug, Default)]
pub struct Args {
    spans: Vec<Span>,
    /// The unquoted words of an inline command; its spans point into them.
    words: Vec<u8>,
}

impl Args {
    /// Bytes of its buffers.
    pub fn allocated(&self) -> usize {
        self.spans.capacity() * size_of::<Span>() + self.words.capacity()
    }
}

/// A command. It has at least a name.
#[derive(Clone, Copy)]
pub struct Command<'a> {
    bytes: &'a [u8],
    spans: &'a [Span],
}

impl<'a> Command<'a> {
    /// The first argument, in the case the client used.
    pub fn name(&self) -> &'a [u8] {
        self.get(0).unwrap_or_default()
    }

    /// The number of arguments, the name included.
    #[expect(clippy::len_without_is_empty, reason = "a command is never empty")]
    pub fn len(&self) -> usize {
        self.spans.len()
    }

    /// The argument at `index`. The name is at 0.
    #[inline]
    pub fn get(&self, index: usize) -> Option<&'a [u8]> {
        self.spans.get(index).map(|span| &self.bytes[span.start as usize..span.end as usize])
    }

    /// The arguments, starting with the name.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = &'a [u8]> + use<'a> {
        let bytes = self.bytes;
        self.spans.iter().map(move |span| &bytes[span.start as usize..span.end as usize])
    }
}

impl Index<usize> for Command<'_> {
    type Output = [u8];

    fn index(&self, index: usize) -> &[u8] {
        let span = self.spans[index];
        &self.bytes[span.start as usize..span.end as usize]
    }
}

impl fmt::Debug for Command<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.iter().map(|argument| argument.escape_ascii().to_string())).finish()
    }
}

/// Result of [`Parser::next`]. The next call must not see the consumed bytes again.
#[derive(Debug)]
pub enum Progress<'a> {
    /// The input has no complete command. The consumed bytes were empty lines and empty commands.
    Incomplete {
        consumed: usize,
    },
    Command {
        command: Command<'a>,
        consumed: usize,
    },
}

/// Parses the requests of one connection.
#[derive(Debug)]
pub struct Parser {
    limits: Limits,
    authenticated: bool,
    stage: Stage,
    /// The arguments parsed so far of an incomplete command.
    spans: Vec<Span>,
}

/// State of the parser. Positions are relative to the start of the command.
#[derive(Debug, Clone, Copy)]
enum Stage {
    /// Between commands.
    Start,
    /// In an inline command without a line end in its first `searched` bytes.
    Inline { searched: usize },
    /// In an array with `missing` arguments to come. The next starts at `at`, with its bytes if `len` is
    /// known and with its length otherwise.
    Array { missing: usize, at: usize, len: Option<usize> },
    /// After an error.
    Failed(ProtocolError),
}

impl Parser {
    /// Creates a parser for a new connection. The client counts as authenticated until
    /// [`Parser::set_authenticated`] is called.
    pub fn new(limits: Limits) -> Self {
        // 32-bit positions halve the memory of commands with many arguments.
        let command_bytes = limits.command_bytes.min(u32::MAX as usize);
        let inline_bytes = limits.inline_bytes.min(command_bytes);
        let limits = Limits { command_bytes, inline_bytes, ..limits };
        Self { limits, authenticated: true, stage: Stage::Start, spans: Vec::new() }
    }

    /// Lower limits apply to unauthenticated clients. Takes effect at the next length that is parsed, so it
    /// must be called between commands.
    pub fn set_authenticated(&mut self, authenticated: bool) {
        self.authenticated = authenticated;
    }

    /// Bytes of its buffers.
    pub fn allocated(&self) -> usize {
        self.spans.capacity() * size_of::<Span>()
    }

    /// Drops a large buffer of a completed command.
    pub fn shrink(&mut self) {
        if matches!(self.stage, Stage::Start) {
            self.clear_spans();
        }
    }

    /// Parses the next command from the bytes that were not consumed yet.
    ///
    /// # Panics
    ///
    /// May panic if `input` does not start with the unconsumed bytes of the previous call.
    pub fn next<'a>(&mut self, input: &'a [u8], args: &'a mut Args) -> Result<Progress<'a>, ProtocolError> {
        self.advance(input, args).inspect_err(|error| {
            self.stage = Stage::Failed(*error);
            self.spans = Vec::new();
        })
    }

    #[inline]
    fn advance<'a>(&mut self, input: &'a [u8], args: &'a mut Args) -> Result<Progress<'a>, ProtocolError> {
        let mut start = 0;
        loop {
            let frame = &input[start..];
            let incomplete = Ok(Progress::Incomplete { consumed: start });
            match self.stage {
                Stage::Start => {
                    let Some(&first) = frame.first() else { return incomplete };
                    if first != b'*' {
                        self.stage = Stage::Inline { searched: 0 };
                        continue;
                    }
                    match self.array_header(&frame[1..])? {
                        None => return incomplete,
                        Some((0, used)) => start += 1 + used,
                        Some((missing, used)) => {
                            self.clear_spans();
                            self.stage = Stage::Array { missing, at: 1 + used, len: None };
                        }
                    }
                }
                Stage::Array { missing, at, len } => {
                    let Some(used) = self.arguments(frame, missing, at, len)? else { return incomplete };
                    // The parser reuses the allocation of the previous command.
                    std::mem::swap(&mut self.spans, &mut args.spans);
                    self.stage = Stage::Start;
                    let command = Command { bytes: frame, spans: &args.spans };
                    return Ok(Progress::Command { command, consumed: start + used });
                }
                Stage::Inline { searched } => {
                    let Some(end) = self.line_end(frame, searched)? else { return incomplete };
                    self.stage = Stage::Start;
                    start += end + 1;
                    self.words(&frame[..end], args)?;
                    if !args.spans.is_empty() {
                        let command = Command { bytes: &args.words, spans: &args.spans };
                        return Ok(Progress::Command { command, consumed: start });
                    }
                }
                Stage::Failed(error) => return Err(error),
            }
        }
    }

    /// The number of arguments and the bytes it took; `None` if incomplete. A null array counts as empty.
    #[inline]
    fn array_header(&self, bytes: &[u8]) -> Result<Option<(usize, usize)>, ProtocolError> {
        let (invalid, too_long) =
            (ProtocolError::InvalidMultibulkLength, ProtocolError::TooBigMultibulkCount);
        let Some((value, used)) = length(bytes, invalid, too_long)? else { return Ok(None) };
        let count = usize::try_from(value.max(0)).map_err(|_| invalid)?;
        self.check_count(count)?;
        // Rejected now: whatever follows, the command would be above the limit.
        if self.exceeds_limit(1 + used, count) {
            return Err(ProtocolError::TooBigRequest);
        }
        Ok(Some((count, used)))
    }

    /// Parses the arguments of an array. Returns the length of the command; `None` if incomplete.
    #[inline]
    fn arguments(
        &mut self,
        frame: &[u8],
        mut missing: usize,
        mut at: usize,
        mut pending_len: Option<usize>,
    ) -> Result<Option<usize>, ProtocolError> {
        while missing > 0 {
            let len = if let Some(len) = pending_len.take() {
                len
            } else if let Some((len, used)) = self.argument_header(frame, at, missing)? {
                at += used;
                len
            } else {
                self.stage = Stage::Array { missing, at, len: None };
                return Ok(None);
            };
            let end = at + len;
            match frame.get(end..end + 2) {
                Some(b"\r\n") => {}
                Some(_) => return Err(ProtocolError::InvalidBulkLength),
                None => {
                    self.stage = Stage::Array { missing, at, len: Some(len) };
                    return Ok(None);
                }
            }
            // `exceeds_limit` has checked that the command is below 4 GiB.
            self.spans.push(Span { start: at as u32, end: end as u32 });
            at = end + 2;
            missing -= 1;
        }
        Ok(Some(at))
    }

    /// The length of an argument and the bytes it took; `None` if incomplete.
    #[inline]
    fn argument_header(
        &self,
        frame: &[u8],
        at: usize,
        missing: usize,
    ) -> Result<Option<(usize, usize)>, ProtocolError> {
        let bytes = match &frame[at..] {
            [] => return Ok(None),
            [b'$', rest @ ..] => rest,
            [other, ..] => return Err(ProtocolError::ExpectedDollar(*other)),
        };
        let (invalid, too_long) = (ProtocolError::InvalidBulkLength, ProtocolError::TooBigBulkCount);
        let Some((value, used)) = length(bytes, invalid, too_long)? else { return Ok(None) };
        let (len, used) = (usize::try_from(value).map_err(|_| invalid)?, 1 + used);
        self.check_len(len)?;
        if self.exceeds_limit((at + used + 2).saturating_add(len), missing - 1) {
            return Err(ProtocolError::TooBigRequest);
        }
        Ok(Some((len, used)))
    }

    /// The position of the `\n` of a line; `None` if incomplete.
    fn line_end(&mut self, frame: &[u8], searched: usize) -> Result<Option<usize>, ProtocolError> {
        let window = &frame[..frame.len().min(self.limits.inline_bytes.saturating_add(1))];
        let found = window[searched..].iter().position(|byte| *byte == b'\n');
        if found.is_none() && window.len() > self.limits.inline_bytes {
            return Err(ProtocolError::TooBigInline);
        }
        self.stage = Stage::Inline { searched: window.len() };
        Ok(found.map(|at| searched + at))
    }

    /// Splits an inline command into words. The limits on arguments apply to them.
    fn words(&self, line: &[u8], args: &mut Args) -> Result<(), ProtocolError> {
        if inline::is_http(line) {
            return Err(ProtocolError::HttpRequest);
        }
        let Args { spans, words } = args;
        spans.clear();
        words.clear();
        inline::split(line, words, |start, end| spans.push(Span { start: start as u32, end: end as u32 }))
            .map_err(|inline::Unbalanced| ProtocolError::UnbalancedQuotes)?;
        self.check_count(spans.len())?;
        spans.iter().try_for_each(|span| self.check_len((span.end - span.start) as usize))
    }

    #[inline]
    fn check_count(&self, count: usize) -> Result<(), ProtocolError> {
        if count > self.limits.arguments {
            return Err(ProtocolError::InvalidMultibulkLength);
        }
        let allowed = self.authenticated || count <= self.limits.unauthenticated_arguments;
        if allowed { Ok(()) } else { Err(ProtocolError::UnauthenticatedMultibulkLength) }
    }

    #[inline]
    fn check_len(&self, len: usize) -> Result<(), ProtocolError> {
        if len > self.limits.argument_bytes {
            return Err(ProtocolError::InvalidBulkLength);
        }
        let allowed = self.authenticated || len <= self.limits.unauthenticated_argument_bytes;
        if allowed { Ok(()) } else { Err(ProtocolError::UnauthenticatedBulkLength) }
    }

    /// Whether a command of `bytes` so far and `arguments` more must be above the limit.
    #[inline]
    fn exceeds_limit(&self, bytes: usize, arguments: usize) -> bool {
        bytes.saturating_add(arguments.saturating_mul(ARGUMENT_BYTES_MIN)) > self.limits.command_bytes
    }

    #[inline]
    fn clear_spans(&mut self) {
        if self.spans.capacity() > SPANS_KEPT {
            self.spans = Vec::new();
        }
        self.spans.clear();
    }
}

#[inline]
fn length(
    bytes: &[u8],
    malformed: ProtocolError,
    too_long: ProtocolError,
) -> Result<Option<(i64, usize)>, ProtocolError> {
    number::length(bytes).map_err(|bad| if bad == BadLength::TooLong { too_long } else { malformed })
}

#[cfg(test)]
mod tests;
