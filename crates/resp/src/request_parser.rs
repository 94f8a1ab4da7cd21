//! Requests as a server reads them: bytes in, commands out, nothing copied but inline commands.
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
//! What must hold:
//! - The parser remembers how far it came. The next call gets the bytes behind what was consumed, those seen before
//!   first: the same bytes, now with more behind them.
//! - A command that is refused is refused at the first byte that shows it, and the same whatever the chunks were.
//! - After an error there is no telling where the next command begins, so the parser only repeats the error: answer
//!   with it and close the connection.
//!
//! Stricter than Redis in one thing: where a line or an argument must end in `\r\n`, Redis skips two bytes unseen. A
//! client that counts its bytes wrongly would then have its data read as commands; here it is told.

use std::fmt;
use std::ops::Index;

use crate::inline;
use crate::number::{self, Length};

/// The smallest argument there is: `$0\r\n\r\n`.
const ARGUMENT_BYTES_MIN: usize = 6;

/// Places of arguments that an idle parser may keep room for: eight bytes each.
const PLACES_KEPT: usize = 1024;

/// What a client may send. All of them are bounds that are still allowed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Limits {
    /// Arguments of a command, its name included.
    pub arguments: usize,
    /// Bytes of one argument.
    pub argument_bytes: usize,
    /// Bytes of a whole command with its lengths and line ends; never more than 4 GiB.
    pub command_bytes: usize,
    /// Bytes of the line of an inline command, before its `\n`.
    pub inline_bytes: usize,
    /// As `arguments`, for a client that has not said who it is.
    pub stranger_arguments: usize,
    /// As `argument_bytes`, for a client that has not said who it is.
    pub stranger_argument_bytes: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            arguments: 1 << 20,
            argument_bytes: 512 << 10,
            command_bytes: 16 << 20,
            inline_bytes: 64 << 10,
            stranger_arguments: 10,
            stranger_argument_bytes: 16 << 10,
        }
    }
}

/// Why the bytes of a client are not commands. The texts are those of Redis, for which clients look.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ProtocolError {
    /// The number of arguments is not a number, or beyond [`Limits::arguments`].
    InvalidMultibulkLength,
    /// The length of an argument is not a number, or beyond [`Limits::argument_bytes`], or not the length it has.
    InvalidBulkLength,
    /// This byte is where an argument should begin.
    ExpectedDollar(u8),
    /// The number of arguments has no end.
    TooBigMultibulkCount,
    /// The length of an argument has no end.
    TooBigBulkCount,
    /// An inline command is beyond [`Limits::inline_bytes`].
    TooBigInline,
    /// An inline command has a quote without an end.
    UnbalancedQuotes,
    /// A stranger's command is beyond [`Limits::stranger_arguments`].
    UnauthenticatedMultibulkLength,
    /// A stranger's argument is beyond [`Limits::stranger_argument_bytes`].
    UnauthenticatedBulkLength,
    /// The whole is beyond [`Limits::command_bytes`]. Redis knows no such limit and has no text for it.
    TooBigRequest,
}

impl fmt::Display for ProtocolError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Protocol error: ")?;
        f.write_str(match self {
            Self::InvalidMultibulkLength => "invalid multibulk length",
            Self::InvalidBulkLength => "invalid bulk length",
            // As it is if it can be seen; others could do harm in a log or on a terminal.
            Self::ExpectedDollar(byte @ b' '..=b'~') => {
                return write!(f, "expected '$', got '{}'", char::from(*byte));
            }
            Self::ExpectedDollar(byte) => return write!(f, "expected '$', got '{}'", byte.escape_ascii()),
            Self::TooBigMultibulkCount => "too big mbulk count string",
            Self::TooBigBulkCount => "too big bulk count string",
            Self::TooBigInline => "too big inline request",
            Self::UnbalancedQuotes => "unbalanced quotes in request",
            Self::UnauthenticatedMultibulkLength => "unauthenticated multibulk length",
            Self::UnauthenticatedBulkLength => "unauthenticated bulk length",
            Self::TooBigRequest => "too big request",
        })
    }
}

impl std::error::Error for ProtocolError {}

/// Where an argument is, counted from where its command begins.
#[derive(Debug, Clone, Copy)]
struct Place {
    start: u32,
    end: u32,
}

/// Room for the arguments of one command, to be used again for the next.
#[derive(Debug, Default)]
pub struct Args {
    places: Vec<Place>,
    /// The words of an inline command without their quotes; the places are then in here.
    words: Vec<u8>,
}

/// A command: at least its name.
#[derive(Clone, Copy)]
pub struct Command<'a> {
    bytes: &'a [u8],
    places: &'a [Place],
}

impl<'a> Command<'a> {
    /// The first argument, as the client wrote it.
    pub fn name(&self) -> &'a [u8] {
        self.get(0).unwrap_or_default()
    }

    /// How many arguments there are, the name included.
    #[expect(clippy::len_without_is_empty, reason = "a command is never empty")]
    pub fn len(&self) -> usize {
        self.places.len()
    }

    /// An argument, if there are so many; the name is at 0.
    #[inline]
    pub fn get(&self, index: usize) -> Option<&'a [u8]> {
        self.places.get(index).map(|place| &self.bytes[place.start as usize..place.end as usize])
    }

    /// All arguments, the name first.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = &'a [u8]> + use<'a> {
        let bytes = self.bytes;
        self.places.iter().map(move |place| &bytes[place.start as usize..place.end as usize])
    }
}

impl Index<usize> for Command<'_> {
    type Output = [u8];

    fn index(&self, index: usize) -> &[u8] {
        let place = self.places[index];
        &self.bytes[place.start as usize..place.end as usize]
    }
}

impl fmt::Debug for Command<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.iter().map(|argument| argument.escape_ascii().to_string())).finish()
    }
}

/// What a call of [`Parser::next`] found.
#[derive(Debug)]
pub enum Progress<'a> {
    /// No whole command is there. The bytes consumed say nothing (empty lines, empty commands) and can be forgotten.
    Incomplete {
        /// How many bytes the next call must not see again.
        consumed: usize,
    },
    /// A command.
    Command {
        /// Its arguments.
        command: Command<'a>,
        /// How many bytes the next call must not see again.
        consumed: usize,
    },
}

/// Reads the requests of one connection.
#[derive(Debug)]
pub struct Parser {
    limits: Limits,
    authenticated: bool,
    stage: Stage,
    /// The arguments found so far of a command that is not whole.
    places: Vec<Place>,
}

/// How far the parser came; positions are counted from where the command begins.
#[derive(Debug, Clone, Copy)]
enum Stage {
    /// Between two commands.
    Start,
    /// In a line that had no end up to here.
    Inline { searched: usize },
    /// In an array of which `missing` arguments are not found. The next begins at `at`: with its length, or with its
    /// bytes if the length is known.
    Array { missing: usize, at: usize, len: Option<usize> },
    /// At the end.
    Failed(ProtocolError),
}

impl Parser {
    /// A parser for a connection of which nothing is read yet. The client may do all that the limits allow: see
    /// [`Parser::set_authenticated`].
    pub fn new(limits: Limits) -> Self {
        // Places are 32 bits wide: half the memory for many arguments.
        let command_bytes = limits.command_bytes.min(u32::MAX as usize);
        let inline_bytes = limits.inline_bytes.min(command_bytes);
        let limits = Limits { command_bytes, inline_bytes, ..limits };
        Self { limits, authenticated: true, stage: Stage::Start, places: Vec::new() }
    }

    /// Whether the client is known; a stranger has the lower limits. Holds from the next length that is read: do it
    /// between two commands, not after many were parsed ahead.
    pub fn set_authenticated(&mut self, authenticated: bool) {
        self.authenticated = authenticated;
    }

    /// Finds the next command in the bytes not consumed so far.
    ///
    /// # Panics
    ///
    /// May panic if bytes that were seen and not consumed are missing from the front of `input`.
    pub fn next<'a>(&mut self, input: &'a [u8], args: &'a mut Args) -> Result<Progress<'a>, ProtocolError> {
        match self.advance(input, args) {
            Ok(Found::Nothing { consumed }) => Ok(Progress::Incomplete { consumed }),
            Ok(Found::Array { start, consumed }) => {
                let command = Command { bytes: &input[start..consumed], places: &args.places };
                Ok(Progress::Command { command, consumed })
            }
            Ok(Found::Inline { consumed }) => {
                let command = Command { bytes: &args.words, places: &args.places };
                Ok(Progress::Command { command, consumed })
            }
            Err(error) => {
                self.stage = Stage::Failed(error);
                self.places = Vec::new();
                Err(error)
            }
        }
    }

    #[inline]
    fn advance(&mut self, input: &[u8], args: &mut Args) -> Result<Found, ProtocolError> {
        let mut start = 0;
        loop {
            let frame = &input[start..];
            match self.stage {
                Stage::Start => {
                    let Some(&first) = frame.first() else { return Ok(Found::Nothing { consumed: start }) };
                    if first != b'*' {
                        self.stage = Stage::Inline { searched: 0 };
                        continue;
                    }
                    match self.array_header(&frame[1..])? {
                        None => return Ok(Found::Nothing { consumed: start }),
                        Some((0, used)) => start += 1 + used,
                        Some((missing, used)) => {
                            self.forget_places();
                            self.stage = Stage::Array { missing, at: 1 + used, len: None };
                        }
                    }
                }
                Stage::Array { missing, at, len } => {
                    let Some(used) = self.arguments(frame, missing, at, len)? else {
                        return Ok(Found::Nothing { consumed: start });
                    };
                    // The parser keeps the room of the command before, if it is not too much.
                    std::mem::swap(&mut self.places, &mut args.places);
                    self.stage = Stage::Start;
                    return Ok(Found::Array { start, consumed: start + used });
                }
                Stage::Inline { searched } => {
                    let Some(end) = self.line_end(frame, searched)? else {
                        return Ok(Found::Nothing { consumed: start });
                    };
                    self.stage = Stage::Start;
                    start += end + 1;
                    self.words(&frame[..end], args)?;
                    if !args.places.is_empty() {
                        return Ok(Found::Inline { consumed: start });
                    }
                }
                Stage::Failed(error) => return Err(error),
            }
        }
    }

    /// The number of arguments and the bytes that it took, or nothing if it is not whole. What is null is empty.
    #[inline]
    fn array_header(&self, bytes: &[u8]) -> Result<Option<(usize, usize)>, ProtocolError> {
        let (value, used) = match number::length(bytes) {
            Length::Whole { value, used } => (value, used),
            Length::Partial => return Ok(None),
            Length::Bad => return Err(ProtocolError::InvalidMultibulkLength),
            Length::TooLong => return Err(ProtocolError::TooBigMultibulkCount),
        };
        let count = usize::try_from(value.max(0)).map_err(|_| ProtocolError::InvalidMultibulkLength)?;
        self.check_count(count)?;
        // Cannot become a command within the limit, whatever follows: said now, not after all of it came.
        if self.beyond(1 + used, count) {
            return Err(ProtocolError::TooBigRequest);
        }
        Ok(Some((count, used)))
    }

    /// Finds the arguments of an array; the length of the whole, or nothing if it is not whole.
    #[inline]
    fn arguments(
        &mut self,
        frame: &[u8],
        mut missing: usize,
        mut at: usize,
        mut known: Option<usize>,
    ) -> Result<Option<usize>, ProtocolError> {
        while missing > 0 {
            let len = match known {
                Some(len) => len,
                None => match self.argument_header(frame, at, missing)? {
                    Some((len, used)) => {
                        at += used;
                        len
                    }
                    None => {
                        self.stage = Stage::Array { missing, at, len: None };
                        return Ok(None);
                    }
                },
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
            // No command is longer than 32 bits can say: `beyond` saw to it.
            self.places.push(Place { start: at as u32, end: end as u32 });
            at = end + 2;
            missing -= 1;
            known = None;
        }
        Ok(Some(at))
    }

    /// The length of an argument and the bytes that it took, or nothing if it is not whole.
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
        let (value, used) = match number::length(bytes) {
            Length::Whole { value, used } => (value, 1 + used),
            Length::Partial => return Ok(None),
            Length::Bad => return Err(ProtocolError::InvalidBulkLength),
            Length::TooLong => return Err(ProtocolError::TooBigBulkCount),
        };
        let len = usize::try_from(value).map_err(|_| ProtocolError::InvalidBulkLength)?;
        self.check_len(len)?;
        if self.beyond((at + used + 2).saturating_add(len), missing - 1) {
            return Err(ProtocolError::TooBigRequest);
        }
        Ok(Some((len, used)))
    }

    /// Where the `\n` of a line is, or nothing if it is not there.
    fn line_end(&mut self, frame: &[u8], searched: usize) -> Result<Option<usize>, ProtocolError> {
        let window = &frame[..frame.len().min(self.limits.inline_bytes.saturating_add(1))];
        let found = window[searched..].iter().position(|byte| *byte == b'\n');
        if found.is_none() && window.len() > self.limits.inline_bytes {
            return Err(ProtocolError::TooBigInline);
        }
        self.stage = Stage::Inline { searched: window.len() };
        Ok(found.map(|at| searched + at))
    }

    /// Takes the words of an inline command. What limits the arguments of an array limits these.
    fn words(&self, line: &[u8], args: &mut Args) -> Result<(), ProtocolError> {
        let Args { places, words } = args;
        places.clear();
        words.clear();
        inline::split(line, words, |start, end| places.push(Place { start: start as u32, end: end as u32 }))
            .map_err(|inline::Unbalanced| ProtocolError::UnbalancedQuotes)?;
        self.check_count(places.len())?;
        places.iter().try_for_each(|place| self.check_len((place.end - place.start) as usize))
    }

    #[inline]
    fn check_count(&self, count: usize) -> Result<(), ProtocolError> {
        if count > self.limits.arguments {
            Err(ProtocolError::InvalidMultibulkLength)
        } else if !self.authenticated && count > self.limits.stranger_arguments {
            Err(ProtocolError::UnauthenticatedMultibulkLength)
        } else {
            Ok(())
        }
    }

    #[inline]
    fn check_len(&self, len: usize) -> Result<(), ProtocolError> {
        if len > self.limits.argument_bytes {
            Err(ProtocolError::InvalidBulkLength)
        } else if !self.authenticated && len > self.limits.stranger_argument_bytes {
            Err(ProtocolError::UnauthenticatedBulkLength)
        } else {
            Ok(())
        }
    }

    /// Whether a command that has so many bytes and arguments to come is too big.
    #[inline]
    fn beyond(&self, bytes: usize, arguments: usize) -> bool {
        bytes.saturating_add(arguments.saturating_mul(ARGUMENT_BYTES_MIN)) > self.limits.command_bytes
    }

    #[inline]
    fn forget_places(&mut self) {
        if self.places.capacity() > PLACES_KEPT {
            self.places = Vec::new();
        }
        self.places.clear();
    }
}

/// What [`Parser::advance`] found.
enum Found {
    Nothing { consumed: usize },
    Array { start: usize, consumed: usize },
    Inline { consumed: usize },
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Limits small enough to be reached in a line.
    const SMALL: Limits = Limits {
        arguments: 4,
        argument_bytes: 8,
        command_bytes: 48,
        inline_bytes: 16,
        stranger_arguments: 2,
        stranger_argument_bytes: 5,
    };

    /// The arguments of a command, if there is one, and how many bytes were consumed.
    type First = (Option<Vec<Vec<u8>>>, usize);

    /// The first command in these bytes.
    fn first(parser: &mut Parser, input: &[u8]) -> Result<First, ProtocolError> {
        match parser.next(input, &mut Args::default())? {
            Progress::Incomplete { consumed } => Ok((None, consumed)),
            Progress::Command { command, consumed } => {
                Ok((Some(command.iter().map(<[u8]>::to_vec).collect()), consumed))
            }
        }
    }

    fn parse(limits: Limits, authenticated: bool, input: &str) -> Result<Option<usize>, ProtocolError> {
        let mut parser = Parser::new(limits);
        parser.set_authenticated(authenticated);
        first(&mut parser, input.as_bytes()).map(|(command, _)| command.map(|arguments| arguments.len()))
    }

    #[test]
    fn commands_are_arrays_of_any_bytes() {
        let input = b"*3\r\n$4\r\nJADD\r\n$0\r\n\r\n$13\r\n\x00\xff\r\n*1\r\n$1\r\na\r\nrest";
        let mut args = Args::default();
        let progress = Parser::new(Limits::default()).next(input, &mut args);
        let Ok(Progress::Command { command, consumed }) = progress else { panic!("{progress:?}") };
        assert_eq!(&input[consumed..], b"rest");
        assert_eq!(command.len(), 3);
        assert_eq!(command.name(), b"JADD");
        assert_eq!(command.get(1), Some(&b""[..]));
        assert_eq!(&command[2], b"\x00\xff\r\n*1\r\n$1\r\na");
        assert_eq!(command.get(3), None);
        assert_eq!(format!("{command:?}"), r#"["JADD", "", "\\x00\\xff\\r\\n*1\\r\\n$1\\r\\na"]"#);
    }

    #[test]
    fn inline_commands_are_words() {
        let mut parser = Parser::new(Limits::default());
        for line in ["jadd \"a b\" 1\r\n", "jadd \"a b\" 1\n", " jadd 'a b' 1 \r\n"] {
            let (command, consumed) = first(&mut parser, format!("{line}next").as_bytes()).unwrap();
            assert_eq!(command.unwrap(), [&b"jadd"[..], b"a b", b"1"]);
            assert_eq!(consumed, line.len());
        }
    }

    #[test]
    fn what_is_empty_is_skipped_and_forgotten() {
        let mut parser = Parser::new(Limits::default());
        let empty = b"\r\n\n*0\r\n*-1\r\n*-7\r\n  \r\n";
        assert_eq!(first(&mut parser, empty).unwrap(), (None, empty.len()));
        assert_eq!(first(&mut parser, b"\r\n*0\r\n*1").unwrap(), (None, 6));
        let (command, consumed) = first(&mut parser, b"*1\r\n$4\r\nPING\r\n").unwrap();
        assert_eq!((command.unwrap(), consumed), (vec![b"PING".to_vec()], 14));
        let (command, consumed) = first(&mut parser, b"\r\n*0\r\n*1\r\n$4\r\nPING\r\n\r\n").unwrap();
        assert_eq!((command.unwrap(), consumed), (vec![b"PING".to_vec()], 20));
    }

    #[test]
    fn errors_have_the_texts_of_redis() {
        let endless = "1".repeat(100);
        let long_line = "x".repeat((64 << 10) + 1);
        let large = format!("*33\r\n{}", format!("$524288\r\n{}\r\n", "x".repeat(512 << 10)).repeat(32));
        for (input, text) in [
            ("*x\r\n", "invalid multibulk length"),
            ("*\r\n", "invalid multibulk length"),
            ("*01\r\n", "invalid multibulk length"),
            ("*1\rx", "invalid multibulk length"),
            ("*3000000000\r\n", "invalid multibulk length"),
            ("*20000000000000000000\r\n", "invalid multibulk length"),
            ("*1\r\n$x\r\n", "invalid bulk length"),
            ("*1\r\n$-1\r\n", "invalid bulk length"),
            ("*1\r\n$2000000000\r\n", "invalid bulk length"),
            ("*1\r\n$1\r\nPING\r\n", "invalid bulk length"),
            ("*1\r\n$4\r\nPING\r*", "invalid bulk length"),
            ("*1\r\nx", "expected '$', got 'x'"),
            ("*2\r\n$4\r\nJGET\r\n'", "expected '$', got '''"),
            ("*1\r\n\r\n", "expected '$', got '\\r'"),
            ("*1\r\n\u{7f}", "expected '$', got '\\x7f'"),
            (&format!("*{endless}"), "too big mbulk count string"),
            (&format!("*1\r\n${endless}"), "too big bulk count string"),
            (&long_line, "too big inline request"),
            ("jadd \"a\r\n", "unbalanced quotes in request"),
            ("jadd 'a'b\r\n", "unbalanced quotes in request"),
            (&large, "too big request"),
        ] {
            let error = parse(Limits::default(), true, input).unwrap_err();
            assert_eq!(error.to_string(), format!("Protocol error: {text}"), "{:.40}", input);
        }
    }

    #[test]
    fn errors_for_strangers_have_the_texts_of_redis() {
        for (input, text) in [
            ("*11\r\n", "unauthenticated multibulk length"),
            ("*1\r\n$16385\r\n", "unauthenticated bulk length"),
            // As Redis: what nobody may send is invalid before it is a stranger's.
            ("*3000000000\r\n", "invalid multibulk length"),
            ("*1\r\n$2000000000\r\n", "invalid bulk length"),
            ("a b c d e f g h i j k\r\n", "unauthenticated multibulk length"),
            (&format!("{}\r\n", "x".repeat(16385)), "unauthenticated bulk length"),
        ] {
            let error = parse(Limits::default(), false, input).unwrap_err();
            assert_eq!(error.to_string(), format!("Protocol error: {text}"), "{:.40}", input);
        }
        for input in ["*10\r\n", "*1\r\n$16384\r\n", "a b c d e f g h i j\r\n"] {
            assert!(parse(Limits::default(), false, input).is_ok(), "{input}");
        }
        for input in ["*11\r\n", "*1\r\n$16385\r\n", "a b c d e f g h i j k\r\n"] {
            assert!(parse(Limits::default(), true, input).is_ok(), "{input}");
        }
    }

    #[test]
    fn limits_are_still_allowed_and_one_more_is_not() {
        use ProtocolError::*;
        for (known, input, expected) in [
            (true, "*4\r\n", Ok(None)),
            (true, "*5\r\n", Err(InvalidMultibulkLength)),
            (true, "a b c d\n", Ok(Some(4))),
            (true, "a b c d e\n", Err(InvalidMultibulkLength)),
            (false, "*2\r\n", Ok(None)),
            (false, "*3\r\n", Err(UnauthenticatedMultibulkLength)),
            (true, "*1\r\n$8\r\n12345678\r\n", Ok(Some(1))),
            (true, "*1\r\n$9\r\n", Err(InvalidBulkLength)),
            (true, "12345678\n", Ok(Some(1))),
            (true, "123456789\n", Err(InvalidBulkLength)),
            (false, "*1\r\n$5\r\n12345\r\n", Ok(Some(1))),
            (false, "*1\r\n$6\r\n", Err(UnauthenticatedBulkLength)),
            (false, "12345\n", Ok(Some(1))),
            (false, "123456\n", Err(UnauthenticatedBulkLength)),
            // 48 bytes, and one more.
            (true, "*4\r\n$8\r\n12345678\r\n$8\r\n12345678\r\n$4\r\n1234\r\n$0\r\n\r\n", Ok(Some(4))),
            (true, "*4\r\n$8\r\n12345678\r\n$8\r\n12345678\r\n$5\r\n", Err(TooBigRequest)),
            (true, "1234 6789 12345\r\n", Ok(Some(3))),
            (true, "1234 6789 123456\n", Ok(Some(3))),
            (true, "1234 6789 123456", Ok(None)),
            (true, "1234 6789 123456\r", Err(TooBigInline)),
            (true, "1234 6789 1234567\n", Err(TooBigInline)),
        ] {
            assert_eq!(parse(SMALL, known, input), expected, "{input:?} of {known}");
        }
    }

    #[test]
    fn what_cannot_fit_is_refused_when_it_is_announced() {
        let limits = Limits { command_bytes: 4 + 2 * ARGUMENT_BYTES_MIN, ..Limits::default() };
        assert_eq!(parse(limits.clone(), true, "*2\r\n$0\r\n\r\n$0\r\n\r\n"), Ok(Some(2)));
        assert_eq!(parse(limits.clone(), true, "*2\r\n$1\r\n"), Err(ProtocolError::TooBigRequest));
        assert_eq!(parse(limits, true, "*3\r\n"), Err(ProtocolError::TooBigRequest));
    }

    #[test]
    fn limits_beyond_what_a_place_can_say_are_lowered() {
        let max = usize::MAX;
        let limits =
            Limits { arguments: max, argument_bytes: max, command_bytes: max, inline_bytes: max, ..SMALL };
        assert_eq!(parse(limits.clone(), true, "*1\r\n$4294967200\r\n"), Ok(None));
        assert_eq!(parse(limits.clone(), true, "*1\r\n$4294967295\r\n"), Err(ProtocolError::TooBigRequest));
        assert_eq!(parse(limits.clone(), true, "*999999999999999999\r\n"), Err(ProtocolError::TooBigRequest));
        assert_eq!(parse(limits, true, "PING\r\n"), Ok(Some(1)));
    }

    #[test]
    fn after_an_error_there_is_nothing_but_the_error() {
        let mut parser = Parser::new(Limits::default());
        assert_eq!(first(&mut parser, b"*x\r\n"), Err(ProtocolError::InvalidMultibulkLength));
        assert_eq!(first(&mut parser, b"*1\r\n$4\r\nPING\r\n"), Err(ProtocolError::InvalidMultibulkLength));
    }

    #[test]
    fn authentication_counts_from_the_next_command() {
        let mut parser = Parser::new(SMALL);
        parser.set_authenticated(false);
        assert!(first(&mut parser, b"*2\r\n$4\r\nAUTH\r\n$1\r\nx\r\n").is_ok());
        parser.set_authenticated(true);
        assert_eq!(first(&mut parser, b"*4\r\n$8\r\n"), Ok((None, 0)));
    }

    #[test]
    fn what_was_parsed_is_not_looked_at_again() {
        // Quadratic work is an attack: here the bytes that were seen change, and nobody may notice.
        let mut parser = Parser::new(Limits::default());
        let mut input = b"*3\r\n$4\r\nJADD\r\n$5\r\nab".to_vec();
        assert_eq!(first(&mut parser, &input), Ok((None, 0)));
        input[..20].fill(b'?');
        input.extend(b"cde\r\n$1\r");
        assert_eq!(first(&mut parser, &input), Ok((None, 0)));
        input[..25].fill(b'?');
        input.extend(b"\n1\r\n");
        let (command, consumed) = first(&mut parser, &input).unwrap();
        assert_eq!((command.map(|it| it.len()), consumed), (Some(3), input.len()));

        let mut input = b"JGET abc".to_vec();
        assert_eq!(first(&mut parser, &input), Ok((None, 0)));
        input[4] = b'\n';
        input.extend(b"def\r\n");
        let (command, consumed) = first(&mut parser, &input).unwrap();
        assert_eq!((command.unwrap(), consumed), (vec![b"JGET".to_vec(), b"abcdef".to_vec()], input.len()));
    }

    #[test]
    fn much_room_is_not_kept() {
        let (mut parser, mut args) = (Parser::new(Limits::default()), Args::default());
        let large = format!("*5000\r\n{}", "$1\r\na\r\n".repeat(5000));
        for input in [&large[..], &large, "*1\r\n$1\r\na\r\n", "*1\r\n$1\r\na\r\n"] {
            let progress = parser.next(input.as_bytes(), &mut args);
            assert!(matches!(progress, Ok(Progress::Command { .. })));
        }
        assert!(parser.places.capacity() <= PLACES_KEPT, "{}", parser.places.capacity());
        assert!(args.places.capacity() <= PLACES_KEPT, "{}", args.places.capacity());
    }
}
