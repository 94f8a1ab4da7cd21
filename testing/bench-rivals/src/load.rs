//! The load generator: one thread with an epoll loop over all connections of a target, the same for every
//! target.
//!
//! A connection sends a request of one or several additions, waits for all answers, and sends the next. Each
//! addition has a new id. Every twentieth is sent again later with its id, and every refused one is sent
//! again.

use std::collections::VecDeque;
use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use anyhow::{Context, Result, bail};
use bytes::BytesMut;
use rustix::event::Timespec;
use rustix::event::epoll::{self, CreateFlags, Event, EventData, EventFlags};
use rustix::time::{ClockId, clock_gettime};

use crate::operation::{Ids, Operation};
use crate::protocol::{Answer, Protocol};
use crate::workload::Workload;

/// One addition in this many is sent twice.
const RESENT: u64 = 20;

/// Additions that wait before they are sent again: a retry arrives some thousand additions after the first
/// attempt.
const LAG: usize = 200;

/// A server without an answer for this long has failed.
const SILENCE: Duration = Duration::from_secs(20);

/// How long the loop sleeps when nothing is due, at a constant rate.
const PACE: Duration = Duration::from_micros(50);

/// Answers of all rounds.
#[derive(Default, Clone, Copy)]
pub struct SentCounts {
    /// Additions with a first answer: the sum that the counters must have.
    pub distinct: u64,
    /// Answers to additions that were sent again.
    pub again: u64,
    /// Refused additions.
    pub refused: u64,
}

/// The result of one round.
#[derive(Clone, Copy)]
pub struct Round {
    pub answered: u64,
    pub seconds: f64,
    /// Processor time of the load generator.
    pub own_seconds: f64,
    /// Latencies of requests, in milliseconds.
    pub p50: f64,
    pub p99: f64,
}

impl Round {
    pub fn rate(&self) -> f64 {
        self.answered as f64 / self.seconds
    }
}

struct Connection {
    stream: TcpStream,
    out: BytesMut,
    written: usize,
    input: Vec<u8>,
    batch: Vec<Operation>,
    /// Answers not yet received.
    awaited: usize,
    /// A part of the current answer was an error.
    has_error: bool,
    since: Instant,
    /// Whether epoll reports free space in the send buffer.
    waits_for_space: bool,
}

/// The next additions.
struct Source {
    ids: Ids,
    position: usize,
    fresh: u64,
    again: VecDeque<Operation>,
    refused: Vec<Operation>,
    /// A time of both clocks: an id contains the date, and reading that clock for each id would cost more.
    origin: (Instant, u64),
    resends: bool,
}

impl Source {
    fn next(&mut self, workload: &Workload, millis: u64) -> Operation {
        if let Some(operation) = self.refused.pop() {
            return operation;
        }
        if self.again.len() > LAG
            && let Some(operation) = self.again.pop_front()
        {
            return operation;
        }
        self.position = if self.position + 1 < workload.draws.len() { self.position + 1 } else { 0 };
        self.fresh += 1;
        Operation { id: self.ids.next(millis), counter: workload.draws[self.position], again: false }
    }
}

/// The connections to one target, with the counts of what was sent.
pub struct ConnectionPool {
    protocol: Arc<dyn Protocol>,
    connections: Vec<Connection>,
    epoll: OwnedFd,
    source: Source,
    pub sent: SentCounts,
    /// The text of the first refusal.
    pub refusal: Option<String>,
    buffer: Vec<u8>,
    latencies: Vec<u32>,
}

impl ConnectionPool {
    pub fn open(address: SocketAddr, protocol: Arc<dyn Protocol>, connections: usize) -> Result<Self> {
        let epoll = epoll::create(CreateFlags::CLOEXEC)?;
        let now = SystemTime::now().duration_since(UNIX_EPOCH)?.as_millis() as u64;
        let mut pool = Self {
            protocol,
            connections: Vec::new(),
            epoll,
            source: Source {
                ids: Ids::new(),
                position: 0,
                fresh: 0,
                again: VecDeque::new(),
                refused: Vec::new(),
                origin: (Instant::now(), now),
                resends: true,
            },
            sent: SentCounts::default(),
            refusal: None,
            buffer: vec![0; 1 << 16],
            latencies: Vec::new(),
        };
        for number in 0..connections {
            let mut stream = TcpStream::connect_timeout(&address, Duration::from_secs(5))
                .with_context(|| format!("connection {number}"))?;
            stream.set_nodelay(true)?;
            stream.set_read_timeout(Some(SILENCE))?;
            pool.protocol.greet(&mut stream)?;
            stream.set_nonblocking(true)?;
            epoll::add(&pool.epoll, &stream, EventData::new_u64(number as u64), EventFlags::IN)?;
            pool.connections.push(Connection {
                stream,
                out: BytesMut::new(),
                written: 0,
                input: Vec::new(),
                batch: Vec::new(),
                awaited: 0,
                has_error: false,
                since: Instant::now(),
                waits_for_space: false,
            });
        }
        Ok(pool)
    }

    /// Sends every further addition once.
    pub fn stop_retries(&mut self) {
        self.source.resends = false;
    }

    /// Sends requests of `pipeline` additions on every connection, as fast as possible.
    pub fn run(&mut self, workload: &Workload, pipeline: usize, duration: Duration) -> Result<Round> {
        self.drive(workload, pipeline, |elapsed, _| elapsed < duration)
    }

    /// Sends a number of additions as fast as possible.
    pub fn fill(&mut self, workload: &Workload, pipeline: usize, additions: u64) -> Result<Round> {
        self.drive(workload, pipeline, |_, answered| answered < additions)
    }

    fn drive(
        &mut self,
        workload: &Workload,
        pipeline: usize,
        goes_on: impl Fn(Duration, u64) -> bool,
    ) -> Result<Round> {
        let begin = Instant::now();
        let (before, own) = (self.sent, own_processor_seconds());
        let answered = |sent: &SentCounts| sent.distinct + sent.again - before.distinct - before.again;
        self.latencies.clear();
        for at in 0..self.connections.len() {
            self.send(at, workload, pipeline, begin)?;
        }
        let mut busy = self.connections.len();
        while busy > 0 {
            for (at, has_space) in self.wait(SILENCE)? {
                if has_space {
                    self.flush(at)?;
                }
                if !self.receive(at)? {
                    continue;
                }
                let now = Instant::now();
                self.latencies.push((now - self.connections[at].since).as_micros() as u32);
                if goes_on(now - begin, answered(&self.sent)) {
                    self.send(at, workload, pipeline, now)?;
                } else {
                    busy -= 1;
                }
            }
            if self.sent.refused - before.refused > 10_000 + answered(&self.sent) {
                bail!("most additions are refused: {}", self.refusal.as_deref().unwrap_or("?"));
            }
        }
        Ok(self.round(begin, answered(&self.sent), own))
    }

    /// Sends single additions at a constant rate on free connections. A latency starts when the addition is
    /// due, so that it includes the wait for a free connection.
    pub fn run_at_rate(&mut self, workload: &Workload, per_second: f64, duration: Duration) -> Result<Round> {
        let begin = Instant::now();
        let (before, own) = (self.sent, own_processor_seconds());
        self.latencies.clear();
        let total = (per_second * duration.as_secs_f64()) as u64;
        let mut free: Vec<usize> = (0..self.connections.len()).collect();
        let (mut sent, mut last_answer) = (0, Instant::now());
        while sent < total || free.len() < self.connections.len() {
            let due = total.min((begin.elapsed().as_secs_f64() * per_second) as u64);
            while sent < due
                && let Some(at) = free.pop()
            {
                self.send(at, workload, 1, begin + Duration::from_secs_f64(sent as f64 / per_second))?;
                sent += 1;
            }
            let ready = self.poll(Duration::ZERO)?;
            if ready.is_empty() {
                if last_answer.elapsed() > SILENCE {
                    bail!("no answer within {SILENCE:?}");
                }
                std::thread::sleep(PACE);
                continue;
            }
            last_answer = Instant::now();
            for (at, has_space) in ready {
                if has_space {
                    self.flush(at)?;
                }
                if self.receive(at)? {
                    self.latencies.push(self.connections[at].since.elapsed().as_micros() as u32);
                    free.push(at);
                }
            }
        }
        let answered = self.sent.distinct + self.sent.again - before.distinct - before.again;
        Ok(self.round(begin, answered, own))
    }

    fn round(&mut self, begin: Instant, answered: u64, own: f64) -> Round {
        self.latencies.sort_unstable();
        let at = |part: f64| {
            let last = self.latencies.len().saturating_sub(1);
            let micros = self.latencies.get((last as f64 * part) as usize).copied().unwrap_or(0);
            f64::from(micros) / 1e3
        };
        Round {
            answered,
            seconds: begin.elapsed().as_secs_f64(),
            own_seconds: own_processor_seconds() - own,
            p50: at(0.5),
            p99: at(0.99),
        }
    }

    /// Waits for connections with answers or with free space. Fails at the timeout.
    fn wait(&mut self, timeout: Duration) -> Result<Vec<(usize, bool)>> {
        let ready = self.poll(timeout)?;
        if ready.is_empty() {
            bail!("no answer within {timeout:?}");
        }
        Ok(ready)
    }

    /// The connections with events, and whether they have free space again.
    fn poll(&mut self, timeout: Duration) -> Result<Vec<(usize, bool)>> {
        let mut events = [Event { flags: EventFlags::empty(), data: EventData::new_u64(0) }; 64];
        let timeout =
            Timespec { tv_sec: timeout.as_secs() as i64, tv_nsec: i64::from(timeout.subsec_nanos()) };
        let count = loop {
            match epoll::wait(&self.epoll, &mut events, Some(&timeout)) {
                Err(rustix::io::Errno::INTR) => {}
                other => break other?,
            }
        };
        let ready = events[..count].iter().map(|event| {
            let (flags, data) = (event.flags, event.data);
            (data.u64() as usize, flags.contains(EventFlags::OUT))
        });
        Ok(ready.collect())
    }

    /// Sends the next request of a connection.
    fn send(&mut self, at: usize, workload: &Workload, additions: usize, since: Instant) -> Result<()> {
        let connection = &mut self.connections[at];
        let (origin, millis) = self.source.origin;
        let millis = millis + (since.saturating_duration_since(origin)).as_millis() as u64;
        connection.batch.clear();
        for _ in 0..additions {
            connection.batch.push(self.source.next(workload, millis));
        }
        connection.out.clear();
        connection.written = 0;
        self.protocol.encode(&connection.batch, &mut connection.out)?;
        connection.awaited = if self.protocol.answers_at_once() { 1 } else { additions };
        connection.has_error = false;
        connection.since = since;
        self.flush(at)
    }

    /// Writes what fits into the send buffer, and waits for free space if there is more.
    fn flush(&mut self, at: usize) -> Result<()> {
        let connection = &mut self.connections[at];
        while connection.written < connection.out.len() {
            match connection.stream.write(&connection.out[connection.written..]) {
                Ok(len) => connection.written += len,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                Err(error) => return Err(error).context("sending"),
            }
        }
        let is_needed = connection.written < connection.out.len();
        if is_needed != connection.waits_for_space {
            connection.waits_for_space = is_needed;
            let flags = if is_needed { EventFlags::IN | EventFlags::OUT } else { EventFlags::IN };
            epoll::modify(&self.epoll, &connection.stream, EventData::new_u64(at as u64), flags)?;
        }
        Ok(())
    }

    /// Reads and parses answers. Returns whether the request is answered.
    fn receive(&mut self, at: usize) -> Result<bool> {
        let connection = &mut self.connections[at];
        let len = match connection.stream.read(&mut self.buffer) {
            Ok(0) => bail!("the server closed a connection"),
            Ok(len) => len,
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => {
                return Ok(false);
            }
            Err(error) => return Err(error).context("receiving"),
        };
        // Usually no bytes are left from the previous read, and nothing is copied.
        let mut held = std::mem::take(&mut connection.input);
        let bytes = if held.is_empty() {
            &self.buffer[..len]
        } else {
            held.extend_from_slice(&self.buffer[..len]);
            &held
        };
        let mut done = 0;
        while let Some((len, answer)) = self.protocol.answer(&bytes[done..])? {
            if matches!(answer, Answer::ErrorPart | Answer::Refused) && self.refusal.is_none() {
                self.refusal = Some(printable(&bytes[done..done + len]));
            }
            done += len;
            let is_refused = match answer {
                Answer::Part => continue,
                Answer::ErrorPart => {
                    connection.has_error = true;
                    continue;
                }
                Answer::Done => connection.has_error,
                Answer::Refused => true,
            };
            if connection.awaited == 0 {
                bail!("an answer without a request");
            }
            let answered = if self.protocol.answers_at_once() {
                &connection.batch[..]
            } else {
                let place = connection.batch.len() - connection.awaited;
                &connection.batch[place..=place]
            };
            connection.awaited -= 1;
            connection.has_error = false;
            settle(answered, is_refused, &mut self.source, &mut self.sent);
        }
        if done < bytes.len() {
            connection.input = bytes[done..].to_vec();
        } else {
            // Keeps its memory.
            held.clear();
            connection.input = held;
        }
        Ok(connection.awaited == 0)
    }
}

/// Counts the answer to some additions.
fn settle(operations: &[Operation], is_refused: bool, source: &mut Source, sent: &mut SentCounts) {
    if is_refused {
        sent.refused += operations.len() as u64;
        source.refused.extend_from_slice(operations);
        return;
    }
    for operation in operations {
        if operation.again {
            sent.again += 1;
        } else {
            sent.distinct += 1;
            if source.resends && sent.distinct.is_multiple_of(RESENT) {
                source.again.push_back(Operation { again: true, ..*operation });
            }
        }
    }
}

/// The printable characters of a refusal.
fn printable(bytes: &[u8]) -> String {
    let text: String =
        bytes.iter().map(|&byte| if byte.is_ascii_graphic() { char::from(byte) } else { ' ' }).collect();
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// Processor time of this thread.
fn own_processor_seconds() -> f64 {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    time.tv_sec as f64 + time.tv_nsec as f64 / 1e9
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::resp::Resp;
    use std::net::TcpListener;

    /// A server for one connection that answers with these replies, in a cycle.
    fn serve(replies: &'static [&'static str], request_len: usize) -> SocketAddr {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        std::thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            stream.set_nodelay(true).unwrap();
            let (mut bytes, mut next, mut buffer) = (0, 0, [0; 4096]);
            while let Ok(len @ 1..) = stream.read(&mut buffer) {
                bytes += len;
                while bytes >= request_len {
                    bytes -= request_len;
                    // In two parts, so that incomplete replies arrive.
                    let (head, tail) = replies[next % replies.len()].split_at(1);
                    next += 1;
                    if stream
                        .write_all(head.as_bytes())
                        .and_then(|()| stream.write_all(tail.as_bytes()))
                        .is_err()
                    {
                        return;
                    }
                }
            }
        });
        address
    }

    #[test]
    fn every_addition_counts_once_and_a_twentieth_is_sent_again() {
        let resp = Resp::new(&["PING", crate::resp::ID]);
        let address = serve(&["*2\r\n:1\r\n$5\r\nadded\r\n"], resp.request_len());
        let mut pool = ConnectionPool::open(address, Arc::new(resp), 1).unwrap();
        let round = pool.fill(&Workload::hot(), 10, 20_000).unwrap();
        let SentCounts { distinct, again, refused } = pool.sent;
        assert_eq!((distinct + again, refused), (round.answered, 0));
        let expected = distinct / RESENT - LAG as u64;
        assert!(again.abs_diff(expected) <= 10, "{again} sent again of {distinct}");
    }

    #[test]
    fn a_refused_addition_is_sent_again_and_counts_once() {
        let resp = Resp::new(&["PING", crate::resp::ID]);
        let address = serve(&[":1\r\n", ":1\r\n", "-BUSY wait\r\n"], resp.request_len());
        let mut pool = ConnectionPool::open(address, Arc::new(resp), 1).unwrap();
        pool.fill(&Workload::hot(), 4, 900).unwrap();
        let SentCounts { distinct, again, refused } = pool.sent;
        assert_eq!(pool.refusal.as_deref(), Some("-BUSY wait"));
        assert!(refused.abs_diff((distinct + again) / 2) <= 4, "{refused} of {distinct}");
        assert_eq!(pool.source.fresh, distinct + pool.source.refused.len() as u64);
    }

    #[test]
    fn a_constant_rate_is_kept() {
        let resp = Resp::new(&["PING", crate::resp::ID]);
        let address = serve(&[":1\r\n"], resp.request_len());
        let mut pool = ConnectionPool::open(address, Arc::new(resp), 1).unwrap();
        let round = pool.run_at_rate(&Workload::hot(), 1_000.0, Duration::from_millis(200)).unwrap();
        assert_eq!(round.answered, 200);
    }
}
