//! A line: a connection to a server, opened when it is needed, that many callers share.
//!
//! Its task writes the commands that wait together, and matches answers with them in order. What must hold:
//! - *Answers meet their own commands.* A command that was written keeps its place until its answer comes, also when its caller is gone.
//! - *A line that says nothing is closed.* Whoever waits behind a lost answer would wait for ever.
//! - *The queue and what waits for answers are bounded.*

use std::collections::VecDeque;
use std::io;
use std::time::Duration;

use bytes::{Buf, BytesMut};
use jeton_resp::command;
use jeton_resp::reply_parser::{Limits, Parser, Progress, Value};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::sync::mpsc;
use tokio::time::{Instant, sleep_until, timeout};

use crate::error::{AttemptError, Code, ServerError};
use crate::in_flight::PendingAttempt;

/// Bytes that are read at a time.
const READ_BYTES: usize = 16 << 10;

/// Bytes that wait to be written before more commands are taken.
const OUT_BYTES_MAX: usize = 256 << 10;

/// How long after a failure to connect nobody tries again on the same line: a thousand callers are no reason for a thousand tries.
const RECONNECT_GAP: Duration = Duration::from_millis(20);

/// A connection, whatever it is made of.
trait Stream: AsyncRead + AsyncWrite + Unpin + Send {}

impl<S: AsyncRead + AsyncWrite + Unpin + Send> Stream for S {}

/// What a line needs to know.
#[derive(Clone)]
pub(crate) struct ConnectionConfig {
    pub address: String,
    #[cfg(feature = "tls")]
    pub tls: Option<crate::tls::Tls>,
    pub token: Option<String>,
    pub patience: Duration,
    pub queue_max: usize,
}

/// Begins a line. It ends when nobody holds its queue any more.
pub(crate) fn begin(place: ConnectionConfig) -> mpsc::Sender<PendingAttempt> {
    let (sender, queue) = mpsc::channel(place.queue_max);
    tokio::spawn(ConnectionTask { place, queue, failed: None }.run());
    sender
}

struct ConnectionTask {
    place: ConnectionConfig,
    queue: mpsc::Receiver<PendingAttempt>,
    /// When a connection could last not be opened, and why.
    failed: Option<(Instant, AttemptError)>,
}

impl ConnectionTask {
    async fn run(mut self) {
        while let Some(ticket) = self.queue.recv().await {
            if !ticket.is_awaited() {
                continue;
            }
            if let Some((when, failure)) = &self.failed
                && when.elapsed() < RECONNECT_GAP
            {
                ticket.fail(failure.clone());
                continue;
            }
            match self.open().await {
                Ok((stream, input, parser)) => {
                    self.failed = None;
                    let lost = Connection::new(stream, input, parser).serve(ticket, &mut self).await;
                    if lost.is_none() {
                        return;
                    }
                }
                Err(failure) => {
                    ticket.fail(failure.clone());
                    self.failed = Some((Instant::now(), failure));
                }
            }
        }
    }

    async fn connect(&self) -> io::Result<Box<dyn Stream>> {
        let stream = TcpStream::connect(&self.place.address).await?;
        // Commands go when they are there, not when there are enough of them.
        stream.set_nodelay(true)?;
        #[cfg(feature = "tls")]
        if let Some(tls) = &self.place.tls {
            return Ok(Box::new(tls.connect(&self.place.address, stream).await?));
        }
        Ok(Box::new(stream))
    }

    async fn open(&self) -> Result<(Box<dyn Stream>, BytesMut, Parser), AttemptError> {
        let cannot = |why: String| AttemptError::Connect { address: self.place.address.clone(), why };
        let opening = async {
            let mut stream = self.connect().await.map_err(|error| cannot(error.to_string()))?;
            let (mut input, mut parser) = (BytesMut::new(), Parser::new(Limits::default()));
            greet(&mut stream, &mut input, &mut parser, self.place.token.as_deref()).await.map_err(|no| {
                match no {
                    Greeting::Io(error) => cannot(error.to_string()),
                    // A token that is not taken now will not be taken later; anything else may pass.
                    Greeting::Said(said)
                        if matches!(said.code, Code::NoAuth | Code::WrongPass | Code::NoPermission) =>
                    {
                        AttemptError::Said(said)
                    }
                    Greeting::Said(said) => cannot(said.message),
                }
            })?;
            Ok((stream, input, parser))
        };
        timeout(self.place.patience, opening)
            .await
            .unwrap_or_else(|_| Err(cannot("no answer in time".into())))
    }
}

/// Why a server could not be greeted.
enum Greeting {
    Io(io::Error),
    Said(ServerError),
}

impl From<io::Error> for Greeting {
    fn from(error: io::Error) -> Self {
        Self::Io(error)
    }
}

/// Shows the token, and agrees on a version of the protocol.
async fn greet<S: AsyncRead + AsyncWrite + Unpin>(
    stream: &mut S,
    input: &mut BytesMut,
    parser: &mut Parser,
    token: Option<&str>,
) -> Result<(), Greeting> {
    let mut words: Vec<&[u8]> = vec![b"HELLO", b"3"];
    if let Some(token) = token {
        words.extend([b"AUTH", &b"default"[..], token.as_bytes()]);
    }
    let Value::Error(error) = ask(stream, input, parser, &words).await? else { return Ok(()) };
    // Whoever does not know the third version speaks the second, and has another word for tokens.
    if !error.starts_with(b"NOPROTO") && !error.starts_with(b"ERR unknown command") {
        return Err(Greeting::Said(ServerError::new(&error)));
    }
    let Some(token) = token else { return Ok(()) };
    match ask(stream, input, parser, &[b"AUTH", token.as_bytes()]).await? {
        Value::Error(error) => Err(Greeting::Said(ServerError::new(&error))),
        _ => Ok(()),
    }
}

async fn ask<S: AsyncRead + AsyncWrite + Unpin>(
    stream: &mut S,
    input: &mut BytesMut,
    parser: &mut Parser,
    words: &[&[u8]],
) -> io::Result<Value> {
    let mut out = Vec::new();
    command(&mut out, words);
    stream.write_all(&out).await?;
    loop {
        if let Some(value) = next_value(parser, input)? {
            return Ok(value);
        }
        if stream.read_buf(input).await? == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
    }
}

/// The next answer in what was read. Messages that are no answer are passed over.
fn next_value(parser: &mut Parser, input: &mut BytesMut) -> io::Result<Option<Value>> {
    loop {
        match parser.next(input).map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error))? {
            Progress::Incomplete { consumed } => {
                input.advance(consumed);
                return Ok(None);
            }
            Progress::Value { value, consumed } => {
                input.advance(consumed);
                match value.without_attributes() {
                    Value::Push(_) => {}
                    value => return Ok(Some(value)),
                }
            }
        }
    }
}

/// A connection at work.
struct Connection<S> {
    stream: S,
    parser: Parser,
    input: BytesMut,
    out: BytesMut,
    /// What was written and has no answer yet, in order.
    waiting: VecDeque<PendingAttempt>,
    /// When something was last heard, or the first of those that wait began to.
    heard: Instant,
}

impl<S: AsyncRead + AsyncWrite + Unpin> Connection<S> {
    fn new(stream: S, input: BytesMut, parser: Parser) -> Self {
        let (out, waiting) = (BytesMut::new(), VecDeque::new());
        Self { stream, parser, input, out, waiting, heard: Instant::now() }
    }

    /// Serves the queue until the connection ends. Nothing if the queue ended first.
    async fn serve(mut self, first: PendingAttempt, line: &mut ConnectionTask) -> Option<()> {
        self.take(first);
        let why = self.work(line).await?;
        let address = &line.place.address;
        for ticket in self.waiting.drain(..) {
            ticket.fail(AttemptError::Lost { address: address.clone(), why: why.clone() });
        }
        Some(())
    }

    /// Works until the connection ends, and says why. Nothing if the queue ended first.
    async fn work(&mut self, line: &mut ConnectionTask) -> Option<String> {
        let (patience, queue_max) = (line.place.patience, line.place.queue_max);
        let (mut batch, mut flushed) = (Vec::new(), true);
        let mut alarm = std::pin::pin!(sleep_until(self.heard + patience));
        let (mut reader, mut writer) = tokio::io::split(&mut self.stream);
        // What is borrowed apart, so that the halves of the stream can be used side by side.
        let (parser, input, out) = (&mut self.parser, &mut self.input, &mut self.out);
        let (waiting, heard) = (&mut self.waiting, &mut self.heard);
        loop {
            input.reserve(READ_BYTES);
            let room = queue_max.saturating_sub(waiting.len());
            tokio::select! {
                read = reader.read_buf(input) => {
                    match read {
                        Ok(0) => return Some("the server closed it".into()),
                        Ok(_) => {}
                        Err(error) => return Some(error.to_string()),
                    }
                    *heard = Instant::now();
                    loop {
                        match next_value(parser, input) {
                            Ok(None) => break,
                            Ok(Some(value)) => match waiting.pop_front() {
                                Some(ticket) => ticket.answer(value),
                                None => return Some("the server answered what nobody asked".into()),
                            },
                            Err(error) => return Some(error.to_string()),
                        }
                    }
                }
                written = write(&mut writer, out), if !out.is_empty() || !flushed => {
                    match written {
                        Ok(whether) => flushed = whether,
                        Err(error) => return Some(error.to_string()),
                    }
                }
                taken = line.queue.recv_many(&mut batch, room), if room > 0 && out.len() < OUT_BYTES_MAX => {
                    if taken == 0 {
                        return None;
                    }
                    for ticket in batch.drain(..) {
                        take(ticket, waiting, out, heard);
                    }
                }
                () = &mut alarm, if !waiting.is_empty() => {
                    if heard.elapsed() >= patience {
                        return Some("no answer in time".into());
                    }
                    alarm.as_mut().reset(*heard + patience);
                }
            }
        }
    }

    fn take(&mut self, ticket: PendingAttempt) {
        take(ticket, &mut self.waiting, &mut self.out, &mut self.heard);
    }
}

/// Writes some of what is to be written; and when nothing is, flushes, because TLS keeps bytes back until it is told that there are no
/// more for now. Whether it flushed.
async fn write(writer: &mut (impl AsyncWrite + Unpin), out: &mut BytesMut) -> io::Result<bool> {
    if out.is_empty() {
        writer.flush().await?;
        return Ok(true);
    }
    writer.write_buf(out).await?;
    Ok(false)
}

/// Puts a command among those to be written, unless its caller has given it up.
fn take(
    ticket: PendingAttempt,
    waiting: &mut VecDeque<PendingAttempt>,
    out: &mut BytesMut,
    heard: &mut Instant,
) {
    if !ticket.claim() {
        return;
    }
    if waiting.is_empty() {
        *heard = Instant::now();
    }
    out.extend_from_slice(&ticket.command);
    waiting.push_back(ticket);
}
