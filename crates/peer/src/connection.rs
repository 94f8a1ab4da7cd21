//! A connection between two nodes: an authenticated handshake, then frames.
//!
//! ```text
//! frame:      length u32 · bytes
//! caller →    magic · version u16 · caller u128 · callee u128 · nonce
//! ← callee    nonce · proof
//! caller →    proof
//! ← callee    empty: accepted
//! ```

use std::io;
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, BufReader, ReadHalf, WriteHalf, split};
use tokio::net::TcpStream;
use tokio::time::timeout;

use crate::handshake::{HandshakeTranscript, Nonce, Secret, Side, nonce};
use crate::tls::Tls;

/// The largest frame.
pub const FRAME_BYTES_MAX: usize = 32 << 20;
/// The largest frame of the handshake.
const HANDSHAKE_BYTES_MAX: usize = 256;
/// A connection without a frame for this long is closed: a caller that lost power does not close it, and it
/// would take a place among the connections until shutdown.
pub const IDLE_TIMEOUT: Duration = Duration::from_secs(120);
const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(3);
/// Memory for a frame is allocated in steps of this length.
const STEP_BYTES: usize = 1 << 20;
const BUFFER_BYTES: usize = 8 << 10;

/// One side of connections: its protocol, its number and the secret.
#[derive(Debug, Clone)]
pub struct Endpoint {
    pub magic: [u8; 4],
    /// The version of the protocol. Other versions are refused.
    pub version: u16,
    pub secret: Secret,
    /// The number of this node.
    pub me: u128,
    /// The timeout of a connection attempt.
    pub connect_timeout: Duration,
    /// Without it connections are not encrypted.
    pub tls: Option<Tls>,
}

trait Stream: AsyncRead + AsyncWrite + Send + Unpin {}

impl<S: AsyncRead + AsyncWrite + Send + Unpin> Stream for S {}

/// An authenticated connection between two nodes.
pub struct Connection {
    reader: FrameReader,
    writer: FrameWriter,
}

pub struct FrameReader(BufReader<ReadHalf<Box<dyn Stream>>>);

pub struct FrameWriter(WriteHalf<Box<dyn Stream>>);

fn invalid(why: impl Into<String>) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, why.into())
}

impl Connection {
    /// Connects to a node, and performs the handshake.
    pub async fn connect(endpoint: &Endpoint, address: &str, callee: u128) -> io::Result<Self> {
        let stream = TcpStream::connect(address).await?;
        stream.set_nodelay(true)?;
        let handshake = async {
            let connection = match &endpoint.tls {
                Some(tls) => Self::new(tls.connect(address, stream).await?),
                None => Self::new(stream),
            };
            Self::handshake(connection, endpoint, callee).await
        };
        match timeout(HANDSHAKE_TIMEOUT, handshake).await? {
            // The callee gives no reason to unauthenticated callers; these are the possible ones.
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => Err(invalid(format!(
                "it closed the connection: it is not node {callee}, does not know node {}, or has another version",
                endpoint.me
            ))),
            result => result,
        }
    }

    /// Performs the handshake as the callee. Returns the number of the caller, too.
    pub async fn accept(
        endpoint: &Endpoint,
        stream: TcpStream,
        is_known: impl Fn(u128) -> bool,
    ) -> io::Result<(Self, u128)> {
        stream.set_nodelay(true)?;
        let authenticate = async {
            let connection = match &endpoint.tls {
                Some(tls) => Self::new(tls.accept(stream).await?),
                None => Self::new(stream),
            };
            Self::authenticate(connection, endpoint, is_known).await
        };
        timeout(HANDSHAKE_TIMEOUT, authenticate).await?
    }

    fn new(stream: impl Stream + 'static) -> Self {
        let stream: Box<dyn Stream> = Box::new(stream);
        let (reader, writer) = split(stream);
        Self {
            reader: FrameReader(BufReader::with_capacity(BUFFER_BYTES, reader)),
            writer: FrameWriter(writer),
        }
    }

    async fn handshake(mut connection: Self, endpoint: &Endpoint, callee: u128) -> io::Result<Self> {
        let Endpoint { magic, version, secret, me: caller, .. } = endpoint;
        let caller_nonce = nonce()?;
        let mut hello = magic.to_vec();
        hello.extend_from_slice(&version.to_le_bytes());
        hello.extend_from_slice(&caller.to_le_bytes());
        hello.extend_from_slice(&callee.to_le_bytes());
        hello.extend_from_slice(&caller_nonce);
        connection.writer.send(&hello).await?;
        let answer = connection.reader.receive(HANDSHAKE_BYTES_MAX).await?;
        let (callee_nonce, proof) = split_answer(&answer).ok_or_else(|| invalid("it is not a node"))?;
        let transcript = HandshakeTranscript {
            magic: *magic,
            version: *version,
            caller: *caller,
            callee,
            caller_nonce,
            callee_nonce,
        };
        if !transcript.verify(secret, Side::Callee, &proof) {
            return Err(invalid("it does not know the secret"));
        }
        connection.writer.send(&transcript.prove(secret, Side::Caller)).await?;
        connection.reader.receive(HANDSHAKE_BYTES_MAX).await?;
        Ok(connection)
    }

    async fn authenticate(
        mut connection: Self,
        endpoint: &Endpoint,
        is_known: impl Fn(u128) -> bool,
    ) -> io::Result<(Self, u128)> {
        let Endpoint { magic, version, secret, me, .. } = endpoint;
        let hello = connection.reader.receive(HANDSHAKE_BYTES_MAX).await?;
        if !hello.starts_with(magic) {
            return Err(invalid("it is not a node"));
        }
        if hello.get(4..6) != Some(&version.to_le_bytes()) {
            return Err(invalid("it has another version"));
        }
        let number = |at: usize| hello.get(at..at + 16)?.try_into().ok().map(u128::from_le_bytes);
        let parts = || Some((number(6)?, number(22)?, Nonce::try_from(hello.get(38..)?).ok()?));
        let Some((caller, callee, caller_nonce)) = parts() else { return Err(invalid("a truncated hello")) };
        if callee != *me {
            return Err(invalid(format!("it looks for node {callee}")));
        }
        let transcript = HandshakeTranscript {
            magic: *magic,
            version: *version,
            caller,
            callee,
            caller_nonce,
            callee_nonce: nonce()?,
        };
        let mut answer = transcript.callee_nonce.to_vec();
        answer.extend_from_slice(&transcript.prove(secret, Side::Callee));
        connection.writer.send(&answer).await?;
        let proof = connection.reader.receive(HANDSHAKE_BYTES_MAX).await?;
        let proof = proof.as_slice().try_into().map_err(|_| invalid("a truncated proof"))?;
        if !transcript.verify(secret, Side::Caller, proof) {
            return Err(invalid("it does not know the secret"));
        }
        // Checked after the proof: an unauthenticated caller does not learn the numbers of the nodes.
        if !is_known(caller) {
            return Err(invalid(format!("there is no other node {caller}")));
        }
        connection.writer.send(&[]).await?;
        Ok((connection, caller))
    }

    pub fn into_split(self) -> (FrameReader, FrameWriter) {
        (self.reader, self.writer)
    }
}

impl FrameWriter {
    pub async fn send(&mut self, frame: &[u8]) -> io::Result<()> {
        check_len(frame.len(), FRAME_BYTES_MAX)?;
        let mut bytes = Vec::with_capacity(4 + frame.len());
        bytes.extend_from_slice(&(frame.len() as u32).to_le_bytes());
        bytes.extend_from_slice(frame);
        self.0.write_all(&bytes).await?;
        self.0.flush().await
    }
}

impl FrameReader {
    /// The next frame, of at most `bytes_max` bytes.
    pub async fn receive(&mut self, bytes_max: usize) -> io::Result<Vec<u8>> {
        let len = self.0.read_u32_le().await? as usize;
        check_len(len, bytes_max)?;
        let mut bytes = Vec::new();
        while bytes.len() < len {
            let start = bytes.len();
            bytes.resize(len.min(start + STEP_BYTES), 0);
            self.0.read_exact(&mut bytes[start..]).await?;
        }
        Ok(bytes)
    }
}

fn check_len(len: usize, max: usize) -> io::Result<()> {
    match len > max {
        true => Err(invalid(format!("a frame of {len} bytes; the limit is {max}"))),
        false => Ok(()),
    }
}

fn split_answer(bytes: &[u8]) -> Option<(Nonce, [u8; 32])> {
    let (nonce, proof) = bytes.split_at_checked(32)?;
    Some((nonce.try_into().ok()?, proof.try_into().ok()?))
}
