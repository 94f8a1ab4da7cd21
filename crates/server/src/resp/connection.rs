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
use jeton_resp::reply_writer::Writer;
use jeton_resp::request_parser::{Args, Limits, Parser, Progress, ProtocolError};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::time::{Instant, timeout, timeout_at};

use super::command_table::Kind;
use super::multi_step;
use super::pipeline::{Dispatch, PipelineBatch};
use super::reply::{OUTCOME_UNKNOWN, Reply};
use super::session::Session;
use crate::metrics::Metric;
use crate::service::{InFlightGuard, Service};

const READ_BYTES: usize = 16 << 10;

/// Maximum requests of a pipeline batch.
const BATCH_REQUESTS_MAX: usize = 1024;

/// Bytes of replies that are sent before more commands are executed.
const OUT_BYTES_MAX: usize = 1 << 20;

/// Maximum bytes drained by a lingering close.
const DRAINED_BYTES_MAX: usize = 16 << 20;

/// Maximum buffer capacity of an idle connection.
const IDLE_BYTES_MAX: usize = 64 << 10;

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
        if self.input.is_empty() && self.input.capacity() > IDLE_BYTES_MAX {
            self.input = BytesMut::new();
        }
        self.input.reserve(READ_BYTES);
        // An idle connection has no timeout. A started command has one for all of it, so that single bytes do
        // not extend it.
        let limit = self.session.service.options.request_read_timeout;
        let reading = self.stream.read_buf(&mut self.input);
        match self.awaiting_since {
            None => reading.await,
            Some(since) => timeout_at(since + limit, reading).await?,
        }
    }

    /// Lingering close: shuts down the write side and drains the input, so that a reset does not discard the
    /// last reply.
    async fn linger(&mut self, limit: Duration) {
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
                    }
                    dispatch
                }
                Err(error) => {
                    self.finish().await;
                    if error == ProtocolError::HttpRequest {
                        self.session.service.report_http_on_resp(&self.session.peer);
                    }
                    Writer::new(&mut self.out, self.session.version).error(&format!("ERR {error}"));
                    self.send().await?;
                    return Ok(false);
                }
            };
            match dispatch {
                Dispatch::Batched
                    if self.batch.len() < BATCH_REQUESTS_MAX && self.batch.bytes() < OUT_BYTES_MAX => {}
                Dispatch::Batched | Dispatch::Deferred => {
                    self.finish().await;
                    self.session.millis = self.session.service.millis();
                }
                Dispatch::MultiStep(command) => {
                    self.finish().await;
                    self.session.millis = self.session.service.millis();
                    let (name, started) = (command.spec.name, Instant::now());
                    let reply = match self.session.spend(command.cost(&self.session)) {
                        Ok(()) => {
                            let limit = self.session.service.options.request_timeout;
                            let scans = command.spec.kind == Kind::Scan;
                            // The duration of a scan depends on the number of keys.
                            let limit = if scans { Duration::MAX } else { limit };
                            let running = multi_step::run(command, &mut self.session);
                            timeout(limit, running).await.unwrap_or_else(|_| Reply::error(OUTCOME_UNKNOWN))
                        }
                        Err(error) => {
                            self.session.service.metrics.add(Metric::Throttled, 1);
                            // A throttled transaction is discarded.
                            self.session.queued = None;
                            Reply::Error(error)
                        }
                    };
                    reply.write(&mut Writer::new(&mut self.out, self.session.version));
                    self.session.service.metrics.observe_command(name, started.elapsed());
                }
                Dispatch::Quit => {
                    self.finish().await;
                    self.send().await?;
                    return Ok(false);
                }
            }
            if self.out.len() > OUT_BYTES_MAX {
                self.send().await?;
            }
        }
        self.finish().await;
        self.send().await?;
        Ok(true)
    }

    /// Submits the batch to the engine and writes the replies.
    async fn finish(&mut self) {
        if self.batch.is_empty() {
            return;
        }
        if let Some(delay) = self.session.delay.take() {
            tokio::time::sleep(delay).await;
        }
        let (session, service) = (&self.session, &self.session.service);
        if let Err(_above_the_limit) = session.spend(self.batch.len() as u64) {
            let rejected = self.batch.apply_rate_limit(session, |requests| session.spend(requests));
            service.metrics.add(Metric::Throttled, rejected);
        }
        let requests = self.batch.take_requests();
        let responses =
            async { if requests.is_empty() { Vec::new() } else { session.submit_batch(requests).await } };
        match timeout(service.options.request_timeout, responses).await {
            Ok(responses) => self.batch.write_replies(&responses, session, &mut self.out),
            Err(_) => self.batch.time_out(session, &mut self.out),
        }
        service.metrics.observe_batch(&mut self.batch.commands);
    }

    async fn send(&mut self) -> io::Result<()> {
        if self.out.is_empty() {
            return Ok(());
        }
        let limit = self.session.service.options.request_read_timeout;
        let sent = timeout(limit, self.stream.write_all(&self.out)).await;
        self.out.clear();
        if self.out.capacity() > OUT_BYTES_MAX {
            self.out = Vec::new();
        }
        sent?
    }
}
