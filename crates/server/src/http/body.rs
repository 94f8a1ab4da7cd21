//! Request bodies, read as a whole or by line, and streamed response bodies.

use std::convert::Infallible;
use std::task::Context;
use std::time::Duration;

use axum::body::{Body, Bytes};
use http_body_util::{BodyExt, LengthLimitError, Limited};
use hyper::body::Body as _;
use tokio::sync::mpsc;

use super::problem::{ErrorCode, Problem};

/// Maximum number of chunks buffered for a slow client.
const WAITING_MAX: usize = 16;

/// The next bytes of a body; `None` at its end.
pub async fn next(body: &mut Body, timeout: Duration) -> Result<Option<Bytes>, Problem> {
    let read = async {
        while let Some(frame) = body.frame().await {
            if let Ok(data) = frame.map_err(incomplete)?.into_data() {
                return Ok(Some(data));
            }
        }
        Ok(None)
    };
    tokio::time::timeout(timeout, read).await.unwrap_or_else(|_| Err(timed_out(timeout)))
}

/// Reads a body of at most `limit` bytes within `timeout`.
pub async fn whole(body: &mut Body, limit: usize, timeout: Duration) -> Result<Bytes, Problem> {
    let too_large = || {
        let detail = format!("the body has more than the maximum of {limit} bytes");
        Problem::new(ErrorCode::TooLarge, detail).with("limit", limit)
    };
    if body.size_hint().lower() > limit as u64 {
        return Err(too_large());
    }
    match tokio::time::timeout(timeout, Limited::new(body, limit).collect()).await {
        Ok(Ok(all)) => Ok(all.to_bytes()),
        Ok(Err(error)) if error.is::<LengthLimitError>() => Err(too_large()),
        Ok(Err(error)) => Err(incomplete(error)),
        Err(_) => Err(timed_out(timeout)),
    }
}

fn incomplete(error: impl std::fmt::Display) -> Problem {
    Problem::bad_request(format!("the body is incomplete: {error}"))
}

fn timed_out(timeout: Duration) -> Problem {
    Problem::bad_request(format!("no part of the body arrived within {timeout:?}"))
}

/// The writing end of a streamed body, which ends when this is dropped.
pub struct Writer(mpsc::Sender<Bytes>);

pub fn channel() -> (Writer, Body) {
    let (writer, mut reader) = mpsc::channel(WAITING_MAX);
    let next = move |context: &mut Context<'_>| {
        reader.poll_recv(context).map(|piece| piece.map(Ok::<_, Infallible>))
    };
    (Writer(writer), Body::from_stream(futures_util::stream::poll_fn(next)))
}

/// The client has disconnected.
pub struct ReaderGone;

impl Writer {
    /// Writes a chunk, and waits while the client is slow.
    pub async fn write(&self, piece: impl Into<Bytes>) -> Result<(), ReaderGone> {
        self.0.send(piece.into()).await.map_err(|_| ReaderGone)
    }

    /// Writes a chunk if the buffer has room, else drops it.
    pub fn write_if_room(&self, piece: impl Into<Bytes>) {
        let _else_lost = self.0.try_send(piece.into());
    }

    /// Returns when the client has disconnected.
    pub async fn gone(&self) {
        self.0.closed().await;
    }
}

/// Splits bytes into lines.
pub struct Lines {
    /// The start of an incomplete line.
    rest: Vec<u8>,
    longest: usize,
}

/// A line exceeds the limit, so that the start of the next line is unknown.
#[derive(Debug, PartialEq, Eq)]
pub struct LineTooLong;

impl Lines {
    /// Lines of at most `longest` bytes.
    pub fn new(longest: usize) -> Self {
        Self { rest: Vec::new(), longest }
    }

    /// Adds bytes and calls `line` with each complete line.
    pub fn push(&mut self, bytes: &[u8], mut line: impl FnMut(&[u8])) -> Result<(), LineTooLong> {
        let mut pieces = bytes.split(|byte| *byte == b'\n').peekable();
        while let Some(piece) = pieces.next() {
            if self.rest.len() + piece.len() > self.longest {
                return Err(LineTooLong);
            }
            let is_whole = pieces.peek().is_some();
            if is_whole && self.rest.is_empty() {
                line(piece);
                continue;
            }
            self.rest.extend_from_slice(piece);
            if is_whole {
                line(&self.rest);
                self.rest.clear();
            }
        }
        Ok(())
    }

    /// The bytes after the last line break.
    pub fn end(self) -> Vec<u8> {
        self.rest
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_do_not_depend_on_chunks() {
        let text = b"one\n\ntwo\nthree";
        for step in 1..text.len() {
            let mut lines = Lines::new(5);
            let mut found = Vec::new();
            for bytes in text.chunks(step) {
                lines.push(bytes, |line| found.push(line.to_vec())).unwrap();
            }
            assert_eq!(found, [&b"one"[..], b"", b"two"]);
            assert_eq!(lines.end(), b"three");
        }
    }

    #[test]
    fn an_overlong_line_is_rejected_before_its_end() {
        let mut lines = Lines::new(5);
        assert_eq!(lines.push(b"12345\n123", |_| {}), Ok(()));
        assert_eq!(lines.push(b"456", |_| {}), Err(LineTooLong));
    }
}
