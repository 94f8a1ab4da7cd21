//! How a contender is spoken to: additions into bytes, bytes into answers.

use std::net::TcpStream;

use anyhow::Result;
use bytes::BytesMut;

use crate::operation::Operation;

/// What the bytes at hand begin with.
#[derive(Debug, PartialEq, Eq, Clone, Copy)]
pub enum Answer {
    /// A piece of an answer; more will come.
    Piece,
    /// A piece that says that the answer will be a refusal.
    Flaw,
    /// The answer: done.
    Done,
    /// The answer: refused, and nothing was changed.
    Refused,
}

/// The protocol of a contender with its recipe for an exact addition.
pub trait Dialect: Send + Sync {
    /// What is said on a new connection before the first addition, waiting for the answers.
    fn greet(&self, stream: &mut TcpStream) -> Result<()>;

    /// Appends the request for some additions.
    fn encode(&self, operations: &[Operation], out: &mut BytesMut) -> Result<()>;

    /// Whether the additions of a request are answered by one answer for all, and not by one each.
    fn answers_at_once(&self) -> bool {
        false
    }

    /// The first answer in these bytes and its length; nothing if its end is not there yet.
    fn answer(&self, bytes: &[u8]) -> Result<Option<(usize, Answer)>>;
}
