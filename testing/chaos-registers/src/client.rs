//! A client: appends to dense logs, claims registers of other logs, reads, trims and abandons requests.

use std::future::Future;
use std::pin::pin;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::RecvTimeoutError;
use std::sync::{Arc, mpsc};
use std::task::{Context, Poll, Wake, Waker};
use std::time::{Duration, Instant};

use bytes::Bytes;
use jeton_register::{Batch, Error, LogId, Registers, Slot, WritePermit, WriteResult};
use jeton_testkit::Rng;

use crate::history::{Event, Report};

/// Slots that a trim leaves.
const KEPT: u64 = 30;

/// The most registers of a read.
const READ_MAX: usize = 50;

/// What all clients share.
pub struct Shared {
    pub clock: AtomicU64,
    pub stop: AtomicBool,
    pub logs: Vec<LogId>,
    /// Requests without a result.
    pub unknown: AtomicU64,
    pub refused: AtomicU64,
}

impl Shared {
    fn now(&self) -> u64 {
        self.clock.fetch_add(1, Ordering::SeqCst)
    }
}

pub struct Client<'a, R> {
    pub number: usize,
    pub engine: &'a R,
    pub shared: &'a Shared,
    pub rng: Rng,
    pub events: Vec<Event>,
    /// The next slot of each log, as far as this client knows.
    pub next: Vec<u64>,
    pub written: u64,
}

impl<'a, R: Registers> Client<'a, R> {
    pub fn new(number: usize, engine: &'a R, shared: &'a Shared, seed: u64) -> Self {
        let rng = Rng::named(seed, &format!("client {number}"));
        let next = vec![1; shared.logs.len()];
        Self { number, engine, shared, rng, events: Vec::new(), next, written: 0 }
    }

    /// Works until the end.
    pub fn run(mut self) -> Vec<Event> {
        while !self.shared.stop.load(Ordering::Relaxed) {
            let place = self.rng.index(self.shared.logs.len());
            match self.rng.below(20) {
                0..12 => self.write(place),
                12..18 => self.read(place),
                18 => self.trim(place),
                _ => self.write_stale(place),
            }
        }
        self.events
    }

    fn record(&mut self, log: LogId, started: u64, report: Report) {
        let ended = self.shared.now();
        self.events.push(Event { client: self.number, log, started, ended, report });
    }

    fn failed(&self, error: &Error) {
        let count =
            if matches!(error, Error::Unknown(_)) { &self.shared.unknown } else { &self.shared.refused };
        count.fetch_add(1, Ordering::Relaxed);
        assert!(
            matches!(error, Error::Unknown(_) | Error::Unavailable(_) | Error::Busy(_)),
            "a request failed for good: {error}"
        );
    }

    /// Appends to a log: repeats the same bytes while the outcome is unknown, or abandons them.
    fn write(&mut self, place: usize) {
        let slot = self.next[place];
        self.write_at(place, slot);
    }

    /// Writes a slot that is probably taken or trimmed.
    fn write_stale(&mut self, place: usize) {
        let slot = 1 + self.rng.below(self.next[place]);
        self.write_at(place, slot);
    }

    fn write_at(&mut self, place: usize, slot: u64) {
        let log = self.shared.logs[place];
        self.written += 1;
        let value = Bytes::from(format!("client {} write {}", self.number, self.written));
        // Some clients give up at once and never learn the outcome: their writes are late.
        let is_abandoned = self.rng.percent(5);
        let deadline = Instant::now() + Duration::from_secs(20);
        let mut is_uncertain = false;
        loop {
            let started = self.shared.now();
            let mut batch = Batch::new();
            batch.push(log, Slot(slot), &value);
            let write = self.engine.write(batch, WritePermit::unlimited());
            let timeout = Duration::from_millis(if is_abandoned { self.rng.below(20) } else { 60_000 });
            let Some(result) = within(timeout, write) else {
                self.shared.unknown.fetch_add(1, Ordering::Relaxed);
                return;
            };
            match result.map(|mut written| written.remove(0)) {
                Ok(WriteResult::Fresh) => {
                    self.next[place] = self.next[place].max(slot + 1);
                    return self.record(log, started, Report::Fresh { slot: Slot(slot), value });
                }
                Ok(WriteResult::Taken(there)) => {
                    // Without an unknown outcome, the value is of another write.
                    let report = Report::Taken { slot: Slot(slot), value: there.clone() };
                    assert!(
                        is_uncertain || there != value,
                        "{log} slot {slot}: {value:?} was taken by itself"
                    );
                    self.next[place] = self.next[place].max(slot + 1);
                    return self.record(log, started, report);
                }
                Ok(WriteResult::Trimmed) => {
                    self.record(log, started, Report::Refused { slot: Slot(slot) });
                    return self.learn_end(place);
                }
                Ok(WriteResult::Gap) => {
                    self.record(log, started, Report::Gap { slot: Slot(slot) });
                    return self.learn_end(place);
                }
                Err(error) => {
                    self.failed(&error);
                    is_uncertain |= matches!(error, Error::Unknown(_));
                    if Instant::now() > deadline || self.shared.stop.load(Ordering::Relaxed) {
                        return;
                    }
                }
            }
        }
    }

    fn learn_end(&mut self, place: usize) {
        if let Ok(extent) = futures_executor::block_on(self.engine.extent(self.shared.logs[place])) {
            self.next[place] = extent.last.max(extent.trimmed).0 + 1;
        }
    }

    fn read(&mut self, place: usize) {
        let from = self.next[place].saturating_sub(self.rng.below(2 * KEPT)).max(1);
        self.read_from(self.shared.logs[place], Slot(from));
    }

    /// Reads and records. Returns what was read, or the trim point.
    fn read_from(&mut self, log: LogId, from: Slot) -> Option<Result<Vec<(Slot, Bytes)>, Slot>> {
        let started = self.shared.now();
        match futures_executor::block_on(self.engine.read(log, from, READ_MAX)) {
            Ok(registers) => {
                let is_complete = registers.len() < READ_MAX;
                let copy = registers.clone();
                self.record(log, started, Report::Read { from, registers, is_complete });
                Some(Ok(copy))
            }
            Err(Error::Trimmed { through, .. }) => {
                self.record(log, started, Report::ReadTrimmed { from, through });
                Some(Err(through))
            }
            Err(error) => {
                self.failed(&error);
                None
            }
        }
    }

    fn trim(&mut self, place: usize) {
        let (log, through) = (self.shared.logs[place], Slot(self.next[place].saturating_sub(KEPT)));
        if through == Slot::ZERO {
            return;
        }
        let started = self.shared.now();
        match futures_executor::block_on(self.engine.trim(log, through)) {
            Ok(()) => self.record(log, started, Report::Trimmed { through }),
            Err(error) => self.failed(&error),
        }
    }

    /// Reads all logs to their ends, with retries: what all clients see at the end.
    pub fn read_all(mut self, deadline: Duration) -> anyhow::Result<Vec<Event>> {
        let started = Instant::now();
        for log in self.shared.logs.clone() {
            let mut from = Slot(1);
            loop {
                match self.read_from(log, from) {
                    Some(Ok(registers)) => match registers.last() {
                        Some((last, _)) => from = last.next(),
                        None => break,
                    },
                    Some(Err(through)) => from = through.next(),
                    None => anyhow::ensure!(
                        started.elapsed() < deadline,
                        "{log} cannot be read after {deadline:?}"
                    ),
                }
            }
        }
        Ok(self.events)
    }
}

struct Signal(mpsc::SyncSender<()>);

impl Wake for Signal {
    fn wake(self: Arc<Self>) {
        let _is_signalled = self.0.try_send(());
    }
}

/// Runs a future for some time, then drops it.
fn within<F: Future>(timeout: Duration, future: F) -> Option<F::Output> {
    let (signal, woken) = mpsc::sync_channel(1);
    let waker = Waker::from(Arc::new(Signal(signal)));
    let mut future = pin!(future);
    let deadline = Instant::now() + timeout;
    loop {
        if let Poll::Ready(output) = future.as_mut().poll(&mut Context::from_waker(&waker)) {
            return Some(output);
        }
        let left = deadline.saturating_duration_since(Instant::now());
        if woken.recv_timeout(left) == Err(RecvTimeoutError::Timeout) {
            return None;
        }
    }
}
