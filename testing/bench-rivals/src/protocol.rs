//! The protocol of a target: additions to bytes, bytes to answers.

use std::net::TcpStream;

use anyhow::Result;
use bytes::BytesMut;

use crate::operation::Operation;

/// The first answer in the received bytes, or a part of it.
#[derive(Debug, PartialEq, Eq, Clone, Copy)]
pub enum Answer {
    /// A part of an answer.
    Part,
    /// A part with an error: the answer will be a refusal.
    ErrorPart,
    /// The whole answer, or its last part.
    Done,
    /// The whole answer: refused, and nothing was changed.
    Refused,
}

/// A protocol, with the recipe of the target for an addition that counts once.
pub trait Protocol: Send + Sync {
    /// Opens a session on a new connection and waits for the responses.
    fn greet(&self, stream: &mut TcpStream) -> Result<()>;

    /// Appends the request for some additions.
    fn encode(&self, operations: &[Operation], out: &mut BytesMut) -> Result<()>;

    /// Whether one answer is for all additions of a request.
    fn answers_at_once(&self) -> bool {
        false
    }

    /// The first answer in these bytes and its length. `None` if it is incomplete.
    fn answer(&self, bytes: &[u8]) -> Result<Option<(usize, Answer)>>;
}
