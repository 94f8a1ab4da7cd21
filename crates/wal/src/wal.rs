//! A journal and the threads that drive it.
//!
//! | thread | task |
//! |---|---|
//! | `jeton-log` | group commit: flushes a frame, then wakes the callers; a frame holds all appends since the last one |
//! | `jeton-segments` | creates the next segment and removes released ones |
//!
//! Invariant: no disk write happens while the journal is locked. Blobs are read and written on the thread of
//! the caller.

use std::sync::atomic::AtomicUsize;
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::thread::JoinHandle;
use std::time::Duration;

use crate::blobs::{self, Blob, BlobError};
use crate::disk::Disk;
use crate::durability_waiters::{DurabilityWaiters, DurableAt};
use crate::error::Error;
use crate::journal::Journal;
use crate::location::FrameNumber;
use crate::open_error::{Fatal, OpenError};
use crate::options::{Limits, Options, cost};
use crate::reader::Reader;
use crate::reservation::Reservation;
use crate::{Batch, Extent, LogId, Slot, abort_process, spawn_aborting};

/// How long the log thread waits before it retries a frame that could not be written for lack of space.
const RETRY_INTERVAL: Duration = Duration::from_millis(200);

/// Called with the reason when the disk failed and it is unknown what is durable.
pub type OnFatal = Box<dyn Fn(&str) + Send + Sync>;

/// A write-ahead log in a directory that one process uses alone.
pub struct Wal<D: Disk> {
    shared: Arc<Shared<D>>,
    limits: Limits,
    /// Bytes reserved and not yet appended.
    reserved: Arc<AtomicUsize>,
    threads: Mutex<Vec<JoinHandle<()>>>,
    /// Held while a blob is replaced: its version is compared first.
    blobs: Mutex<()>,
}

struct Shared<D: Disk> {
    state: Mutex<State<D>>,
    /// The log thread waits here.
    log: Condvar,
    /// The segment thread waits here.
    segments: Condvar,
    disk: Arc<D>,
    waiters: Arc<DurabilityWaiters>,
    on_fatal: OnFatal,
}

struct State<D: Disk> {
    journal: Journal<D>,
    log_sleeps: bool,
    segments_sleep: bool,
    /// A frame that finds no space is retried once and then dropped.
    impatient: bool,
    closing: bool,
    log_ended: bool,
}

impl<D: Disk> Wal<D> {
    /// Opens the wal on this disk, or creates one. If the disk fails and it is unknown what is durable, the
    /// process aborts.
    pub fn open(disk: D, options: Options) -> Result<Self, OpenError> {
        Self::open_with(disk, options, Box::new(abort))
    }

    /// As [`Wal::open`], but calls `on_fatal` instead of aborting. After that the wal refuses everything, and
    /// the outcome of appends in flight is unknown.
    pub fn open_with(disk: D, options: Options, on_fatal: OnFatal) -> Result<Self, OpenError> {
        let limits = options.limits();
        let journal = Journal::open(disk, options)?;
        let reserved = Arc::clone(&journal.reserved);
        let shared = Arc::new(Shared {
            log: Condvar::new(),
            segments: Condvar::new(),
            disk: Arc::clone(&journal.disk),
            waiters: Arc::new(DurabilityWaiters::new(journal.durable())),
            on_fatal,
            state: Mutex::new(State {
                journal,
                log_sleeps: false,
                segments_sleep: false,
                impatient: false,
                closing: false,
                log_ended: false,
            }),
        });
        let wal = Self {
            shared: Arc::clone(&shared),
            limits,
            reserved,
            threads: Mutex::default(),
            blobs: Mutex::default(),
        };
        let segments = Arc::clone(&shared);
        wal.start("jeton-log", move || shared.run_log())?;
        wal.start("jeton-segments", move || segments.run_segments())?;
        Ok(wal)
    }

    fn start(&self, name: &str, run: impl FnOnce() + Send + 'static) -> Result<(), OpenError> {
        let thread =
            spawn_aborting(name, run).map_err(OpenError::io(format!("cannot start the thread {name}")))?;
        self.threads.lock().expect("starting threads does not panic").push(thread);
        Ok(())
    }

    /// How large entries and batches may be.
    pub fn limits(&self) -> Limits {
        self.limits
    }

    /// Reserves space for a batch of `entries` entries with `entry_bytes` bytes together, so that
    /// [`Wal::append`] is not refused for lack of space.
    pub fn reserve(&self, entries: usize, entry_bytes: usize) -> Result<Reservation, Error> {
        self.shared.with(|state| state.journal.reserve(entries, entry_bytes))
    }

    /// As [`Wal::reserve`], from the headroom, of which `kept` bytes remain free. For entries that make a
    /// trim possible.
    pub fn reserve_headroom(
        &self,
        entries: usize,
        entry_bytes: usize,
        kept: usize,
    ) -> Result<Reservation, Error> {
        self.shared.with(|state| state.journal.reserve_headroom(entries, entry_bytes, kept))
    }

    /// Whether an append of such a batch with this reservation is not refused for lack of space.
    pub fn covers(&self, reservation: &Reservation, entries: usize, entry_bytes: usize) -> bool {
        reservation.covers(cost(entries, entry_bytes), &self.reserved)
    }

    /// Appends a batch. Batches become durable in the order of the calls.
    pub fn append(&self, batch: &Batch, reservation: Reservation) -> Result<DurableAt, Error> {
        let frame = self.shared.with(|state| state.journal.append(batch, reservation))?;
        Ok(self.shared.waiters.wait(frame))
    }

    /// Resolves when everything appended before this call is durable.
    pub fn durable(&self) -> Result<DurableAt, Error> {
        let frame = self.shared.with(|state| Ok(state.journal.last_frame()))?;
        Ok(self.shared.waiters.wait(frame))
    }

    /// The durable entries at this instant, and the extents of these logs at the same instant.
    pub fn snapshot(
        &self,
        logs: impl IntoIterator<Item = LogId>,
    ) -> Result<(Reader<D::File>, Vec<Extent>), Error> {
        self.shared.with(|state| {
            let extents = logs.into_iter().map(|log| state.journal.extent(log));
            Ok((state.journal.reader()?, extents.collect::<Result<_, _>>()?))
        })
    }

    /// The durable range of a log.
    pub fn extent(&self, log: LogId) -> Result<Extent, Error> {
        self.shared.with(|state| state.journal.extent(log))
    }

    /// Where the segments in use start and where the last frame ends, in bytes since the wal was created.
    pub fn positions(&self) -> std::ops::Range<u64> {
        self.shared.lock().journal.positions()
    }

    /// Trims logs, each up to and including a slot. On an error some may be trimmed; a retry is harmless.
    pub fn trim(&self, trims: &[(LogId, Slot)]) -> Result<DurableAt, Error> {
        let frame = self.shared.with(|state| {
            trims.iter().try_fold(FrameNumber::ZERO, |frame, &(log, through)| {
                state.journal.trim(log, through).map(|its| its.max(frame))
            })
        })?;
        Ok(self.shared.waiters.wait(frame))
    }

    /// Stores a blob, durably and atomically, unless it has a higher version. Returns whether it was stored.
    /// Blocks.
    pub fn put_blob(&self, name: &str, blob: &Blob) -> Result<bool, Error> {
        let _alone = self.blobs.lock().expect("a panic while a blob is stored ends the process");
        self.shared.check()?;
        match blobs::put(&*self.shared.disk, name, blob) {
            Ok(stored) => Ok(stored),
            Err(BlobError::Refused(error)) => Err(error),
            Err(BlobError::Fatal(fatal)) => {
                let fatal = self.shared.lock().journal.die(fatal.0);
                self.shared.die(&fatal);
                Err(Error::Unknown(fatal.0))
            }
        }
    }

    pub fn get_blob(&self, name: &str) -> Result<Option<Blob>, Error> {
        self.shared.check()?;
        blobs::get(&*self.shared.disk, name)
    }

    /// The names of all blobs, sorted. Blocks.
    pub fn list_blobs(&self) -> Result<Vec<String>, Error> {
        self.shared.check()?;
        blobs::list(&*self.shared.disk).map_err(|error| Error::Unavailable(format!("the blobs: {error}")))
    }

    /// Removes blobs, durably. Names without a blob are skipped. Blocks.
    pub fn remove_blobs(&self, names: &[String]) -> Result<(), Error> {
        let _alone = self.blobs.lock().expect("a panic while a blob is stored ends the process");
        self.shared.check()?;
        blobs::remove(&*self.shared.disk, names)
    }

    /// From now on nothing waits for disk space. A frame that finds none is retried once; then it and
    /// everything after it are dropped, the callers get [`Error::Unknown`], and further requests are refused.
    /// As long as there is space, nothing changes. An owner that needs the outcome of all appends in flight
    /// calls this before [`Wal::close`].
    pub fn stop_waiting_for_space(&self) {
        self.end(false);
    }

    /// Makes all appends durable for which there is space; the outcome of the others is unknown. Further
    /// requests are refused. Dropping the wal does the same, and releases the directory.
    pub fn close(&self) {
        self.end(true);
        // Locked until all have ended: a second caller must not return before.
        let mut threads = self.threads.lock().expect("joining threads does not panic");
        for thread in threads.drain(..) {
            thread.join().expect("a thread that panics aborts the process");
        }
        self.shared.waiters.fail(Error::Unknown("the log closed before it was durable".into()));
    }

    fn end(&self, closing: bool) {
        let mut state = self.shared.lock();
        state.impatient = true;
        state.closing |= closing;
        state.journal.retry_write();
        self.shared.log.notify_all();
        self.shared.segments.notify_all();
    }
}

impl<D: Disk> Drop for Wal<D> {
    fn drop(&mut self) {
        self.close();
    }
}

fn abort(why: &str) {
    abort_process(&format!("the disk failed, and it is unknown what is durable: {why}"));
}

impl<D: Disk> Shared<D> {
    /// After a panic under the lock, memory and log may differ: no thread may continue.
    fn lock(&self) -> MutexGuard<'_, State<D>> {
        self.state.lock().expect("no thread panicked while it held the journal")
    }

    /// Runs `act` unless the wal is closed, and wakes the threads that have work.
    fn with<T>(&self, act: impl FnOnce(&mut State<D>) -> Result<T, Error>) -> Result<T, Error> {
        let mut state = self.lock();
        if state.closing {
            return Err(closed());
        }
        let result = act(&mut state);
        self.wake(&mut state);
        result
    }

    /// Whether the wal is open and the disk has not failed.
    fn check(&self) -> Result<(), Error> {
        let state = self.lock();
        match state.journal.fatal() {
            Some(fatal) => Err(Error::Unavailable(fatal.0.clone())),
            None if state.closing => Err(closed()),
            None => Ok(()),
        }
    }

    fn wake(&self, state: &mut State<D>) {
        if state.log_sleeps && state.journal.has_flush() {
            state.log_sleeps = false;
            self.log.notify_one();
        }
        if state.segments_sleep && state.journal.has_task() {
            state.segments_sleep = false;
            self.segments.notify_one();
        }
    }

    fn die(&self, fatal: &Fatal) {
        (self.on_fatal)(&fatal.0);
        self.waiters.fail(Error::Unknown(fatal.0.clone()));
    }

    /// The log thread.
    fn run_log(&self) {
        let mut state = self.lock();
        loop {
            let Some(mut flush) = state.journal.take_flush() else {
                if state.impatient && state.journal.is_stalled() {
                    let unknown = state.journal.give_up();
                    drop(state);
                    self.waiters.fail(unknown);
                    state = self.lock();
                    break;
                }
                if state.closing {
                    break;
                }
                state = self.wait_for_flush(state);
                continue;
            };
            drop(state);
            flush.run();
            state = self.lock();
            let completed = state.journal.complete(flush);
            self.wake(&mut state);
            drop(state);
            match completed {
                Ok(durable) => self.waiters.wake_through(durable),
                Err(fatal) => self.die(&fatal),
            }
            state = self.lock();
        }
        state.log_ended = true;
        self.segments.notify_all();
    }

    fn wait_for_flush<'a>(&self, mut state: MutexGuard<'a, State<D>>) -> MutexGuard<'a, State<D>> {
        const UNPOISONED: &str = "no thread panicked while it held the journal";
        state.log_sleeps = true;
        let mut state = if state.journal.is_stalled() {
            let (mut state, waited) = self.log.wait_timeout(state, RETRY_INTERVAL).expect(UNPOISONED);
            if waited.timed_out() {
                state.journal.retry_write();
            }
            state
        } else {
            self.log.wait(state).expect(UNPOISONED)
        };
        state.log_sleeps = false;
        state
    }

    /// The segment thread.
    fn run_segments(&self) {
        let mut state = self.lock();
        loop {
            if let Some(mut task) = state.journal.take_task() {
                drop(state);
                task.run();
                state = self.lock();
                if let Err(fatal) = state.journal.complete_task(task) {
                    drop(state);
                    self.die(&fatal);
                    state = self.lock();
                }
                self.wake(&mut state);
            } else if state.closing && state.log_ended {
                break;
            } else {
                state.segments_sleep = true;
                state = self.segments.wait(state).expect("no thread panicked while it held the journal");
                state.segments_sleep = false;
            }
        }
    }
}

fn closed() -> Error {
    Error::Unavailable("the log is closed".into())
}
