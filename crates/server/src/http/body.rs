//! Bodies: read as a whole or line by line, and written as they come about.

use std::convert::Infallible;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use axum::body::{Body, Bytes};
use hyper::body::{Body as _, Frame};
use tokio::sync::mpsc;

use super::problem::{ErrorCode, Problem};

/// Pieces of a response that may wait for a slow reader.
const WAITING_MAX: usize = 16;

/// The next bytes of a body; nothing at its end.
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
                    let detail = format!("the body broke off: {error}");
                    return Err(Problem::new(ErrorCode::BadRequest, detail));
                }
            }
        }
    };
    tokio::time::timeout(timeout, read).await.unwrap_or_else(|_| {
        let detail = format!("the body did not go on within {timeout:?}");
        Err(Problem::new(ErrorCode::BadRequest, detail))
    })
}

/// All of a body, if it is not larger than this and comes within this time.
pub async fn whole(body: &mut Body, limit: usize, timeout: Duration) -> Result<Bytes, Problem> {
    let too_large = || {
        let detail = format!("the body has more than {limit} bytes, which is the most that is taken here");
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

/// A response that is written while it comes about.
pub struct Stream(mpsc::Receiver<Bytes>);

/// Where such a response is written. Its end is when this is dropped.
pub struct Writer(mpsc::Sender<Bytes>);

/// A response, and where to write it.
pub fn channel() -> (Writer, Body) {
    let (writer, reader) = mpsc::channel(WAITING_MAX);
    (Writer(writer), Body::new(Stream(reader)))
}

/// Nobody reads any more.
pub struct ReaderGone;

impl Writer {
    /// Writes a piece; waits while the reader is slow.
    pub async fn write(&self, piece: impl Into<Bytes>) -> Result<(), ReaderGone> {
        self.0.send(piece.into()).await.map_err(|_| ReaderGone)
    }

    /// Writes a piece, if that is possible at once.
    pub fn write_if_room(&self, piece: impl Into<Bytes>) {
        let _else_lost = self.0.try_send(piece.into());
    }

    /// Comes back when nobody reads any more.
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

/// Bytes as lines.
pub struct Lines {
    /// What came and was not given out.
    rest: Vec<u8>,
    longest: usize,
}

/// A line beyond the limit: there is no telling where the next one begins in time.
#[derive(Debug, PartialEq, Eq)]
pub struct LineTooLong;

impl Lines {
    /// Lines of at most so many bytes.
    pub fn new(longest: usize) -> Self {
        Self { rest: Vec::new(), longest }
    }

    /// Takes more bytes, and gives out the lines that are whole now.
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

    /// What comes after the last end of a line.
    pub fn end(self) -> Vec<u8> {
        self.rest
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_the_same_however_the_bytes_come() {
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
    fn a_line_beyond_the_limit_is_refused_before_it_ends() {
        let mut lines = Lines::new(5);
        assert_eq!(lines.push(b"12345\n123", |_| {}), Ok(()));
        assert_eq!(lines.push(b"456", |_| {}), Err(LineTooLong));
    }
}
