//! Patience with a client that does not take what it is sent.
//!
//! What must hold: while something waits to be sent, the client takes a good part of it in time, or all of it; otherwise the connection
//! breaks. A byte now and then is not a good part: it would hold the response, and the place, for as long as the client likes.

use std::io::{self, ErrorKind, IoSlice};
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::Sleep;

/// What a client has to take in the time allowed, if there is so much: what the Redis protocol sends at a time.
const PART_BYTES: usize = 1 << 20;

/// A connection with a client that may be slow, but not without end.
pub struct WriteTimeout<S> {
    stream: S,
    patience: Duration,
    /// Until when the client has to take the next part. Nothing as long as it takes all there is.
    until: Option<Pin<Box<Sleep>>>,
    /// What it has taken of that part.
    taken: usize,
}

impl<S: Unpin> WriteTimeout<S> {
    /// A connection with a client that has this time for each part.
    pub fn new(stream: S, patience: Duration) -> Self {
        Self { stream, patience, until: None, taken: 0 }
    }

    /// Does something to the stream. What cannot be done yet breaks it off when it is too late.
    fn in_time<T>(
        &mut self,
        context: &mut Context<'_>,
        attempt: impl FnOnce(Pin<&mut S>, &mut Context<'_>) -> Poll<io::Result<T>>,
    ) -> Poll<io::Result<T>> {
        let done = attempt(Pin::new(&mut self.stream), context);
        if done.is_pending() {
            let patience = self.patience;
            let until = self.until.get_or_insert_with(|| Box::pin(tokio::time::sleep(patience)));
            if until.as_mut().poll(context).is_ready() {
                let why = "the client did not take what it was sent in time";
                return Poll::Ready(Err(io::Error::new(ErrorKind::TimedOut, why)));
            }
        }
        done
    }

    fn took(&mut self, bytes: usize) {
        self.taken += bytes;
        if self.taken >= PART_BYTES {
            self.took_all();
        }
    }

    fn took_all(&mut self) {
        (self.until, self.taken) = (None, 0);
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for WriteTimeout<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let written = self.in_time(context, |stream, context| stream.poll_write(context, bytes));
        if let Poll::Ready(Ok(bytes)) = written {
            self.took(bytes);
        }
        written
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        pieces: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let written = self.in_time(context, |stream, context| stream.poll_write_vectored(context, pieces));
        if let Poll::Ready(Ok(bytes)) = written {
            self.took(bytes);
        }
        written
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    /// Whoever writes flushes when there is nothing left to write: then the client has taken all, as far as can be seen here.
    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let flushed = self.in_time(context, |stream, context| stream.poll_flush(context));
        if let Poll::Ready(Ok(())) = flushed {
            self.took_all();
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
        Pin::new(&mut self.stream).poll_read(context, into)
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, AsyncWriteExt, duplex};
    use tokio::time::{Instant, sleep};

    use super::*;

    const PATIENCE: Duration = Duration::from_secs(10);

    #[tokio::test(start_paused = true)]
    async fn who_takes_a_byte_now_and_then_is_not_waited_for() {
        let (ours, mut theirs) = duplex(10);
        let mut ours = WriteTimeout::new(ours, PATIENCE);
        let begun = Instant::now();
        let reading = tokio::spawn(async move {
            while theirs.read_u8().await.is_ok() {
                sleep(PATIENCE / 2).await;
            }
        });
        let error = ours.write_all(&[0; 100]).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::TimedOut);
        assert_eq!(begun.elapsed(), PATIENCE);
        drop(ours);
        reading.await.unwrap();
    }

    #[tokio::test(start_paused = true)]
    async fn who_takes_a_good_part_in_time_may_be_slow_and_idle() {
        let (ours, mut theirs) = duplex(PART_BYTES);
        let mut ours = WriteTimeout::new(ours, PATIENCE);
        let reading = tokio::spawn(async move {
            let mut part = vec![0; PART_BYTES];
            for _ in 0..10 {
                sleep(PATIENCE - Duration::from_secs(1)).await;
                theirs.read_exact(&mut part).await.unwrap();
            }
            // What is small is taken, and then nothing is to be taken for a long time.
            for _ in 0..3 {
                sleep(PATIENCE - Duration::from_secs(1)).await;
                theirs.read_exact(&mut part[..10]).await.unwrap();
            }
        });
        ours.write_all(&vec![0; 10 * PART_BYTES]).await.unwrap();
        ours.flush().await.unwrap();
        for _ in 0..3 {
            sleep(2 * PATIENCE).await;
            ours.write_all(&[0; 10]).await.unwrap();
            ours.flush().await.unwrap();
        }
        reading.await.unwrap();
    }
}
