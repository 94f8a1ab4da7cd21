//! Drives both parsers as a connection does: it appends chunks to a buffer and drops consumed bytes.
//!
//! The fuzz targets include this folder, so that their findings fail here in the same way.

#![allow(dead_code, reason = "each test uses a part of this module")]

pub mod fuzzed;

use jeton_resp::reply_parser::{self, ReplyError, Value};
use jeton_resp::request_parser::{self, Args, ProtocolError};

/// Result of parsing a stream.
#[derive(Debug, PartialEq)]
pub struct Outcome<T, E> {
    /// Commands or replies.
    pub things: Vec<T>,
    /// The error that ended the stream.
    pub error: Option<E>,
    /// Bytes of an incomplete command or reply at the end.
    pub waiting: usize,
}

/// The arguments of a command.
pub type Arguments = Vec<Vec<u8>>;

/// Parses requests from chunks.
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

/// Parses replies from chunks.
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
                    assert!(consumed > 0, "a result must consume bytes");
                    things.push(thing);
                }
                // After an error the number of unconsumed bytes depends on the chunks.
                Err(error) => return Outcome { things, error: Some(error), waiting: 0 },
            }
        }
        buffer.drain(..at);
    }
    Outcome { things, error: None, waiting: buffer.len() }
}

/// Cuts bytes at `positions`, each modulo the length.
pub fn cut<'a>(bytes: &'a [u8], positions: &[usize]) -> Vec<&'a [u8]> {
    let mut positions: Vec<usize> = positions.iter().map(|position| position % (bytes.len() + 1)).collect();
    positions.extend([0, bytes.len()]);
    positions.sort_unstable();
    positions.windows(2).map(|pair| &bytes[pair[0]..pair[1]]).collect()
}
