//! Request bodies, read as a whole or by line, and streamed response bodies.

use std::convert::Infallible;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use axum::body::{Body, Bytes};
use hyper::body::{Body as _, Frame};
use tokio::sync::mpsc;

use super::problem::{ErrorCode, Problem};

/// Maximum number of chunks buffered for a slow client.
const WAITING_MAX: usize = 16;

/// The next bytes of a body; `None` at its end.
pub async fn next(body: &mut Body, timeout: Duration) -> Result<Option<Bytes>, Problem> {
    let read = async {
        loop {
            let frame = std::future::poll_fn(|context| Pin::new(&mut *body).poll_frame(context)).await;
            match frame {
                None => return Ok(None),
                Some(Ok(frame)) => {
                    if let Ok(data) = frame.into_data() {
                        return Ok(Some(data));
                    }
                }
                Some(Err(error)) => {
                    let detail = format!("the body is incomplete: {error}");
                    return Err(Problem::new(ErrorCode::BadRequest, detail));
                }
            }
        }
    };
    tokio::time::timeout(timeout, read).await.unwrap_or_else(|_| {
        let detail = format!("no part of the body arrived within {timeout:?}");
        Err(Problem::new(ErrorCode::BadRequest, detail))
    })
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
    let until = tokio::time::Instant::now() + timeout;
    let left = || until.saturating_duration_since(tokio::time::Instant::now());
    let Some(first) = next(body, left()).await? else { return Ok(Bytes::new()) };
    let mut all = Vec::new();
    let mut piece = Some(first);
    while let Some(bytes) = piece {
        if all.len() + bytes.len() > limit {
            return Err(too_large());
        }
        all.extend_from_slice(&bytes);
        piece = next(body, left()).await?;
    }
    Ok(all.into())
}

/// A streamed response body.
pub struct Stream(mpsc::Receiver<Bytes>);

/// The writing end of a streamed body, which ends when this is dropped.
pub struct Writer(mpsc::Sender<Bytes>);

/// A streamed body and its writer.
pub fn channel() -> (Writer, Body) {
    let (writer, reader) = mpsc::channel(WAITING_MAX);
    (Writer(writer), Body::new(Stream(reader)))
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

impl hyper::body::Body for Stream {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        self.0.poll_recv(context).map(|piece| piece.map(|piece| Ok(Frame::data(piece))))
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
