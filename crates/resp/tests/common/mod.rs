//! Both parsers as a connection drives them: chunks come in, whole things go out, what was consumed is forgotten.
//!
//! The fuzz targets include this folder, so that what they find fails here in the same way.

#![allow(dead_code, reason = "no test uses all of it")]

pub mod fuzzed;

use jeton_resp::reply_parser::{self, ReplyError, Value};
use jeton_resp::request_parser::{self, Args, ProtocolError};

/// What came out of a stream of bytes: the things, the error that ended it, and how many bytes wait for more.
#[derive(Debug, PartialEq)]
pub struct Outcome<T, E> {
    /// The commands or the replies.
    pub things: Vec<T>,
    /// Why it ended early.
    pub error: Option<E>,
    /// Bytes that were not consumed.
    pub waiting: usize,
}

/// The arguments of a command.
pub type Arguments = Vec<Vec<u8>>;

/// Parses requests that come in these chunks.
pub fn requests<'a>(
    limits: &request_parser::Limits,
    authenticated: bool,
    chunks: impl IntoIterator<Item = &'a [u8]>,
) -> Outcome<Arguments, ProtocolError> {
    let (mut parser, mut args) = (request_parser::Parser::new(limits.clone()), Args::default());
    parser.set_authenticated(authenticated);
    drive(chunks, |input| {
        Ok(match parser.next(input, &mut args)? {
            request_parser::Progress::Incomplete { consumed } => (None, consumed),
            request_parser::Progress::Command { command, consumed } => {
                assert!(command.len() > 0, "a command has a name");
                (Some(command.iter().map(<[u8]>::to_vec).collect()), consumed)
            }
        })
    })
}

/// Parses replies that come in these chunks.
pub fn replies<'a>(
    limits: &reply_parser::Limits,
    chunks: impl IntoIterator<Item = &'a [u8]>,
) -> Outcome<Value, ReplyError> {
    let mut parser = reply_parser::Parser::new(limits.clone());
    drive(chunks, |input| {
        Ok(match parser.next(input)? {
            reply_parser::Progress::Incomplete { consumed } => (None, consumed),
            reply_parser::Progress::Value { value, consumed } => (Some(value), consumed),
        })
    })
}

fn drive<'a, T, E>(
    chunks: impl IntoIterator<Item = &'a [u8]>,
    mut next: impl FnMut(&[u8]) -> Result<(Option<T>, usize), E>,
) -> Outcome<T, E> {
    let (mut buffer, mut things) = (Vec::new(), Vec::new());
    for chunk in chunks {
        buffer.extend_from_slice(chunk);
        let mut at = 0;
        loop {
            match next(&buffer[at..]) {
                Ok((thing, consumed)) => {
                    at += consumed;
                    let Some(thing) = thing else { break };
                    assert!(consumed > 0, "a thing without bytes");
                    things.push(thing);
                }
                // What is waiting after an error depends on the chunks, and interests nobody.
                Err(error) => return Outcome { things, error: Some(error), waiting: 0 },
            }
        }
        buffer.drain(..at);
    }
    Outcome { things, error: None, waiting: buffer.len() }
}

/// Cuts bytes at these places, each taken modulo the length.
pub fn cut<'a>(bytes: &'a [u8], places: &[usize]) -> Vec<&'a [u8]> {
    let mut places: Vec<usize> = places.iter().map(|place| place % (bytes.len() + 1)).collect();
    places.extend([0, bytes.len()]);
    places.sort_unstable();
    places.windows(2).map(|pair| &bytes[pair[0]..pair[1]]).collect()
}
