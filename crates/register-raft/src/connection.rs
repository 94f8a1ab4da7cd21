//! A connection between two members: frames, and the proofs at its beginning.
//!
//! ```text
//! frame:     length u32 · bytes
//! caller →   "JRFT" · version u16 · caller u64 · called u64 · nonce
//! ← called   nonce · proof
//! caller →   proof
//! ← called   empty: welcome
//! caller →   request, ← called: reply, one after the other
//! ```
//!
//! What must hold: before the proof, frames are tiny and the time is short; after it, frames are bounded. Who reads allots no more than has come.

use std::io;
use std::time::Duration;

use serde::Serialize;
use serde::de::DeserializeOwned;
use tokio::io::{AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::TcpStream;
use tokio::time::timeout;

use crate::handshake::{HandshakeTranscript, Nonce, Part, nonce};
use crate::settings::{Secret, Settings};

/// The version of the protocol.
pub const VERSION: u16 = 1;
/// The largest frame, in bytes: the largest batch with its names, and some more.
pub const FRAME_BYTES_MAX: usize = 32 << 20;
/// The largest frame before the proof.
const GREETING_BYTES_MAX: usize = 256;
/// A connection on which nothing is asked for so long is hung up on: a caller that lost its power does not say that it is gone, and each that it left
/// would take a place for ever.
pub const IDLE_TIME: Duration = Duration::from_secs(120);
/// How long the greeting may take.
const GREETING_TIME: Duration = Duration::from_secs(3);
const MAGIC: &[u8; 4] = b"JRFT";
/// Memory for a frame is allotted in steps of so many bytes.
const STEP_BYTES: usize = 1 << 20;

/// A connection whose both ends are members.
pub struct Connection {
    stream: BufReader<TcpStream>,
}

fn bad(why: impl Into<String>) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, why.into())
}

impl Connection {
    /// Greets the member that was called.
    pub async fn call(stream: TcpStream, secret: &Secret, caller: u64, called: u64) -> io::Result<Self> {
        match timeout(GREETING_TIME, Self::greet(stream, secret, caller, called)).await? {
            // It does not say why, to nobody. But whoever set this up wants to know.
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => Err(bad(format!(
                "it hung up: it is not member {called}, does not know member {caller}, or speaks another version"
            ))),
            greeted => greeted,
        }
    }

    /// Greets whoever called, if it is a member: that one.
    pub async fn answer(stream: TcpStream, settings: &Settings) -> io::Result<(Self, u64)> {
        timeout(GREETING_TIME, Self::check(stream, settings)).await?
    }

    fn new(stream: TcpStream) -> io::Result<Self> {
        stream.set_nodelay(true)?;
        Ok(Self { stream: BufReader::with_capacity(64 << 10, stream) })
    }

    async fn greet(stream: TcpStream, secret: &Secret, caller: u64, called: u64) -> io::Result<Self> {
        let mut connection = Self::new(stream)?;
        let caller_nonce = nonce()?;
        let mut hello = MAGIC.to_vec();
        hello.extend_from_slice(&VERSION.to_le_bytes());
        hello.extend_from_slice(&caller.to_le_bytes());
        hello.extend_from_slice(&called.to_le_bytes());
        hello.extend_from_slice(&caller_nonce);
        connection.send(&hello).await?;
        let answer = connection.receive(GREETING_BYTES_MAX).await?;
        let (called_nonce, proof) = halves(&answer).ok_or_else(|| bad("that is no member"))?;
        let exchange = HandshakeTranscript { caller, called, caller_nonce, called_nonce };
        if !exchange.holds(secret, Part::Called, &proof) {
            return Err(bad("it does not know the secret"));
        }
        connection.send(&exchange.prove(secret, Part::Caller)).await?;
        connection.receive(GREETING_BYTES_MAX).await?;
        Ok(connection)
    }

    async fn check(stream: TcpStream, settings: &Settings) -> io::Result<(Self, u64)> {
        let (secret, me) = (&settings.secret, settings.me);
        let mut connection = Self::new(stream)?;
        let hello = connection.receive(GREETING_BYTES_MAX).await?;
        let word = |at: usize| hello.get(at..at + 8)?.try_into().ok().map(u64::from_le_bytes);
        let parts = || Some((word(6)?, word(14)?, Nonce::try_from(hello.get(22..)?).ok()?));
        if !hello.starts_with(MAGIC) {
            return Err(bad("it is no member"));
        }
        if hello.get(4..6) != Some(&VERSION.to_le_bytes()) {
            return Err(bad("it speaks another version"));
        }
        let Some((caller, called, caller_nonce)) = parts() else { return Err(bad("half a greeting")) };
        if called != me {
            return Err(bad(format!("it looks for member {called}")));
        }
        let exchange = HandshakeTranscript { caller, called, caller_nonce, called_nonce: nonce()? };
        let mut answer = exchange.called_nonce.to_vec();
        answer.extend_from_slice(&exchange.prove(secret, Part::Called));
        connection.send(&answer).await?;
        let proof = connection.receive(GREETING_BYTES_MAX).await?;
        let proof = proof.as_slice().try_into().map_err(|_| bad("half a proof"))?;
        if !exchange.holds(secret, Part::Caller, proof) {
            return Err(bad("it does not know the secret"));
        }
        // Only now: a stranger does not learn who the members are.
        if !settings.others().any(|member| member == caller) {
            return Err(bad(format!("there is no other member {caller}")));
        }
        connection.send(&[]).await?;
        Ok((connection, caller))
    }

    /// Sends a message.
    pub async fn say(&mut self, message: &impl Serialize) -> io::Result<()> {
        let bytes = postcard::to_extend(message, vec![0; 4]).map_err(|error| bad(error.to_string()))?;
        self.send_framed(bytes).await
    }

    /// Receives a message.
    pub async fn hear<T: DeserializeOwned>(&mut self) -> io::Result<T> {
        let bytes = self.receive(FRAME_BYTES_MAX).await?;
        postcard::from_bytes(&bytes).map_err(|error| bad(error.to_string()))
    }

    async fn send(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.send_framed([&[0; 4], bytes].concat()).await
    }

    /// Sends bytes whose first four are the place of their length.
    async fn send_framed(&mut self, mut bytes: Vec<u8>) -> io::Result<()> {
        let length = bytes.len() - 4;
        if length > FRAME_BYTES_MAX {
            return Err(bad(format!("a frame of {length} bytes; at most {FRAME_BYTES_MAX}")));
        }
        bytes[..4].copy_from_slice(&(length as u32).to_le_bytes());
        self.stream.get_mut().write_all(&bytes).await
    }

    async fn receive(&mut self, bytes_max: usize) -> io::Result<Vec<u8>> {
        let length = self.stream.read_u32_le().await? as usize;
        if length > bytes_max {
            return Err(bad(format!("a frame of {length} bytes; at most {bytes_max}")));
        }
        let mut bytes = Vec::new();
        while bytes.len() < length {
            let begin = bytes.len();
            bytes.resize(length.min(begin + STEP_BYTES), 0);
            self.stream.read_exact(&mut bytes[begin..]).await?;
        }
        Ok(bytes)
    }
}

fn halves(bytes: &[u8]) -> Option<(Nonce, [u8; 32])> {
    let (nonce, proof) = bytes.split_at_checked(32)?;
    Some((nonce.try_into().ok()?, proof.try_into().ok()?))
}
