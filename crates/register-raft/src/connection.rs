//! A connection between two members: an authenticated handshake, then framed requests and responses.
//!
//! ```text
//! frame:      length u32 · bytes
//! caller →    "JRFT" · version u16 · caller u64 · callee u64 · nonce
//! ← callee    nonce · proof
//! caller →    proof
//! ← callee    empty: accepted
//! caller →    request, ← callee: response, one after the other
//! ```
//!
//! Invariant: before the proof, frames are limited to 256 bytes and the handshake has a timeout; after it,
//! frames are limited to 32 MiB. The receiver allocates memory only for bytes that have arrived.

use std::io;
use std::time::Duration;

use serde::Serialize;
use serde::de::DeserializeOwned;
use tokio::io::{AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::TcpStream;
use tokio::time::timeout;

use crate::handshake::{HandshakeTranscript, Nonce, Side, nonce};
use crate::settings::{Secret, Settings};

/// The version of the protocol.
pub const VERSION: u16 = 1;
/// The largest frame: larger than the largest batch with its names.
pub const FRAME_BYTES_MAX: usize = 32 << 20;
/// The largest frame of the handshake.
const HANDSHAKE_BYTES_MAX: usize = 256;
/// A connection without a request for this long is closed: a caller that lost power does not close it, and it
/// would take a place among the connections until shutdown.
pub const IDLE_TIMEOUT: Duration = Duration::from_secs(120);
const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(3);
const MAGIC: &[u8; 4] = b"JRFT";
/// Memory for a frame is allocated in steps of this length.
const STEP_BYTES: usize = 1 << 20;

/// An authenticated connection between two members.
pub struct Connection {
    stream: BufReader<TcpStream>,
}

fn invalid(why: impl Into<String>) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, why.into())
}

impl Connection {
    /// Performs the handshake as the caller.
    pub async fn connect(stream: TcpStream, secret: &Secret, caller: u64, callee: u64) -> io::Result<Self> {
        match timeout(HANDSHAKE_TIMEOUT, Self::handshake(stream, secret, caller, callee)).await? {
            // The callee gives no reason to unauthenticated callers; these are the possible ones.
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => Err(invalid(format!(
                "it closed the connection: it is not member {callee}, does not know member {caller}, or has another version"
            ))),
            result => result,
        }
    }

    /// Performs the handshake as the callee. Returns the number of the caller, too.
    pub async fn accept(stream: TcpStream, settings: &Settings) -> io::Result<(Self, u64)> {
        timeout(HANDSHAKE_TIMEOUT, Self::authenticate(stream, settings)).await?
    }

    fn new(stream: TcpStream) -> io::Result<Self> {
        stream.set_nodelay(true)?;
        Ok(Self { stream: BufReader::with_capacity(64 << 10, stream) })
    }

    async fn handshake(stream: TcpStream, secret: &Secret, caller: u64, callee: u64) -> io::Result<Self> {
        let mut connection = Self::new(stream)?;
        let caller_nonce = nonce()?;
        let mut hello = MAGIC.to_vec();
        hello.extend_from_slice(&VERSION.to_le_bytes());
        hello.extend_from_slice(&caller.to_le_bytes());
        hello.extend_from_slice(&callee.to_le_bytes());
        hello.extend_from_slice(&caller_nonce);
        connection.send_frame(&hello).await?;
        let answer = connection.receive_frame(HANDSHAKE_BYTES_MAX).await?;
        let (callee_nonce, proof) = split_answer(&answer).ok_or_else(|| invalid("it is not a member"))?;
        let transcript = HandshakeTranscript { caller, callee, caller_nonce, callee_nonce };
        if !transcript.verify(secret, Side::Callee, &proof) {
            return Err(invalid("it does not know the secret"));
        }
        connection.send_frame(&transcript.prove(secret, Side::Caller)).await?;
        connection.receive_frame(HANDSHAKE_BYTES_MAX).await?;
        Ok(connection)
    }

    async fn authenticate(stream: TcpStream, settings: &Settings) -> io::Result<(Self, u64)> {
        let (secret, me) = (&settings.secret, settings.me);
        let mut connection = Self::new(stream)?;
        let hello = connection.receive_frame(HANDSHAKE_BYTES_MAX).await?;
        let word = |at: usize| hello.get(at..at + 8)?.try_into().ok().map(u64::from_le_bytes);
        let parts = || Some((word(6)?, word(14)?, Nonce::try_from(hello.get(22..)?).ok()?));
        if !hello.starts_with(MAGIC) {
            return Err(invalid("it is not a member"));
        }
        if hello.get(4..6) != Some(&VERSION.to_le_bytes()) {
            return Err(invalid("it has another version"));
        }
        let Some((caller, callee, caller_nonce)) = parts() else { return Err(invalid("a truncated hello")) };
        if callee != me {
            return Err(invalid(format!("it looks for member {callee}")));
        }
        let transcript = HandshakeTranscript { caller, callee, caller_nonce, callee_nonce: nonce()? };
        let mut answer = transcript.callee_nonce.to_vec();
        answer.extend_from_slice(&transcript.prove(secret, Side::Callee));
        connection.send_frame(&answer).await?;
        let proof = connection.receive_frame(HANDSHAKE_BYTES_MAX).await?;
        let proof = proof.as_slice().try_into().map_err(|_| invalid("a truncated proof"))?;
        if !transcript.verify(secret, Side::Caller, proof) {
            return Err(invalid("it does not know the secret"));
        }
        // Checked after the proof: an unauthenticated caller does not learn the numbers of the members.
        if !settings.others().any(|member| member == caller) {
            return Err(invalid(format!("there is no other member {caller}")));
        }
        connection.send_frame(&[]).await?;
        Ok((connection, caller))
    }

    pub async fn send(&mut self, message: &impl Serialize) -> io::Result<()> {
        let bytes = postcard::to_extend(message, vec![0; 4]).map_err(|error| invalid(error.to_string()))?;
        self.send_prefixed(bytes).await
    }

    pub async fn receive<T: DeserializeOwned>(&mut self) -> io::Result<T> {
        let bytes = self.receive_frame(FRAME_BYTES_MAX).await?;
        postcard::from_bytes(&bytes).map_err(|error| invalid(error.to_string()))
    }

    async fn send_frame(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.send_prefixed([&[0; 4], bytes].concat()).await
    }

    /// Sends a frame. The first four bytes are overwritten with the length.
    async fn send_prefixed(&mut self, mut bytes: Vec<u8>) -> io::Result<()> {
        let len = bytes.len() - 4;
        check_len(len, FRAME_BYTES_MAX)?;
        bytes[..4].copy_from_slice(&(len as u32).to_le_bytes());
        self.stream.get_mut().write_all(&bytes).await
    }

    async fn receive_frame(&mut self, bytes_max: usize) -> io::Result<Vec<u8>> {
        let len = self.stream.read_u32_le().await? as usize;
        check_len(len, bytes_max)?;
        let mut bytes = Vec::new();
        while bytes.len() < len {
            let start = bytes.len();
            bytes.resize(len.min(start + STEP_BYTES), 0);
            self.stream.read_exact(&mut bytes[start..]).await?;
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
