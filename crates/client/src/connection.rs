//! A connection to a server, opened on demand and shared by many callers.
//!
//! Its task writes queued commands together, and matches replies to them in order. Invariants:
//! - A command that was written keeps its place in the order until its reply arrives, also when its caller is
//!   gone.
//! - A connection without a reply for the timeout is closed: callers behind a lost reply would wait until
//!   shutdown.
//! - The queue and the commands in flight are bounded.

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

use crate::error::{AttemptError, ServerError};
use crate::in_flight::PendingAttempt;

/// Bytes read at a time.
const READ_BYTES: usize = 16 << 10;

/// While more bytes than this wait to be written, no further commands are dequeued.
const OUTPUT_BYTES_MAX: usize = 256 << 10;

/// After a failed connect, attempts fail with the same error for this long: a thousand callers cause one
/// connect.
const RECONNECT_GAP: Duration = Duration::from_millis(20);

/// A TCP or TLS stream.
trait Stream: AsyncRead + AsyncWrite + Unpin + Send {}

impl<S: AsyncRead + AsyncWrite + Unpin + Send> Stream for S {}

#[derive(Clone)]
pub(crate) struct ConnectionConfig {
    pub address: String,
    #[cfg(feature = "tls")]
    pub tls: Option<crate::tls::Tls>,
    pub token: Option<String>,
    /// For opening the connection, and for a reply.
    pub timeout: Duration,
    pub queue_max: usize,
}

/// Starts the task of a connection. The task ends when all senders of its queue are dropped.
pub(crate) fn start(config: ConnectionConfig) -> mpsc::Sender<PendingAttempt> {
    let (sender, queue) = mpsc::channel(config.queue_max);
    tokio::spawn(ConnectionTask { config, queue, failed: None }.run());
    sender
}

struct ConnectionTask {
    config: ConnectionConfig,
    queue: mpsc::Receiver<PendingAttempt>,
    /// Time and error of the last failed connect.
    failed: Option<(Instant, AttemptError)>,
}

impl ConnectionTask {
    async fn run(mut self) {
        while let Some(attempt) = self.queue.recv().await {
            if !attempt.is_awaited() {
                continue;
            }
            if let Some((when, error)) = &self.failed
                && when.elapsed() < RECONNECT_GAP
            {
                attempt.fail(error.clone());
                continue;
            }
            match self.open().await {
                Ok((stream, input, parser)) => {
                    self.failed = None;
                    let lost = Connection::new(stream, input, parser).serve(attempt, &mut self).await;
                    if lost.is_none() {
                        return;
                    }
                }
                Err(error) => {
                    attempt.fail(error.clone());
                    self.failed = Some((Instant::now(), error));
                }
            }
        }
    }

    async fn connect(&self) -> io::Result<Box<dyn Stream>> {
        let stream = TcpStream::connect(&self.config.address).await?;
        // Nagle's algorithm would delay small commands.
        stream.set_nodelay(true)?;
        #[cfg(feature = "tls")]
        if let Some(tls) = &self.config.tls {
            return Ok(Box::new(tls.connect(&self.config.address, stream).await?));
        }
        Ok(Box::new(stream))
    }

    async fn open(&self) -> Result<(Box<dyn Stream>, BytesMut, Parser), AttemptError> {
        let failed = |reason: String| AttemptError::Connect { server: self.config.address.clone(), reason };
        let open = async {
            let mut stream = self.connect().await.map_err(|error| {
                #[cfg(feature = "tls")]
                if crate::tls::is_untrusted(&error) {
                    let server = self.config.address.clone();
                    return AttemptError::Untrusted { server, reason: error.to_string() };
                }
                failed(error.to_string())
            })?;
            let (mut input, mut parser) = (BytesMut::new(), Parser::new(Limits::default()));
            let token = self.config.token.as_deref();
            match handshake(&mut stream, &mut input, &mut parser, token).await {
                Err(error) => Err(failed(error.to_string())),
                Ok(Ok(())) => Ok((stream, input, parser)),
                // A rejected token stays rejected; other errors are temporary.
                Ok(Err(error)) if error.concerns_the_token() => Err(AttemptError::Server(error)),
                Ok(Err(error)) => Err(failed(error.message)),
            }
        };
        timeout(self.config.timeout, open).await.unwrap_or_else(|_| Err(failed("no response in time".into())))
    }
}

/// Authenticates, and negotiates the protocol version. Returns the server's error if it rejects the
/// handshake.
async fn handshake<S: AsyncRead + AsyncWrite + Unpin>(
    stream: &mut S,
    input: &mut BytesMut,
    parser: &mut Parser,
    token: Option<&str>,
) -> io::Result<Result<(), ServerError>> {
    let mut words: Vec<&[u8]> = vec![b"HELLO", b"3"];
    if let Some(token) = token {
        words.extend([b"AUTH", &b"default"[..], token.as_bytes()]);
    }
    let Value::Error(error) = request(stream, input, parser, &words).await? else { return Ok(Ok(())) };
    // A server without RESP3 uses RESP2, and authenticates with AUTH.
    if !error.starts_with(b"NOPROTO") && !error.starts_with(b"ERR unknown command") {
        return Ok(Err(ServerError::new(&error)));
    }
    let Some(token) = token else { return Ok(Ok(())) };
    match request(stream, input, parser, &[b"AUTH", token.as_bytes()]).await? {
        Value::Error(error) => Ok(Err(ServerError::new(&error))),
        _ => Ok(Ok(())),
    }
}

async fn request<S: AsyncRead + AsyncWrite + Unpin>(
    stream: &mut S,
    input: &mut BytesMut,
    parser: &mut Parser,
    words: &[&[u8]],
) -> io::Result<Value> {
    let mut output = Vec::new();
    command(&mut output, words);
    stream.write_all(&output).await?;
    loop {
        if let Some(value) = next_reply(parser, input)? {
            return Ok(value);
        }
        if stream.read_buf(input).await? == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
    }
}

/// Parses the next reply in the input. Push messages are skipped.
fn next_reply(parser: &mut Parser, input: &mut BytesMut) -> io::Result<Option<Value>> {
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

/// An open connection.
struct Connection<S> {
    stream: S,
    parser: Parser,
    input: BytesMut,
    output: Output,
}

/// The sending half, borrowed apart from the stream and the parser.
struct Output {
    bytes: BytesMut,
    /// Commands in flight, in order.
    in_flight: VecDeque<PendingAttempt>,
    /// When the timeout for the oldest command in flight started: at the last read, or when it was queued.
    timer_start: Instant,
}

impl Output {
    /// Appends a command to the output, unless its caller has abandoned it.
    fn push(&mut self, attempt: PendingAttempt) {
        if !attempt.claim() {
            return;
        }
        if self.in_flight.is_empty() {
            self.timer_start = Instant::now();
        }
        self.bytes.extend_from_slice(&attempt.command);
        self.in_flight.push_back(attempt);
    }

    /// Writes some of the output. Without output it flushes, because TLS buffers bytes until then. Returns
    /// whether it flushed.
    async fn write(&mut self, writer: &mut (impl AsyncWrite + Unpin)) -> io::Result<bool> {
        if self.bytes.is_empty() {
            writer.flush().await?;
            return Ok(true);
        }
        writer.write_buf(&mut self.bytes).await?;
        Ok(false)
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> Connection<S> {
    fn new(stream: S, input: BytesMut, parser: Parser) -> Self {
        let (bytes, in_flight) = (BytesMut::new(), VecDeque::new());
        Self { stream, parser, input, output: Output { bytes, in_flight, timer_start: Instant::now() } }
    }

    /// Serves the queue until the connection ends. Returns `None` if the queue ended first.
    async fn serve(mut self, first: PendingAttempt, task: &mut ConnectionTask) -> Option<()> {
        self.output.push(first);
        let reason = self.run(task).await?;
        let server = &task.config.address;
        for attempt in self.output.in_flight.drain(..) {
            attempt.fail(AttemptError::Lost { server: server.clone(), reason: reason.clone() });
        }
        Some(())
    }

    /// Runs until the connection ends, and returns the reason. Returns `None` if the queue ended first.
    async fn run(&mut self, task: &mut ConnectionTask) -> Option<String> {
        let (timeout, queue_max) = (task.config.timeout, task.config.queue_max);
        let (mut batch, mut is_flushed) = (Vec::new(), true);
        let mut timer = std::pin::pin!(sleep_until(self.output.timer_start + timeout));
        let (mut reader, mut writer) = tokio::io::split(&mut self.stream);
        let (parser, input, output) = (&mut self.parser, &mut self.input, &mut self.output);
        loop {
            input.reserve(READ_BYTES);
            let room = queue_max.saturating_sub(output.in_flight.len());
            let (has_output, has_in_flight) = (!output.bytes.is_empty(), !output.in_flight.is_empty());
            let can_queue = room > 0 && output.bytes.len() < OUTPUT_BYTES_MAX;
            tokio::select! {
                read = reader.read_buf(input) => {
                    match read {
                        Ok(0) => return Some("the server closed it".into()),
                        Ok(_) => {}
                        Err(error) => return Some(error.to_string()),
                    }
                    output.timer_start = Instant::now();
                    loop {
                        match next_reply(parser, input) {
                            Ok(None) => break,
                            Ok(Some(value)) => match output.in_flight.pop_front() {
                                Some(attempt) => attempt.reply(value),
                                None => return Some("the server sent a reply without a request".into()),
                            },
                            Err(error) => return Some(error.to_string()),
                        }
                    }
                }
                written = output.write(&mut writer), if has_output || !is_flushed => {
                    match written {
                        Ok(flushed) => is_flushed = flushed,
                        Err(error) => return Some(error.to_string()),
                    }
                }
                count = task.queue.recv_many(&mut batch, room), if can_queue => {
                    if count == 0 {
                        return None;
                    }
                    batch.drain(..).for_each(|attempt| output.push(attempt));
                }
                () = &mut timer, if has_in_flight => {
                    if output.timer_start.elapsed() >= timeout {
                        return Some("no response in time".into());
                    }
                    timer.as_mut().reset(output.timer_start + timeout);
                }
            }
        }
    }
}
