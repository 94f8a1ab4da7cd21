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
use jeton_resp::reply::Writer;
use jeton_resp::request::{Args, Limits, Parser, Progress};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::time::timeout;

use super::apart;
use super::round::{Round, Taken};
use super::session::Session;
use crate::metrics::Count;
use crate::service::{Service, Work};

/// Bytes that are read at a time.
const READ_BYTES: usize = 16 << 10;

/// Requests for the engine in one round.
const ROUND_ASKS_MAX: usize = 1024;

/// Answers that are sent before more are made.
const OUT_BYTES_MAX: usize = 1 << 20;

/// Room that a connection keeps between rounds.
const IDLE_BYTES_MAX: usize = 64 << 10;

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
        round: Round::default(),
        heard: false,
    };
    match connection.run().await {
        Ok(()) | Err(End::Quit) => {}
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
    round: Round,
    /// Whether it has ever said anything.
    heard: bool,
}

impl<S: AsyncRead + AsyncWrite + Unpin> Connection<S> {
    async fn run(&mut self) -> Result<(), End> {
        loop {
            if !self.read().await? {
                return Ok(());
            }
            let work = Work::begin(&self.session.service);
            self.work().await?;
            if work.is_last() {
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
        // A connection may be idle for as long as it likes, but not in the middle of a word.
        let patience = self.session.service.options.word_timeout;
        let between_words = self.heard && self.input.is_empty();
        let reading = self.stream.read_buf(&mut self.input);
        let bytes = if between_words {
            reading.await?
        } else {
            match timeout(patience, reading).await {
                Ok(read) => read?,
                Err(_) => return Err(End::Slow),
            }
        };
        self.heard = true;
        Ok(bytes > 0)
    }

    /// Does all commands that are there.
    async fn work(&mut self) -> Result<(), End> {
        self.parser.set_authenticated(self.session.is_known());
        let mut millis = self.session.service.millis();
        loop {
            let taken = match self.parser.next(&self.input, &mut self.args) {
                Ok(Progress::Incomplete { consumed }) => {
                    self.input.advance(consumed);
                    break;
                }
                Ok(Progress::Command { command, consumed }) => {
                    let taken = self.round.take(&command, &mut self.session, millis);
                    self.input.advance(consumed);
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
                Taken::In if self.round.len() < ROUND_ASKS_MAX => {}
                Taken::In => {
                    self.finish(millis).await?;
                    millis = self.session.service.millis();
                }
                Taken::Apart(command) => {
                    self.finish(millis).await?;
                    millis = self.session.service.millis();
                    let said = match self.session.spend(millis, 1) {
                        Ok(()) => apart::run(command, &mut self.session, millis).await,
                        Err(error) => super::said::Said::Error(error),
                    };
                    said.write(&mut Writer::new(&mut self.out, self.session.version));
                }
                Taken::Quit => {
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
        service.metrics.add(Count::Commands, std::mem::take(&mut self.round.commands));
        let asks = self.round.take_asks();
        let responses = if asks.is_empty() {
            Vec::new()
        } else if let Err(error) = self.session.spend(millis, asks.len() as u64) {
            service.metrics.add(Count::Throttled, 1);
            self.round.refuse(&error, &self.session, &mut self.out);
            return Ok(());
        } else {
            service.burst(asks).await
        };
        self.round.answer(&responses, &self.session, millis, &mut self.out);
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
