//! Runs an attack: some connections that send a payload and read, or do not read, or are slow.

use std::collections::BTreeMap;
use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::time::{Duration, Instant};

use jeton_testkit::Rng;

use crate::attacks::{Attack, Protocol};
use crate::target::Target;

/// Connections that an attack opens a second, at most.
const OPENED_PER_SECOND: u64 = 2000;

/// Bytes of a write.
const WRITE_BYTES: usize = 256 << 10;

/// How an attacker uses its connections.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Style {
    /// Sends the payload again and again, and reads.
    Read,
    /// The same, and reads nothing.
    Unread,
    /// Sends the payload once, and keeps the connection without reading.
    Hold,
    /// Sends the payload, then leaves and opens the next connection.
    Abandon,
    /// Sends a byte at a time.
    Drip,
}

/// What happened in all runs of an attack.
#[derive(Debug, Default)]
pub struct Tally {
    pub runs: u64,
    pub requests: u64,
    pub connections: u64,
    /// Connections that the server closed or rejected.
    pub closed: u64,
    pub errors: BTreeMap<String, u64>,
}

pub struct Payload {
    pub bytes: Vec<u8>,
    pub requests: u64,
}

struct Connection {
    stream: TcpStream,
    sent: usize,
    last_byte: Instant,
    is_closed: bool,
}

impl Connection {
    fn open(address: SocketAddr, tally: &mut Tally) -> Option<Self> {
        tally.connections += 1;
        let opened = TcpStream::connect_timeout(&address, Duration::from_secs(1));
        let opened = opened.and_then(|stream| stream.set_nonblocking(true).map(|()| stream));
        let Ok(stream) = opened else {
            tally.closed += 1;
            return None;
        };
        Some(Self { stream, sent: 0, last_byte: Instant::now(), is_closed: false })
    }

    /// Sends and reads what is possible now. Returns whether it did anything.
    fn step(&mut self, style: Style, payload: &Payload, tally: &mut Tally) -> bool {
        let mut moved = false;
        let end = payload.bytes.len();
        let size = if style == Style::Drip { 1 } else { WRITE_BYTES };
        let waits = style == Style::Drip && self.last_byte.elapsed() < Duration::from_millis(500);
        if self.sent < end && !waits {
            match self.stream.write(&payload.bytes[self.sent..end.min(self.sent + size)]) {
                Ok(bytes) => {
                    (self.sent, self.last_byte, moved) = (self.sent + bytes, Instant::now(), true);
                    if self.sent == end {
                        tally.requests += payload.requests;
                        if matches!(style, Style::Read | Style::Unread) {
                            self.sent = 0;
                        }
                    }
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => {}
                Err(_) => self.close(tally),
            }
        }
        if matches!(style, Style::Read | Style::Drip | Style::Abandon) && !self.is_closed {
            moved |= self.read(tally);
        }
        moved
    }

    /// Reads once, and counts the errors.
    fn read(&mut self, tally: &mut Tally) -> bool {
        let mut buffer = [0; 64 << 10];
        match self.stream.read(&mut buffer) {
            Ok(0) => self.close(tally),
            Ok(bytes) => {
                count_errors(&buffer[..bytes], &mut tally.errors);
                return true;
            }
            Err(error) if error.kind() == ErrorKind::WouldBlock => {}
            Err(_) => self.close(tally),
        }
        false
    }

    fn close(&mut self, tally: &mut Tally) {
        if !std::mem::replace(&mut self.is_closed, true) {
            tally.closed += 1;
        }
    }
}

/// Counts RESP errors by their first word and HTTP errors by their status. Of the errors of one read, at most
/// a hundred are counted.
fn count_errors(bytes: &[u8], errors: &mut BTreeMap<String, u64>) {
    for line in bytes.split(|byte| *byte == b'\n').take(100) {
        let text = String::from_utf8_lossy(&line[..line.len().min(40)]);
        let code = match (text.strip_prefix('-'), text.strip_prefix("HTTP/1.1 ")) {
            (Some(error), _) => error.split([' ', '\r']).next(),
            (_, Some(status)) if status.starts_with(['4', '5']) => status.get(..3),
            _ => None,
        };
        let is_code = |code: &&str| !code.is_empty() && code.bytes().all(|byte| byte.is_ascii_alphanumeric());
        if let Some(code) = code.filter(is_code) {
            *errors.entry(code.to_owned()).or_default() += 1;
        }
    }
}

/// Runs an attack once, for its time.
pub fn run(attack: &Attack, target: &Target, rng: &mut Rng, tally: &mut Tally) {
    let token = attack.tokens[rng.index(attack.tokens.len())];
    let address = match attack.protocol {
        Protocol::Resp => target.resp,
        Protocol::Http => target.http,
    };
    let payload = Arc::new((attack.payload)(target, target.token(token), rng));
    tally.runs += 1;
    let (begun, mut connections, mut opened) = (Instant::now(), Vec::<Connection>::new(), 0);
    let end = begun + Duration::from_secs(attack.seconds);
    while Instant::now() < end {
        let allowed = begun.elapsed().as_millis() as u64 * OPENED_PER_SECOND / 1000;
        connections.retain(|connection| {
            let left = attack.style == Style::Abandon && connection.sent == payload.bytes.len();
            !connection.is_closed && !left
        });
        // A connection that the server closed is replaced, ten times at most.
        let limit = if attack.style == Style::Abandon { u64::MAX } else { attack.connections as u64 * 10 };
        let mut moved = false;
        while connections.len() < attack.connections && opened < allowed.min(limit) {
            opened += 1;
            connections.extend(Connection::open(address, tally));
            moved = true;
        }
        for connection in &mut connections {
            moved |= connection.step(attack.style, &payload, tally);
        }
        if !moved {
            std::thread::sleep(Duration::from_millis(1));
        }
    }
    // What the server replied to those that did not read.
    for connection in &mut connections {
        for _ in 0..16 {
            if connection.is_closed || !connection.read(tally) {
                break;
            }
        }
    }
}
