//! The write timeout of connections, and the charge of the bytes that the HTTP library buffers.
//!
//! What must hold: while bytes wait to be sent, the client accepts a minimum part of them within the timeout,
//! or all of them; otherwise the connection is closed. Single bytes do not suffice: they would let a client
//! occupy a connection permanently.

use std::io::{self, ErrorKind, IoSlice};
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::Sleep;

use super::reply_memory::ConnectionMemory;
use super::server::BUFFER_BYTES;
use crate::{Account, Service};

/// Bytes that a client must accept within the timeout, if at least that many wait: the write size of the RESP
/// server.
const PART_BYTES: usize = 1 << 20;

pub struct WriteTimeout<S> {
    stream: S,
    timeout: Duration,
    /// Deadline of the next part; `None` while nothing waits.
    until: Option<Pin<Box<Sleep>>>,
    /// Bytes of that part that the client has accepted.
    taken: usize,
    charged: Option<(ConnectionMemory, Account)>,
}

impl<S: Unpin> WriteTimeout<S> {
    pub fn new(stream: S, timeout: Duration) -> Self {
        Self { stream, timeout, until: None, taken: 0, charged: None }
    }

    /// Charges the bytes received since the last complete head, at most the buffer of the HTTP library.
    pub fn charging(mut self, memory: ConnectionMemory, service: &Service) -> Self {
        let account = memory.account(service);
        self.charged = Some((memory, account));
        self
    }

    /// Polls the stream. Fails if it is pending at the deadline.
    fn in_time<T>(
        &mut self,
        context: &mut Context<'_>,
        attempt: impl FnOnce(Pin<&mut S>, &mut Context<'_>) -> Poll<io::Result<T>>,
    ) -> Poll<io::Result<T>> {
        let done = attempt(Pin::new(&mut self.stream), context);
        if done.is_pending() {
            let timeout = self.timeout;
            let until = self.until.get_or_insert_with(|| Box::pin(tokio::time::sleep(timeout)));
            if until.as_mut().poll(context).is_ready() {
                let why = "the client did not accept the response in time";
                return Poll::Ready(Err(io::Error::new(ErrorKind::TimedOut, why)));
            }
        }
        done
    }

    /// Polls a write. The deadline starts again after each part.
    fn write(
        &mut self,
        context: &mut Context<'_>,
        attempt: impl FnOnce(Pin<&mut S>, &mut Context<'_>) -> Poll<io::Result<usize>>,
    ) -> Poll<io::Result<usize>> {
        let written = self.in_time(context, attempt);
        if let Poll::Ready(Ok(bytes)) = written {
            self.taken += bytes;
            if self.taken >= PART_BYTES {
                self.reset();
            }
        }
        written
    }

    fn reset(&mut self) {
        (self.until, self.taken) = (None, 0);
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for WriteTimeout<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.write(context, |stream, context| stream.poll_write(context, bytes))
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        pieces: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.write(context, |stream, context| stream.poll_write_vectored(context, pieces))
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    /// A flush with nothing left to write means that the client has accepted everything.
    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let flushed = self.in_time(context, |stream, context| stream.poll_flush(context));
        if let Poll::Ready(Ok(())) = flushed {
            self.reset();
        }
        flushed
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.in_time(context, |stream, context| stream.poll_shutdown(context))
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for WriteTimeout<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        into: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = into.filled().len();
        let read = Pin::new(&mut self.stream).poll_read(context, into);
        if let Some((memory, account)) = &mut self.charged {
            let received = memory.receive(into.filled().len() - before);
            account.charge(received.min(BUFFER_BYTES)).map_err(io::Error::other)?;
        }
        read
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, AsyncWriteExt, duplex};
    use tokio::time::{Instant, sleep};

    use super::*;

    const TIMEOUT: Duration = Duration::from_secs(10);

    #[tokio::test(start_paused = true)]
    async fn a_client_that_reads_single_bytes_times_out() {
        let (ours, mut theirs) = duplex(10);
        let mut ours = WriteTimeout::new(ours, TIMEOUT);
        let begun = Instant::now();
        let reading = tokio::spawn(async move {
            while theirs.read_u8().await.is_ok() {
                sleep(TIMEOUT / 2).await;
            }
        });
        let error = ours.write_all(&[0; 100]).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::TimedOut);
        assert_eq!(begun.elapsed(), TIMEOUT);
        drop(ours);
        reading.await.unwrap();
    }

    #[tokio::test(start_paused = true)]
    async fn a_slow_client_that_reads_each_part_does_not_time_out() {
        let (ours, mut theirs) = duplex(PART_BYTES);
        let mut ours = WriteTimeout::new(ours, TIMEOUT);
        let reading = tokio::spawn(async move {
            let mut part = vec![0; PART_BYTES];
            for _ in 0..10 {
                sleep(TIMEOUT - Duration::from_secs(1)).await;
                theirs.read_exact(&mut part).await.unwrap();
            }
            // Small writes with long idle times between them.
            for _ in 0..3 {
                sleep(TIMEOUT - Duration::from_secs(1)).await;
                theirs.read_exact(&mut part[..10]).await.unwrap();
            }
        });
        ours.write_all(&vec![0; 10 * PART_BYTES]).await.unwrap();
        ours.flush().await.unwrap();
        for _ in 0..3 {
            sleep(2 * TIMEOUT).await;
            ours.write_all(&[0; 10]).await.unwrap();
            ours.flush().await.unwrap();
        }
        reading.await.unwrap();
    }
}
