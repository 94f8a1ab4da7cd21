//! A connection: reads what the client sends, does it in rounds, and answers.
//!
//! A round is what came together. While it is at work nothing more is read, so a client has one round under way, and whoever does not
//! read its answers is not served. What must hold:
//! - *Answers come in the order of the commands*, and commands of one connection on one key are done in that order.
//! - *Nobody holds a connection for nothing*: a command that was begun is ended in time, and answers are taken in time, or the
//!   connection is closed.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use bytes::{Buf, BytesMut};
use jeton_resp::reply_writer::Writer;
use jeton_resp::request_parser::{Args, Limits, Parser, Progress};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::time::{Instant, timeout, timeout_at};

use super::multi_step;
use super::pipeline::{Dispatch, PipelineBatch};
use super::reply::{IN_DOUBT, Reply};
use super::session::Session;
use crate::metrics::Metric;
use crate::service::{InFlightGuard, Service};

/// Bytes that are read at a time.
const READ_BYTES: usize = 16 << 10;

/// Requests for the engine in one round.
const ROUND_ASKS_MAX: usize = 1024;

/// Answers that are sent before more are made.
const OUT_BYTES_MAX: usize = 1 << 20;

/// Bytes of a client that are read for nothing, so that it hears why its connection is closed.
const DRAINED_BYTES_MAX: usize = 16 << 20;

/// Room that a connection keeps between rounds.
const IDLE_BYTES_MAX: usize = 64 << 10;

/// How long a client may take to hear its last answers, when the server stops.
const LAST_WORDS: Duration = Duration::from_secs(1);

/// Why a connection ends that was not closed by the client.
enum End {
    Io(io::Error),
    Slow,
    Quit,
}

impl From<io::Error> for End {
    fn from(error: io::Error) -> Self {
        Self::Io(error)
    }
}

/// Serves a connection until it ends.
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
        round: PipelineBatch::default(),
        begun: Some(Instant::now()),
    };
    match connection.run().await {
        Ok(()) => {}
        Err(End::Quit) => {
            let patience = connection.session.service.options.word_timeout;
            connection.part(patience).await;
        }
        Err(End::Slow) => tracing::debug!(connection = number, "closed: too slow"),
        Err(End::Io(error)) => tracing::debug!(connection = number, %error, "closed"),
    }
}

struct Connection<S> {
    stream: S,
    session: Session,
    parser: Parser,
    args: Args,
    input: BytesMut,
    out: Vec<u8>,
    round: PipelineBatch,
    /// Since when a command is awaited: the first one, or the rest of one that was begun. Nothing between two commands.
    begun: Option<Instant>,
}

impl<S: AsyncRead + AsyncWrite + Unpin> Connection<S> {
    async fn run(&mut self) -> Result<(), End> {
        loop {
            if !self.read().await? {
                return Ok(());
            }
            let work = InFlightGuard::begin(&self.session.service);
            if work.is_last() {
                // Whoever waits for the last work to end may not wait for this any more.
                return Ok(());
            }
            self.work().await?;
            if work.is_last() {
                self.part(LAST_WORDS).await;
                return Ok(());
            }
        }
    }

    /// Reads some more. False at the end.
    async fn read(&mut self) -> Result<bool, End> {
        if self.input.is_empty() && self.input.capacity() > IDLE_BYTES_MAX {
            self.input = BytesMut::new();
        }
        self.input.reserve(READ_BYTES);
        // A connection may be idle for as long as it likes, but not in the middle of a word; and a byte now and then is not the word.
        let patience = self.session.service.options.word_timeout;
        let reading = self.stream.read_buf(&mut self.input);
        let bytes = match self.begun {
            None => reading.await?,
            Some(begun) => match timeout_at(begun + patience, reading).await {
                Ok(read) => read?,
                Err(_) => return Err(End::Slow),
            },
        };
        Ok(bytes > 0)
    }

    /// Takes leave of a client that may still be sending: were the connection closed at once, what it was told last would be lost.
    async fn part(&mut self, patience: Duration) {
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
        let _gone_perhaps = timeout(patience, drain).await;
    }

    /// Does all commands that are there.
    async fn work(&mut self) -> Result<(), End> {
        let mut millis = self.session.service.millis();
        loop {
            // The command before may have been the one that says who it is.
            self.parser.set_authenticated(self.session.is_known());
            let taken = match self.parser.next(&self.input, &mut self.args) {
                Ok(Progress::Incomplete { consumed }) => {
                    self.input.advance(consumed);
                    if self.input.is_empty() {
                        self.begun = None;
                    } else if self.begun.is_none() {
                        self.begun = Some(Instant::now());
                    }
                    break;
                }
                Ok(Progress::Command { command, consumed }) => {
                    self.begun = None;
                    let taken = self.round.take(&command, &mut self.session, millis);
                    // What is taken later is read again then.
                    if !matches!(taken, Dispatch::Later) {
                        self.input.advance(consumed);
                    }
                    taken
                }
                Err(error) => {
                    self.finish(millis).await?;
                    Writer::new(&mut self.out, self.session.version).error(&format!("ERR {error}"));
                    self.send().await?;
                    return Err(End::Quit);
                }
            };
            match taken {
                Dispatch::In if self.round.len() < ROUND_ASKS_MAX && self.round.bytes() < OUT_BYTES_MAX => {}
                Dispatch::In | Dispatch::Later => {
                    self.finish(millis).await?;
                    millis = self.session.service.millis();
                }
                Dispatch::Apart(command) => {
                    self.finish(millis).await?;
                    millis = self.session.service.millis();
                    let (name, started) = (command.verb.name, Instant::now());
                    let said = match self.session.spend(millis, command.cost(&self.session)) {
                        Ok(()) => {
                            let patience = self.session.service.options.answer_timeout;
                            let walks = command.walks();
                            let done = multi_step::run(command, &mut self.session, millis);
                            if walks {
                                // As long as there are keys.
                                done.await
                            } else {
                                timeout(patience, done).await.unwrap_or_else(|_| Reply::error(IN_DOUBT))
                            }
                        }
                        Err(error) => {
                            self.session.service.metrics.add(Metric::Throttled, 1);
                            // A transaction that is not made now is not made later either.
                            self.session.queued = None;
                            Reply::Error(error)
                        }
                    };
                    said.write(&mut Writer::new(&mut self.out, self.session.version));
                    self.session.service.metrics.observe_command(name, started.elapsed());
                }
                Dispatch::Quit => {
                    self.finish(millis).await?;
                    self.send().await?;
                    return Err(End::Quit);
                }
            }
            if self.out.len() > OUT_BYTES_MAX {
                self.send().await?;
            }
        }
        self.finish(millis).await?;
        self.send().await
    }

    /// Ends the round: asks the engine, and answers.
    async fn finish(&mut self, millis: u64) -> Result<(), End> {
        if self.round.is_empty() {
            return Ok(());
        }
        let service = &self.session.service;
        if let Err(_too_many_at_once) = self.session.spend(millis, self.round.len() as u64) {
            let refused = self.round.ration(&self.session, |asks| self.session.spend(millis, asks));
            service.metrics.add(Metric::Throttled, refused);
        }
        let asks = self.round.take_asks();
        let responses = if asks.is_empty() {
            Vec::new()
        } else {
            match timeout(service.options.answer_timeout, self.session.submit_batch(asks)).await {
                Ok(responses) => responses,
                Err(_) => {
                    self.round.refuse(IN_DOUBT, &self.session, &mut self.out);
                    service.metrics.observe_batch(&mut self.round.commands);
                    return Ok(());
                }
            }
        };
        self.round.answer(&responses, &self.session, millis, &mut self.out);
        service.metrics.observe_batch(&mut self.round.commands);
        Ok(())
    }

    /// Sends what is answered.
    async fn send(&mut self) -> Result<(), End> {
        if self.out.is_empty() {
            return Ok(());
        }
        // Mostly all of it goes at once, and no clock is needed.
        let patience: Duration = self.session.service.options.word_timeout;
        let sent = timeout(patience, self.stream.write_all(&self.out)).await;
        self.out.clear();
        if self.out.capacity() > OUT_BYTES_MAX {
            self.out = Vec::new();
        }
        match sent {
            Ok(sent) => Ok(sent?),
            Err(_) => Err(End::Slow),
        }
    }
}
