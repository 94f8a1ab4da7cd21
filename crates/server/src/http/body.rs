//! Request bodies, read as a whole or by line, and streamed response bodies.

use std::convert::Infallible;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use axum::body::{Body, Bytes};
use bytes::BytesMut;
use http_body_util::{BodyExt, LengthLimitError, Limited};
use hyper::body::{Body as _, Frame, SizeHint};
use tokio::sync::mpsc;

use super::problem::{ErrorCode, Problem};
use crate::{Account, MemoryExceeded};

/// Maximum number of chunks buffered for a slow client.
const WAITING_MAX: usize = 16;

/// How much of a body, and for how long, the server reads and drops after the response.
const LINGER_BYTES_MAX: usize = 64 << 20;
const LINGER_TIMEOUT: Duration = Duration::from_secs(5);

/// A request body whose rest is read and dropped if the handler does not read it. Otherwise the connection
/// would be closed while the client still sends, and the reset would discard the response.
pub struct LingeringBody {
    /// `None` at the end of the body.
    body: Option<Body>,
}

impl LingeringBody {
    pub fn new(body: Body) -> Self {
        Self { body: Some(body) }
    }
}

impl hyper::body::Body for LingeringBody {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        let Some(body) = &mut self.body else { return Poll::Ready(None) };
        let polled = Pin::new(body).poll_frame(context);
        if matches!(polled, Poll::Ready(None | Some(Err(_)))) {
            self.body = None;
        }
        polled
    }

    fn is_end_stream(&self) -> bool {
        self.body.as_ref().is_none_or(Body::is_end_stream)
    }

    fn size_hint(&self) -> SizeHint {
        self.body.as_ref().map_or(SizeHint::with_exact(0), Body::size_hint)
    }
}

impl Drop for LingeringBody {
    fn drop(&mut self) {
        if let Some(mut body) = self.body.take().filter(|body| !body.is_end_stream())
            && let Ok(runtime) = tokio::runtime::Handle::try_current()
        {
            let read = async move {
                let mut left = LINGER_BYTES_MAX;
                while left > 0
                    && let Some(Ok(frame)) = body.frame().await
                {
                    left = left.saturating_sub(frame.data_ref().map_or(0, Bytes::len));
                }
            };
            runtime.spawn(tokio::time::timeout(LINGER_TIMEOUT, read));
        }
    }
}

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

/// Reads a body of at most `limit` bytes within `timeout`, and charges it.
pub async fn whole(
    body: &mut Body,
    limit: usize,
    timeout: Duration,
    memory: &mut Account,
) -> Result<Bytes, Problem> {
    let too_large = || {
        let detail = format!("the body has more than the maximum of {limit} bytes");
        Problem::new(ErrorCode::TooLarge, detail).with("limit", limit)
    };
    if body.size_hint().lower() > limit as u64 {
        return Err(too_large());
    }
    let read = async {
        let (mut body, mut all) = (Limited::new(body, limit), BytesMut::new());
        loop {
            let frame = tokio::select! {
                frame = body.frame() => frame,
                exceeded = memory.closing() => return Err(out_of_memory(exceeded)),
            };
            let data = match frame.map(|frame| frame.map(Frame::into_data)) {
                Some(Ok(Ok(data))) => data,
                Some(Ok(Err(_trailers))) => continue,
                Some(Err(error)) if error.is::<LengthLimitError>() => return Err(too_large()),
                Some(Err(error)) => return Err(incomplete(error)),
                None => return Ok(all.freeze()),
            };
            // Copied, because small pieces would need more memory than their bytes.
            all.extend_from_slice(&data);
            memory.charge(all.capacity()).map_err(out_of_memory)?;
        }
    };
    tokio::time::timeout(timeout, read).await.unwrap_or_else(|_| Err(timed_out(timeout)))
}

/// The problem of a client whose memory is too much.
pub fn out_of_memory(exceeded: MemoryExceeded) -> Problem {
    let code = match exceeded {
        MemoryExceeded::Connection { .. } => ErrorCode::TooLarge,
        MemoryExceeded::All { .. } => ErrorCode::Busy,
    };
    Problem::new(code, exceeded.to_string())
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

    pub async fn gone(&self) {
        self.0.closed().await;
    }
}

pub struct Lines {
    rest: BytesMut,
    /// Bytes of `rest` that contain no line break.
    searched: usize,
    longest: usize,
}

/// A line exceeds the limit, so that the start of the next line is unknown.
#[derive(Debug, PartialEq, Eq)]
pub struct LineTooLong;

impl Lines {
    /// Lines of at most `longest` bytes.
    pub fn new(longest: usize) -> Self {
        Self { rest: BytesMut::new(), searched: 0, longest }
    }

    /// Bytes of its buffer.
    pub fn allocated(&self) -> usize {
        self.rest.capacity()
    }

    pub fn push(&mut self, bytes: &[u8]) {
        self.rest.extend_from_slice(bytes);
    }

    /// Removes the next complete line.
    pub fn next(&mut self) -> Result<Option<BytesMut>, LineTooLong> {
        let end = self.rest[self.searched..].iter().position(|byte| *byte == b'\n');
        let end = end.map(|at| self.searched + at);
        if end.unwrap_or(self.rest.len()) > self.longest {
            return Err(LineTooLong);
        }
        self.searched = if end.is_some() { 0 } else { self.rest.len() };
        Ok(end.map(|end| {
            let mut line = self.rest.split_to(end + 1);
            line.truncate(end);
            line
        }))
    }

    /// The bytes after the last line break.
    pub fn end(self) -> BytesMut {
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
                lines.push(bytes);
                found.extend(std::iter::from_fn(|| lines.next().unwrap()));
            }
            assert_eq!(found, [&b"one"[..], b"", b"two"]);
            assert_eq!(lines.end(), &b"three"[..]);
        }
    }

    #[test]
    fn an_overlong_line_is_rejected_before_its_end() {
        let mut lines = Lines::new(5);
        lines.push(b"12345\n123");
        assert_eq!(lines.next(), Ok(Some(b"12345"[..].into())));
        assert_eq!(lines.next(), Ok(None));
        lines.push(b"456");
        assert_eq!(lines.next(), Err(LineTooLong));
    }
}
