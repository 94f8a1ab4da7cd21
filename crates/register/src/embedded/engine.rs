//! The embedded engine at work: a journal, a thread that flushes it, a thread that runs its errands, and one for rows.
//!
//! | thread | what it does |
//! |---|---|
//! | `jeton-log` | takes what was staged, persists it, settles it, wakes who waited; no timer: a flush holds what arrived during the last one |
//! | `jeton-keeper` | makes the next segment, puts trimmed ones away, looks through the oldest one for what is to be carried on |
//! | `jeton-rows` | stores and fetches rows, which may be large: the log waits for none of them |
//!
//! What must hold: the journal is never held while the disk is written to. A caller's thread reads from the disk, but only
//! these threads write and sync.

use std::future::Future;
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::thread::JoinHandle;
use std::time::Duration;

use bytes::Bytes;

use super::journal::Journal;
use super::location::Sequence;
use super::open_error::{Fatal, OpenError};
use super::options::Options;
use super::row_queue::RowQueue;
use super::waiters::Waiters;
use crate::disk::Disk;
use crate::{
    Batch, Extent, Failure, Limits, Log, Permit, Registers, Row, Slot, Space, Written, start_thread,
};

/// How long the log thread waits before it tries again to write what found no room, if nobody asks for room before.
const STALL_PAUSE: Duration = Duration::from_millis(200);

/// Called with the reason when the disk failed in a way after which nothing can be promised.
pub type OnFatal = Box<dyn Fn(&str) + Send + Sync>;

/// The embedded engine: registers and rows in a directory that one process uses alone.
pub struct Embedded<D: Disk> {
    shared: Arc<Shared<D>>,
    limits: Limits,
    threads: Mutex<Vec<JoinHandle<()>>>,
}

struct Shared<D: Disk> {
    state: Mutex<State<D>>,
    /// The log thread waits here.
    log: Condvar,
    /// The keeper waits here.
    keeper: Condvar,
    rows: RowQueue,
    disk: Arc<D>,
    waiters: Arc<Waiters>,
    on_fatal: OnFatal,
}

struct State<D: Disk> {
    journal: Journal<D>,
    log_sleeps: bool,
    keeper_sleeps: bool,
    /// Nobody waits for room any more.
    winding_up: bool,
    closing: bool,
    log_ended: bool,
}

impl<D: Disk> Embedded<D> {
    /// Opens the store on this disk, or makes one. If the disk fails for good while the store is open, the process ends.
    pub fn open(disk: D, options: Options) -> Result<Self, OpenError> {
        Self::open_with(disk, options, Box::new(end_the_process))
    }

    /// As [`Embedded::open`], with something else than the end of the process when the disk fails for good. After it the store
    /// refuses everything, and the outcome of what was under way is unknown.
    pub fn open_with(disk: D, options: Options, on_fatal: OnFatal) -> Result<Self, OpenError> {
        let limits = options.limits();
        let journal = Journal::open(disk, options)?;
        let shared = Arc::new(Shared {
            log: Condvar::new(),
            keeper: Condvar::new(),
            rows: RowQueue::default(),
            disk: Arc::clone(&journal.disk),
            waiters: Arc::new(Waiters::new(journal.durable())),
            on_fatal,
            state: Mutex::new(State {
                journal,
                log_sleeps: false,
                keeper_sleeps: false,
                winding_up: false,
                closing: false,
                log_ended: false,
            }),
        });
        let engine = Self { shared: Arc::clone(&shared), limits, threads: Mutex::default() };
        let (keeper, rows) = (Arc::clone(&shared), Arc::clone(&shared));
        engine.start("jeton-log", move || shared.flush())?;
        engine.start("jeton-keeper", move || keeper.keep())?;
        engine.start("jeton-rows", move || rows.keep_rows())?;
        Ok(engine)
    }

    fn start(&self, name: &str, run: impl FnOnce() + Send + 'static) -> Result<(), OpenError> {
        let thread =
            start_thread(name, run).map_err(OpenError::io(format!("cannot start the thread {name}")))?;
        self.threads.lock().expect("starting threads does not panic").push(thread);
        Ok(())
    }

    /// How far several logs reach, all at one instant.
    pub fn extents(&self, logs: impl IntoIterator<Item = Log>) -> Result<Vec<Extent>, Failure> {
        self.shared.with(|state| logs.into_iter().map(|log| state.journal.extent(log)).collect())
    }

    /// From now on nothing waits for room. What the disk does not take is tried once more; then it is given up, with everything that
    /// came after it: those who wait are told that the outcome is unknown, and whatever is asked is refused. As long as there is
    /// room, all goes on as before. For whoever must hear what became of everything under way before it [closes](Self::close).
    pub fn wind_up(&self) {
        self.end(false);
    }

    /// Makes everything durable that was asked for and finds room; the outcome of the rest is unknown. What is asked afterwards is
    /// refused. Dropping the engine does the same, and lets the directory go.
    pub fn close(&self) {
        self.end(true);
        self.shared.rows.close();
        // Held until all have ended: whoever closes at the same time must not come back before.
        let mut threads = self.threads.lock().expect("joining threads does not panic");
        for thread in threads.drain(..) {
            thread.join().expect("a thread that panics ends the process");
        }
        self.shared.waiters.end(Failure::Unknown("the store closed before it was durable".into()));
    }

    fn end(&self, closing: bool) {
        let mut state = self.shared.lock();
        state.winding_up = true;
        state.closing |= closing;
        state.journal.try_again();
        self.shared.log.notify_all();
        self.shared.keeper.notify_all();
    }
}

impl<D: Disk> Drop for Embedded<D> {
    fn drop(&mut self) {
        self.close();
    }
}

fn end_the_process(why: &str) {
    eprintln!("jeton: the disk failed, and nothing can be promised any more: {why}");
    eprintln!("jeton: ending now; the next start finds everything that was acknowledged");
    std::process::abort();
}

impl<D: Disk> Shared<D> {
    /// A thread that panicked in here may have left the index and the log at odds: nobody may go on with it.
    fn lock(&self) -> MutexGuard<'_, State<D>> {
        self.state.lock().expect("a thread panicked while it held the journal")
    }

    /// Refuses after the end, and wakes the threads that have something to do.
    fn with<T>(&self, act: impl FnOnce(&mut State<D>) -> Result<T, Failure>) -> Result<T, Failure> {
        let mut state = self.lock();
        if state.closing {
            return Err(Failure::Unavailable("the store is closed".into()));
        }
        let result = act(&mut state);
        self.wake(&mut state);
        result
    }

    fn wake(&self, state: &mut State<D>) {
        if state.log_sleeps && state.journal.has_staged() {
            state.log_sleeps = false;
            self.log.notify_one();
        }
        if state.keeper_sleeps && state.journal.wants_errand() {
            state.keeper_sleeps = false;
            self.keeper.notify_one();
        }
    }

    fn die(&self, fatal: &Fatal) {
        (self.on_fatal)(&fatal.0);
        self.waiters.end(Failure::Unknown(fatal.0.clone()));
    }

    /// The log thread.
    fn flush(&self) {
        let mut state = self.lock();
        loop {
            let Some(mut staged) = state.journal.take_staged() else {
                if state.winding_up && state.journal.is_stalled() {
                    let unknown = state.journal.give_up();
                    drop(state);
                    self.waiters.end(unknown);
                    state = self.lock();
                    break;
                }
                if state.closing {
                    break;
                }
                state.log_sleeps = true;
                state = if state.journal.is_stalled() {
                    let waited = self.log.wait_timeout(state, STALL_PAUSE);
                    let (mut state, waited) = waited.expect("a thread panicked while it held the journal");
                    if waited.timed_out() {
                        state.journal.try_again();
                    }
                    state
                } else {
                    self.log.wait(state).expect("a thread panicked while it held the journal")
                };
                state.log_sleeps = false;
                continue;
            };
            drop(state);
            staged.persist();
            state = self.lock();
            let settled = state.journal.settle(staged);
            self.wake(&mut state);
            drop(state);
            match settled {
                Ok(durable) => self.waiters.settle(durable),
                Err(fatal) => self.die(&fatal),
            }
            state = self.lock();
        }
        state.log_ended = true;
        self.keeper.notify_all();
    }

    /// The keeper.
    fn keep(&self) {
        let mut state = self.lock();
        loop {
            if let Some(mut errand) = state.journal.take_errand() {
                drop(state);
                errand.run();
                state = self.lock();
                if let Err(fatal) = state.journal.end_errand(errand) {
                    drop(state);
                    self.die(&fatal);
                    state = self.lock();
                }
                self.wake(&mut state);
            } else if state.closing && state.log_ended {
                break;
            } else {
                state.keeper_sleeps = true;
                state = self.keeper.wait(state).expect("a thread panicked while it held the journal");
                state.keeper_sleeps = false;
            }
        }
    }

    /// The thread of the rows.
    fn keep_rows(&self) {
        while let Some(job) = self.rows.next() {
            let dead = self.lock().journal.fatal().cloned();
            if let Err(fatal) = job.run(&*self.disk, dead) {
                let fatal = self.lock().journal.die(fatal.0);
                self.die(&fatal);
            }
        }
    }

    fn wait(
        &self,
        staged: Result<Sequence, Failure>,
    ) -> impl Future<Output = Result<(), Failure>> + Send + use<D> {
        let waiters = Arc::clone(&self.waiters);
        async move { waiters.wait(staged?).await }
    }
}

impl<D: Disk> Registers for Embedded<D> {
    fn limits(&self) -> Limits {
        self.limits
    }

    fn admit(&self, writes: usize, value_bytes: usize) -> Result<Permit, Failure> {
        self.shared.with(|state| state.journal.admit(writes, value_bytes))
    }

    fn write(
        &self,
        batch: Batch,
        permit: Permit,
    ) -> impl Future<Output = Result<Vec<Written>, Failure>> + Send + 'static {
        let staged = self.shared.with(|state| state.journal.stage(&batch, permit));
        let waiters = Arc::clone(&self.shared.waiters);
        async move {
            let (written, sequence) = staged?;
            waiters.wait(sequence).await?;
            Ok(written)
        }
    }

    /// Reads on the caller's thread: from memory nearly always, because the system keeps what was written of late.
    fn read(
        &self,
        log: Log,
        from: Slot,
        limit: usize,
    ) -> impl Future<Output = Result<Vec<(Slot, Bytes)>, Failure>> + Send {
        let plan = self.shared.with(|state| state.journal.read(log, from, limit));
        async move { plan?.run() }
    }

    fn extent(&self, log: Log) -> impl Future<Output = Result<Extent, Failure>> + Send {
        std::future::ready(self.shared.with(|state| state.journal.extent(log)))
    }

    fn trim(&self, log: Log, through: Slot) -> impl Future<Output = Result<(), Failure>> + Send {
        let staged = self.shared.with(|state| state.journal.trim(log, through));
        self.shared.wait(staged)
    }

    fn retire(&self, space: Space, below: u128) -> impl Future<Output = Result<(), Failure>> + Send {
        let staged = self.shared.with(|state| state.journal.retire(space, below));
        self.shared.wait(staged)
    }

    fn put_row(&self, name: &str, row: Row) -> impl Future<Output = Result<bool, Failure>> + Send {
        let reply = self.shared.rows.put(name, row);
        async move { reply?.await }
    }

    fn get_row(&self, name: &str) -> impl Future<Output = Result<Option<Row>, Failure>> + Send {
        let reply = self.shared.rows.get(name);
        async move { reply?.await }
    }
}
