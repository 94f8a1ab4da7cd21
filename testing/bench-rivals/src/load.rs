//! The load: one thread, one loop over all connections of a contender, the same for every contender.
//!
//! A connection sends a request of one addition or of many, waits for all its answers, and sends the next. Each addition has an
//! id of its own; every twentieth is sent again later under the same id. What was refused is sent again too, as a client would.

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
use crate::protocol::{Answer, Dialect};
use crate::workload::Workload;

/// One addition in `n` is sent twice.
const RESENT: u64 = 20;

/// So many additions that are to be sent again wait, so that a retry comes some thousand additions after the first.
const LAG: usize = 200;

/// A server that answers nothing for so long is given up.
const SILENCE: Duration = Duration::from_secs(20);

/// How long the loop sleeps when nothing is due yet, under an even pace.
const PACE: Duration = Duration::from_micros(50);

/// What has been sent and answered, over all rounds.
#[derive(Default, Clone, Copy)]
pub struct SentCounts {
    /// Additions that were answered for the first time: what the counters must hold.
    pub distinct: u64,
    /// Additions that were answered again.
    pub again: u64,
    /// Requests for an addition that were refused.
    pub refused: u64,
}

/// What one round measured.
#[derive(Clone, Copy)]
pub struct Round {
    pub answered: u64,
    pub seconds: f64,
    /// Processor time of the loop itself.
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
    /// Answers that are still to come.
    awaited: usize,
    /// A piece of the current answer said that it will be a refusal.
    flawed: bool,
    since: Instant,
    is_watched_for_room: bool,
}

/// The additions that are made next.
struct Source {
    ids: Ids,
    position: usize,
    fresh: u64,
    again: VecDeque<Operation>,
    refused: Vec<Operation>,
    /// A point in time by both clocks: the id needs the date, and asking for the date each time would cost more.
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

/// The connections to one contender, with the books on what was sent.
pub struct ConnectionPool {
    dialect: Arc<dyn Dialect>,
    connections: Vec<Connection>,
    epoll: OwnedFd,
    source: Source,
    pub ledger: SentCounts,
    /// The words of the first refusal.
    pub refusal: Option<String>,
    buffer: Vec<u8>,
    latencies: Vec<u32>,
}

impl ConnectionPool {
    /// Opens the connections.
    pub fn open(address: SocketAddr, dialect: Arc<dyn Dialect>, connections: usize) -> Result<Self> {
        let epoll = epoll::create(CreateFlags::CLOEXEC)?;
        let now = SystemTime::now().duration_since(UNIX_EPOCH)?.as_millis() as u64;
        let mut fleet = Self {
            dialect,
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
            ledger: SentCounts::default(),
            refusal: None,
            buffer: vec![0; 1 << 16],
            latencies: Vec::new(),
        };
        for number in 0..connections {
            let mut stream = TcpStream::connect_timeout(&address, Duration::from_secs(5))
                .with_context(|| format!("connection {number}"))?;
            stream.set_nodelay(true)?;
            stream.set_read_timeout(Some(SILENCE))?;
            fleet.dialect.greet(&mut stream)?;
            stream.set_nonblocking(true)?;
            epoll::add(&fleet.epoll, &stream, EventData::new_u64(number as u64), EventFlags::IN)?;
            fleet.connections.push(Connection {
                stream,
                out: BytesMut::new(),
                written: 0,
                input: Vec::new(),
                batch: Vec::new(),
                awaited: 0,
                flawed: false,
                since: Instant::now(),
                is_watched_for_room: false,
            });
        }
        Ok(fleet)
    }

    /// From now on every addition is sent once.
    pub fn stop_retries(&mut self) {
        self.source.resends = false;
    }

    /// Loads as hard as the connections can, each with requests of `n` additions.
    pub fn run(&mut self, workload: &Workload, pipeline: usize, duration: Duration) -> Result<Round> {
        self.drive(workload, pipeline, |elapsed, _| elapsed < duration)
    }

    /// Sends `n` additions as fast as possible.
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
        let (before, own) = (self.ledger, own_processor_seconds());
        let answered = |ledger: &SentCounts| ledger.distinct + ledger.again - before.distinct - before.again;
        self.latencies.clear();
        for at in 0..self.connections.len() {
            self.send(at, workload, pipeline, begin)?;
        }
        let mut busy = self.connections.len();
        while busy > 0 {
            for (at, has_room) in self.wait(SILENCE)? {
                if has_room {
                    self.flush(at)?;
                }
                if !self.receive(at)? {
                    continue;
                }
                let now = Instant::now();
                self.latencies.push((now - self.connections[at].since).as_micros() as u32);
                if goes_on(now - begin, answered(&self.ledger)) {
                    self.send(at, workload, pipeline, now)?;
                } else {
                    busy -= 1;
                }
            }
            if self.ledger.refused - before.refused > 10_000 + answered(&self.ledger) {
                bail!("most is refused: {}", self.refusal.as_deref().unwrap_or("?"));
            }
        }
        Ok(self.round(begin, answered(&self.ledger), own))
    }

    /// Sends additions one by one at an even pace, on whatever connection is free. A latency begins when an addition is due, so
    /// that those which find no free connection count in full.
    pub fn pace(&mut self, workload: &Workload, per_second: f64, duration: Duration) -> Result<Round> {
        let begin = Instant::now();
        let (before, own) = (self.ledger, own_processor_seconds());
        self.latencies.clear();
        let total = (per_second * duration.as_secs_f64()) as u64;
        let mut free: Vec<usize> = (0..self.connections.len()).collect();
        let (mut sent, mut heard) = (0, Instant::now());
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
                if heard.elapsed() > SILENCE {
                    bail!("no answer within {SILENCE:?}");
                }
                std::thread::sleep(PACE);
                continue;
            }
            heard = Instant::now();
            for (at, has_room) in ready {
                if has_room {
                    self.flush(at)?;
                }
                if self.receive(at)? {
                    self.latencies.push(self.connections[at].since.elapsed().as_micros() as u32);
                    free.push(at);
                }
            }
        }
        let answered = self.ledger.distinct + self.ledger.again - before.distinct - before.again;
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

    /// The connections that have something, and whether they have room again; an error if nobody has for too long.
    fn wait(&mut self, timeout: Duration) -> Result<Vec<(usize, bool)>> {
        let ready = self.poll(timeout)?;
        if ready.is_empty() {
            bail!("no answer within {timeout:?}");
        }
        Ok(ready)
    }

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
        self.dialect.encode(&connection.batch, &mut connection.out)?;
        connection.awaited = if self.dialect.answers_at_once() { 1 } else { additions };
        connection.flawed = false;
        connection.since = since;
        self.flush(at)
    }

    /// Writes as much as there is room for, and watches for room if there is more.
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
        if is_needed != connection.is_watched_for_room {
            connection.is_watched_for_room = is_needed;
            let flags = if is_needed { EventFlags::IN | EventFlags::OUT } else { EventFlags::IN };
            epoll::modify(&self.epoll, &connection.stream, EventData::new_u64(at as u64), flags)?;
        }
        Ok(())
    }

    /// Takes in what has arrived; whether that was the last answer of the request.
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
        // Most often nothing is left from before, and the bytes are read where they are.
        let mut held = std::mem::take(&mut connection.input);
        let bytes = if held.is_empty() {
            &self.buffer[..len]
        } else {
            held.extend_from_slice(&self.buffer[..len]);
            &held
        };
        let mut done = 0;
        while let Some((len, answer)) = self.dialect.answer(&bytes[done..])? {
            if matches!(answer, Answer::Flaw | Answer::Refused) && self.refusal.is_none() {
                self.refusal = Some(printable(&bytes[done..done + len]));
            }
            done += len;
            let is_refused = match answer {
                Answer::Piece => continue,
                Answer::Flaw => {
                    connection.flawed = true;
                    continue;
                }
                Answer::Done => connection.flawed,
                Answer::Refused => true,
            };
            if connection.awaited == 0 {
                bail!("an answer that nobody asked for");
            }
            let answered = if self.dialect.answers_at_once() {
                &connection.batch[..]
            } else {
                let place = connection.batch.len() - connection.awaited;
                &connection.batch[place..=place]
            };
            connection.awaited -= 1;
            connection.flawed = false;
            settle(answered, is_refused, &mut self.source, &mut self.ledger);
        }
        if done < bytes.len() {
            connection.input = bytes[done..].to_vec();
        } else {
            // Its memory is used again.
            held.clear();
            connection.input = held;
        }
        Ok(connection.awaited == 0)
    }
}

/// Books the answer to some additions.
fn settle(operations: &[Operation], is_refused: bool, source: &mut Source, ledger: &mut SentCounts) {
    if is_refused {
        ledger.refused += operations.len() as u64;
        source.refused.extend_from_slice(operations);
        return;
    }
    for operation in operations {
        if operation.again {
            ledger.again += 1;
        } else {
            ledger.distinct += 1;
            if source.resends && ledger.distinct.is_multiple_of(RESENT) {
                source.again.push_back(Operation { again: true, ..*operation });
            }
        }
    }
}

/// Bytes as words: a refusal is text with a few others between.
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

    /// A server for one connection that answers every request by the next of some replies, again and again.
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
                    // In two pieces, so that replies arrive torn.
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
    fn every_addition_is_booked_once_and_one_in_twenty_is_sent_again() {
        let resp = Resp::new(&["PING", crate::resp::ID]);
        let address = serve(&["*2\r\n:1\r\n$5\r\nadded\r\n"], resp.request_len());
        let mut fleet = ConnectionPool::open(address, Arc::new(resp), 1).unwrap();
        let round = fleet.fill(&Workload::hot(), 10, 20_000).unwrap();
        let SentCounts { distinct, again, refused } = fleet.ledger;
        assert_eq!((distinct + again, refused), (round.answered, 0));
        let expected = distinct / RESENT - LAG as u64;
        assert!(again.abs_diff(expected) <= 10, "{again} sent again of {distinct}");
    }

    #[test]
    fn what_is_refused_is_sent_again_and_counts_once() {
        let resp = Resp::new(&["PING", crate::resp::ID]);
        let address = serve(&[":1\r\n", ":1\r\n", "-BUSY wait\r\n"], resp.request_len());
        let mut fleet = ConnectionPool::open(address, Arc::new(resp), 1).unwrap();
        fleet.fill(&Workload::hot(), 4, 900).unwrap();
        let SentCounts { distinct, again, refused } = fleet.ledger;
        assert_eq!(fleet.refusal.as_deref(), Some("-BUSY wait"));
        assert!(refused.abs_diff((distinct + again) / 2) <= 4, "{refused} of {distinct}");
        assert_eq!(fleet.source.fresh, distinct + fleet.source.refused.len() as u64);
    }

    #[test]
    fn an_even_pace_makes_as_many_as_it_should() {
        let resp = Resp::new(&["PING", crate::resp::ID]);
        let address = serve(&[":1\r\n"], resp.request_len());
        let mut fleet = ConnectionPool::open(address, Arc::new(resp), 1).unwrap();
        let round = fleet.pace(&Workload::hot(), 1_000.0, Duration::from_millis(200)).unwrap();
        assert_eq!(round.answered, 200);
    }
}
