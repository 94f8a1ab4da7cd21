//! A connection: reads commands, executes them in pipeline batches, and writes the replies.
//!
//! The connection reads nothing while a batch is in flight. A client therefore has at most one batch in
//! flight, and a client that does not read its replies is not served. Invariants:
//! - Replies are in the order of the commands, and commands of one connection on one key are executed in that
//!   order.
//! - The connection is closed if a started command is not completed in time, or if replies are not read in
//!   time.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use bytes::{Buf, BytesMut};
use jeton_engine::Response;
use jeton_resp::reply_writer::Writer;
use jeton_resp::request_parser::{Args, Limits, Parser, Progress, ProtocolError};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::time::{Instant, timeout, timeout_at};

use super::command_table::Kind;
use super::multi_step;
use super::pipeline::{BATCH_BYTES_MAX, Dispatch, PipelineBatch};
use super::reply::{self, OUTCOME_UNKNOWN};
use super::session::Session;
use crate::client_memory::Account;
use crate::metrics::Metric;
use crate::service::{InFlightGuard, Service};

const READ_BYTES: usize = 16 << 10;

/// Bytes of replies that are sent before more replies are written.
pub const OUT_BYTES_MAX: usize = 1 << 20;

/// Maximum bytes drained by a lingering close.
const DRAINED_BYTES_MAX: usize = 16 << 20;

/// Maximum capacity of each buffer of an idle connection.
pub const IDLE_BYTES_MAX: usize = 64 << 10;

/// Timeout of the lingering close at shutdown.
const SHUTDOWN_LINGER: Duration = Duration::from_secs(1);

pub async fn serve<S>(service: Arc<Service>, stream: S, number: u64, peer: String)
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    let limits = Limits { command_bytes: service.options.request_bytes_max, ..Limits::default() };
    let mut connection = Connection {
        parser: Parser::new(limits),
        session: Session::new(service, number, peer),
        stream,
        args: Args::default(),
        input: BytesMut::new(),
        out: Vec::new(),
        batch: PipelineBatch::default(),
        awaiting_since: Some(Instant::now()),
    };
    if let Err(error) = connection.run().await {
        tracing::debug!(connection = number, %error, "closed");
    }
}

struct Connection<S> {
    stream: S,
    session: Session,
    parser: Parser,
    args: Args,
    input: BytesMut,
    out: Vec<u8>,
    batch: PipelineBatch,
    /// Since when the first command, or the rest of a started one, is awaited. `None` between commands.
    awaiting_since: Option<Instant>,
}

impl<S: AsyncRead + AsyncWrite + Unpin> Connection<S> {
    async fn run(&mut self) -> io::Result<()> {
        while self.read().await? > 0 {
            let work = InFlightGuard::begin(&self.session.service);
            if work.is_last() {
                // `Service::stop` may not have counted this connection.
                return Ok(());
            }
            if !self.work().await? {
                drop(work);
                self.linger(self.session.service.options.request_read_timeout).await;
                return Ok(());
            }
            if work.is_last() {
                self.linger(SHUTDOWN_LINGER).await;
                return Ok(());
            }
        }
        Ok(())
    }

    /// Reads more input. Returns 0 at the end of the stream.
    async fn read(&mut self) -> io::Result<usize> {
        self.input.reserve(READ_BYTES);
        if self.input.is_empty() {
            self.shrink();
        }
        // An idle connection has no timeout. A started command has one for all of it, so that single bytes do
        // not extend it.
        let limit = self.session.service.options.request_read_timeout;
        let reading = self.stream.read_buf(&mut self.input);
        let deadline = self.awaiting_since.map(|since| since + limit);
        let reading = async {
            match deadline {
                None => reading.await,
                Some(deadline) => {
                    let read = timeout_at(deadline, reading).await;
                    read.inspect_err(|_| self.session.service.metrics.add(Metric::ReadTimeoutHit, 1))?
                }
            }
        };
        tokio::select! {
            biased;
            read = reading => return read,
            _exceeded = self.session.memory.closing() => {}
        }
        let _closed = self.is_within_memory().await?;
        self.linger(limit).await;
        Ok(0)
    }

    /// Drops large buffers. Called when all input is consumed; the capacity of an input buffer is known after
    /// `reserve` only.
    fn shrink(&mut self) {
        if self.input.capacity() > IDLE_BYTES_MAX {
            self.input = BytesMut::with_capacity(READ_BYTES);
        }
        if self.out.capacity() > IDLE_BYTES_MAX {
            self.out = Vec::new();
        }
        if self.args.allocated() > IDLE_BYTES_MAX {
            self.args = Args::default();
        }
        self.parser.shrink();
        self.batch.shrink(IDLE_BYTES_MAX);
        // An error is noticed by the next charge.
        let _after_read = self.session.memory.charge(self.held());
    }

    /// Bytes that the connection holds.
    fn held(&self) -> usize {
        let queued = self.session.queued.as_ref().map_or(0, |queued| queued.bytes);
        let arguments = self.parser.allocated() + self.args.allocated();
        self.input.capacity() + self.out.capacity() + arguments + self.batch.allocated() + queued
    }

    /// Charges what the connection holds. If that is too much, replies so and returns false.
    async fn is_within_memory(&mut self) -> io::Result<bool> {
        let Err(exceeded) = self.session.memory.charge(self.held()) else { return Ok(true) };
        // The memory is needed now: do not wait until the client reads many replies.
        if self.out.len() > OUT_BYTES_MAX {
            return Err(io::Error::other(exceeded));
        }
        self.release();
        Writer::new(&mut self.out, self.session.version).error(&reply::memory_exceeded(exceeded));
        self.send().await?;
        Ok(false)
    }

    /// Drops everything but the replies of a connection that is being closed.
    fn release(&mut self) {
        (self.input, self.args, self.batch) = Default::default();
        self.parser = Parser::new(Limits::default());
        self.session.queued = None;
        self.session.memory = Account::new(self.session.service.client_memory.clone());
    }

    /// Lingering close: shuts down the write side and drains the input, so that a reset does not discard the
    /// last reply.
    async fn linger(&mut self, limit: Duration) {
        self.release();
        let drain = async {
            self.stream.shutdown().await?;
            let mut drained = 0;
            while drained < DRAINED_BYTES_MAX {
                self.input.clear();
                self.input.reserve(READ_BYTES);
                match self.stream.read_buf(&mut self.input).await? {
                    0 => break,
                    bytes => drained += bytes,
                }
            }
            io::Result::Ok(())
        };
        let _may_be_closed = timeout(limit, drain).await;
    }

    /// Executes all complete commands of the input. Returns false if the connection must be closed.
    async fn work(&mut self) -> io::Result<bool> {
        self.session.millis = self.session.service.millis();
        if !self.is_within_memory().await? {
            return Ok(false);
        }
        loop {
            // The previous command may have been `AUTH`.
            self.parser.set_authenticated(self.session.is_authenticated());
            let dispatch = match self.parser.next(&self.input, &mut self.args) {
                Ok(Progress::Incomplete { consumed }) => {
                    self.input.advance(consumed);
                    if self.input.is_empty() {
                        self.awaiting_since = None;
                    } else if self.awaiting_since.is_none() {
                        self.awaiting_since = Some(Instant::now());
                    }
                    break;
                }
                Ok(Progress::Command { command, consumed }) => {
                    self.awaiting_since = None;
                    let dispatch = self.batch.dispatch(&command, &mut self.session);
                    // A deferred command is parsed again after the batch.
                    if !matches!(dispatch, Dispatch::Deferred) {
                        self.input.advance(consumed);
                        self.batch.add_input(consumed);
                    }
                    dispatch
                }
                Err(error) => {
                    self.finish().await?;
                    self.count(&error);
                    Writer::new(&mut self.out, self.session.version).error(&format!("ERR {error}"));
                    self.send().await?;
                    return Ok(false);
                }
            };
            match dispatch {
                Dispatch::Batched if !self.batch.is_full() => {}
                Dispatch::Batched | Dispatch::Deferred => {
                    self.finish().await?;
                    // The batch may have needed no response of the engine.
                    tokio::task::yield_now().await;
                    self.session.millis = self.session.service.millis();
                }
                Dispatch::MultiStep(command) => {
                    self.finish().await?;
                    if !self.is_within_memory().await? {
                        return Ok(false);
                    }
                    self.session.millis = self.session.service.millis();
                    let (name, started) = (command.spec.name, Instant::now());
                    let written = self.out.len();
                    let rejected = match self.session.spend(command.cost(&self.session)) {
                        Ok(()) => {
                            let limit = self.session.service.options.request_timeout;
                            let scans = command.spec.kind == Kind::Scan;
                            // The duration of a scan depends on the number of keys.
                            let limit = if scans { Duration::MAX } else { limit };
                            let running = multi_step::run(command, &mut self.session, &mut self.out);
                            let timed_out = timeout(limit, running).await.is_err();
                            let metrics = &self.session.service.metrics;
                            metrics.add(Metric::RequestTimeoutHit, timed_out.into());
                            timed_out.then(|| OUTCOME_UNKNOWN.to_owned())
                        }
                        Err(error) => {
                            self.session.service.metrics.add(Metric::Throttled, 1);
                            // A throttled transaction is discarded.
                            self.session.queued = None;
                            Some(error)
                        }
                    };
                    if let Some(error) = rejected {
                        self.out.truncate(written);
                        Writer::new(&mut self.out, self.session.version).error(&error);
                    }
                    self.session.service.metrics.observe_command(name, started.elapsed());
                }
                Dispatch::Quit => {
                    self.finish().await?;
                    self.send().await?;
                    return Ok(false);
                }
            }
            if self.batch.is_empty() && !self.is_within_memory().await? {
                return Ok(false);
            }
            if self.out.len() > OUT_BYTES_MAX {
                self.send().await?;
            }
        }
        self.finish().await?;
        if !self.is_within_memory().await? {
            return Ok(false);
        }
        self.send().await?;
        Ok(true)
    }

    /// Counts the limit that a protocol error is about, and reports an HTTP request.
    fn count(&self, error: &ProtocolError) {
        let service = &self.session.service;
        let limit = match error {
            ProtocolError::HttpRequest => return service.report_http_on_resp(&self.session.peer),
            ProtocolError::TooBigRequest => Metric::RequestBytesHit,
            ProtocolError::InvalidMultibulkLength => Metric::ArgumentsHit,
            ProtocolError::InvalidBulkLength => Metric::ArgumentBytesHit,
            ProtocolError::UnauthenticatedMultibulkLength | ProtocolError::UnauthenticatedBulkLength => {
                Metric::UnauthenticatedHit
            }
            ProtocolError::TooBigInline
            | ProtocolError::TooBigMultibulkCount
            | ProtocolError::TooBigBulkCount => Metric::InlineBytesHit,
            ProtocolError::ExpectedDollar(_) | ProtocolError::UnbalancedQuotes => return,
        };
        service.metrics.add(limit, 1);
    }

    /// Submits the batch to the engine and writes the replies. Sends replies meanwhile if they are large.
    async fn finish(&mut self) -> io::Result<()> {
        if self.batch.is_empty() {
            self.batch.clear();
            return Ok(());
        }
        if let Some(delay) = self.session.delay.take() {
            tokio::time::sleep(delay).await;
        }
        // Usual batches are small, and a charge takes a lock.
        let copies = self.batch.allocated();
        if copies > BATCH_BYTES_MAX / 2
            && let Err(exceeded) = self.session.memory.charge_more(copies)
        {
            self.batch.fail(&reply::memory_exceeded(exceeded), &self.session, &mut self.out);
            return Ok(());
        }
        let service = Arc::clone(&self.session.service);
        let session = &self.session;
        if let Err(_above_the_limit) = session.spend(self.batch.len() as u64) {
            let rejected = self.batch.apply_rate_limit(session, |requests| session.spend(requests));
            service.metrics.add(Metric::Throttled, rejected);
        }
        let (reads, requests) = (self.batch.reads(), self.batch.take_requests());
        let responses = async {
            let reserved = service.client_memory.reserve_reads(reads).await;
            let responses =
                if requests.is_empty() { Vec::new() } else { session.submit_batch(requests).await };
            (reserved, responses)
        };
        let Ok((reserved, responses)) = timeout(service.options.request_timeout, responses).await else {
            self.batch.fail(OUTCOME_UNKNOWN, session, &mut self.out);
            service.metrics.add(Metric::RequestTimeoutHit, 1);
            service.metrics.observe_batch(&mut self.batch.commands);
            return Ok(());
        };
        service.metrics.observe_batch(&mut self.batch.commands);
        let values = if reads == 0 { 0 } else { responses.iter().map(value_bytes).sum() };
        // The values, and the replies that contain them. After an error the connection closes.
        if self.session.memory.charge_more(2 * values).is_err() {
            self.batch.fail(OUTCOME_UNKNOWN, &self.session, &mut self.out);
            return Ok(());
        }
        drop(reserved);
        let mut responses = responses.into_iter();
        while !self.batch.write_replies(&mut responses, &self.session, &mut self.out, OUT_BYTES_MAX) {
            self.send().await?;
        }
        Ok(())
    }

    async fn send(&mut self) -> io::Result<()> {
        if self.out.is_empty() {
            return Ok(());
        }
        let limit = self.session.service.options.request_read_timeout;
        let sent = tokio::select! {
            biased;
            sent = timeout(limit, self.stream.write_all(&self.out)) => {
                sent.inspect_err(|_| self.session.service.metrics.add(Metric::WriteTimeoutHit, 1))?
            }
            exceeded = self.session.memory.closing() => Err(io::Error::other(exceeded)),
        };
        self.out.clear();
        if self.out.capacity() > OUT_BYTES_MAX {
            self.out = Vec::new();
        }
        sent
    }
}

fn value_bytes(response: &Response) -> usize {
    if let Response::Read(Ok(Some(value))) = response { value.heap_bytes() } else { 0 }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test may panic")]
mod tests {
    use jeton_auth::Access;
    use jeton_engine::Engine;

    use super::*;
    use crate::Options;

    /// The number of these commands in one batch.
    fn commands_of_a_batch(command: &[u8]) -> usize {
        let folder = tempfile::tempdir().unwrap();
        let engine = Arc::new(Engine::open(folder.path(), jeton_engine::Options::default()).unwrap());
        let service = Service::new(engine, Arc::new(Access::open_to_all()), Options::default()).unwrap();
        let mut session = Session::new(Arc::new(service), 1, String::new());
        let (mut batch, mut args) = (PipelineBatch::default(), Args::default());
        let mut parser = Parser::new(Limits::default());
        (1..10_000)
            .find(|_| {
                let Ok(Progress::Command { command, .. }) = parser.next(command, &mut args) else {
                    panic!("a command");
                };
                assert!(matches!(batch.dispatch(&command, &mut session), Dispatch::Batched));
                batch.is_full()
            })
            .unwrap()
    }

    #[test]
    fn a_batch_has_few_commands_that_describe_the_server() {
        for command in ["INFO", "COMMAND DOCS", "CONFIG GET *", "CLIENT LIST"] {
            assert!(commands_of_a_batch(format!("{command}\r\n").as_bytes()) <= 8, "{command}");
        }
        for command in ["PING", "GET a", "INCR a"] {
            assert_eq!(commands_of_a_batch(format!("{command}\r\n").as_bytes()), 256, "{command}");
        }
    }
}
