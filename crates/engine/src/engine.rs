//! The engine: a store in a directory, its threads, and the way in.
//!
//! | thread | what it does |
//! |---|---|
//! | `jeton-shard-n` | owns partitions n, n + shards, ...: decides. With a runtime in the options, a task of that instead |
//! | `jeton-answers` | answers what has become durable, for the threads of shards |
//! | `jeton-log` | of the wal: group commit |
//! | `jeton-segments` | of the wal: creates the next segment, removes released ones |
//! | `jeton-store` | stores what shards hand out, and the filters; then the log is trimmed |
//! | `jeton-upkeep` | merges, and drops what has expired |

// Long file: the public API of the engine with its start and stop sequence.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc as std_mpsc;
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::thread::JoinHandle;

use arc_swap::ArcSwap;
use futures_executor::block_on;
use jeton_core::{
    Catalog, Cell, Column, IdStatus, OpId, Operation, PartitionId, Secret, Table, TableSettings, Timestamp,
    Value,
};
use jeton_wal::disk::RealDisk;
use jeton_wal::{Wal, spawn_aborting};
use tokio::sync::{mpsc, oneshot};

use crate::backup::INCOMPLETE;
use crate::catalog_store::{TableError, Tables};
use crate::checkpoint_thread::CheckpointThread;
use crate::checkpointer::Checkpointer;
use crate::clock::{ClockAhead, StoreTime, SystemClock};
use crate::health::Health;
use crate::ids::IdIndex;
use crate::maintenance::{Maintenance, StopSignal};
use crate::options::Options;
use crate::pending::BURST_MAX;
use crate::recovery::{self, Recovered, RecoveryError};
use crate::request::Request;
use crate::response::{Ask, EngineError, OperationOutcome, Response};
use crate::response_dispatcher::ResponseDispatcher;
use crate::shard::{Shard, Stores};
use crate::stats::Stats;
use crate::task_group::Tasks;
use crate::trim_guard::TrimBlock;
use crate::values::{CellKeys, LsmValues, Values, ValuesError};
use crate::worker::{Message, Worker};

/// Why an engine cannot be opened.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OpenError {
    /// An option that cannot be.
    #[error("{0}")]
    Options(String),
    /// A copy that was never completed.
    #[error("{} is a copy of a store that was never completed; make it again", .0.display())]
    Incomplete(PathBuf),
    /// The log.
    #[error(transparent)]
    Log(#[from] jeton_wal::OpenError),
    /// What the log and the stores hold.
    #[error(transparent)]
    Recovery(#[from] RecoveryError),
    /// The machine's clock.
    #[error(transparent)]
    ClockAhead(#[from] ClockAhead),
    /// The value store.
    #[error(transparent)]
    Values(#[from] ValuesError),
    /// The id index.
    #[error("id index: {0}")]
    Ids(#[from] crate::ids::Error),
    /// The operating system.
    #[error("{what}: {source}")]
    System {
        /// What was tried.
        what: String,
        /// What it said.
        source: std::io::Error,
    },
}

fn system(what: String) -> impl FnOnce(std::io::Error) -> OpenError {
    move |source| OpenError::System { what, source }
}

/// The tables as they are whenever one looks.
#[derive(Debug)]
pub struct TablesView(arc_swap::Cache<Arc<ArcSwap<Catalog>>, Arc<Catalog>>);

impl TablesView {
    /// The tables as they are now.
    pub fn look(&mut self) -> &Arc<Catalog> {
        self.0.load()
    }
}

/// The way to a shard.
struct ShardHandle {
    queue: mpsc::Sender<Message>,
    /// How many requests of bursts are in the queue.
    bursting: Arc<AtomicUsize>,
}

/// Requests of bursts that may wait for a shard. Beyond that callers are told that it is busy.
const BURSTING_MAX: usize = 1 << 16;

/// A store that is open. To close it, drop it, or call [`Engine::close`].
pub struct Engine {
    pub(crate) log: Arc<Wal<RealDisk>>,
    pub(crate) disk: Arc<RealDisk>,
    pub(crate) stores: Stores<LsmValues, RealDisk>,
    pub(crate) stores_in_use: Arc<RwLock<()>>,
    pub(crate) hold: TrimBlock,
    pub(crate) tables: Arc<Tables<Wal<RealDisk>>>,
    time: Arc<StoreTime<SystemClock>>,
    health: Arc<Health>,
    pub(crate) secret: Secret,
    shards: Mutex<Option<Vec<mpsc::Sender<Message>>>>,
    /// The same senders, for callers: no lock on their way.
    doors: ArcSwap<Vec<ShardHandle>>,
    bell: Arc<StopSignal>,
    tasks: Tasks,
    threads: Mutex<Vec<JoinHandle<()>>>,
    replayed: u64,
}

impl Engine {
    /// Opens the store in a directory, or makes one.
    pub fn open(folder: &Path, options: Options) -> Result<Self, OpenError> {
        options.check().map_err(OpenError::Options)?;
        if folder.join(INCOMPLETE).exists() {
            return Err(OpenError::Incomplete(folder.into()));
        }
        let disk = RealDisk::new(folder).map_err(system(format!("cannot use {}", folder.display())))?;
        let mut log_options = jeton_wal::Options::default();
        log_options.segment_bytes = options.segment_bytes;
        // First the lock: nobody else may touch anything from here on.
        let log = Arc::new(Wal::open(disk.clone(), log_options)?);
        let disk = Arc::new(disk);
        let (ids, note) = IdIndex::open(disk.clone(), "ids")?;
        let values = LsmValues::open(&folder.join("values"), &options.lsm)?;
        // The folders of the stores are there before anything in the log relies on them.
        let root = std::fs::File::open(folder).and_then(|root| root.sync_all());
        root.map_err(system(format!("cannot sync {}", folder.display())))?;
        let stores = Stores { values: Arc::new(values), ids: Arc::new(ids) };

        let clock = SystemClock::default();
        let mut random = [0; 16];
        getrandom::fill(&mut random).map_err(|error| {
            let what = "cannot draw a secret".to_owned();
            OpenError::System { what, source: std::io::Error::other(error) }
        })?;
        let found = recovery::find(&*log, &stores, &note, || random)?;
        let catalog = Arc::new(found.catalog);
        let known = (found.secret, found.partitions, &found.kept);
        let Recovered { shards, replayed, logged } =
            recovery::replay_log(&*log, &stores, &catalog, known, &options)?;
        let time = StoreTime::begin(clock, logged, options.clock_ahead_max)?;

        let engine = Self {
            log: log.clone(),
            disk,
            stores: stores.clone(),
            stores_in_use: Arc::default(),
            hold: TrimBlock::default(),
            tables: Arc::new(Tables::new(log.clone(), catalog, found.catalog_version)),
            time: Arc::new(time),
            health: Arc::new(Health::new(options.shards, replayed.bytes, logged)),
            secret: found.secret,
            shards: Mutex::default(),
            doors: ArcSwap::default(),
            bell: Arc::default(),
            tasks: Tasks::default(),
            threads: Mutex::default(),
            replayed: replayed.entries,
        };
        let stored = (found.kept, found.filters);
        let keeper = Checkpointer::new(log, stores, stored, options.filter_row_bytes);
        let keeper = keeper.held_by(engine.hold.clone());
        engine.start(shards, keeper, &options)?;
        Ok(engine)
    }

    fn start(
        &self,
        shards: Vec<Shard<LsmValues, RealDisk>>,
        keeper: Checkpointer<Wal<RealDisk>, LsmValues, RealDisk>,
        options: &Options,
    ) -> Result<(), OpenError> {
        let (jobs, job_queue) = std_mpsc::channel();
        let answers = if options.runtime.is_some() {
            ResponseDispatcher::at_once()
        } else {
            let (answers, give) = ResponseDispatcher::by_thread();
            self.spawn("jeton-answers", give)?;
            answers
        };
        let (mut senders, mut doors) = (Vec::new(), Vec::new());
        for (number, shard) in shards.into_iter().enumerate() {
            let (sender, queue) = mpsc::channel(options.queue_max);
            let bursting = Arc::default();
            doors.push(ShardHandle { queue: sender.clone(), bursting: Arc::clone(&bursting) });
            senders.push(sender);
            let worker = Worker {
                number,
                shard,
                log: self.log.clone(),
                catalog: self.tables.catalog().clone(),
                time: self.time.clone(),
                health: self.health.clone(),
                options: options.clone(),
                queue,
                jobs: jobs.clone(),
                answers: answers.clone(),
                bursting,
                yields_first: options.runtime.is_some(),
            };
            match &options.runtime {
                Some(runtime) => self.tasks.start(runtime, worker.run()),
                None => self.spawn(&format!("jeton-shard-{number}"), move || block_on(worker.run()))?,
            }
        }
        let store = CheckpointThread {
            keeper,
            values: self.stores.values.clone(),
            catalog: self.tables.catalog().clone(),
            shards: senders.iter().map(mpsc::Sender::downgrade).collect(),
            health: self.health.clone(),
            stores_in_use: self.stores_in_use.clone(),
            log_bytes: options.log_bytes,
        };
        self.spawn("jeton-store", move || run_at_low_priority(|| store.run(&job_queue)))?;
        let upkeep = Maintenance {
            stores: self.stores.clone(),
            tables: self.tables.clone(),
            health: self.health.clone(),
            stores_in_use: self.stores_in_use.clone(),
            bell: self.bell.clone(),
        };
        self.spawn("jeton-upkeep", move || run_at_low_priority(|| upkeep.run()))?;
        self.doors.store(Arc::new(doors));
        *lock(&self.shards) = Some(senders);
        Ok(())
    }

    fn spawn(&self, name: &str, run: impl FnOnce() + Send + 'static) -> Result<(), OpenError> {
        let thread = spawn_aborting(name, run).map_err(system(format!("cannot start the thread {name}")))?;
        lock(&self.threads).push(thread);
        Ok(())
    }

    /// Answers what is under way, and lets the directory go. What is asked afterwards is refused.
    ///
    /// It does not wait for room on the disk: what the log cannot take is given up, and whoever waits for it is told
    /// [`EngineError::Closed`]. Of a relaxed table, that may be what was answered already: as a crash would take it back.
    ///
    /// It waits for the shards: where these are tasks, it must not be called by a thread that the runtime cannot spare.
    pub fn close(&self) {
        self.health.close();
        self.bell.end();
        self.doors.store(Arc::default());
        drop(lock(&self.shards).take());
        // Not before the threads know: what is given up is an error to a shard that is not closing.
        self.log.stop_waiting_for_space();
        self.tasks.join();
        // Held until all have ended: whoever closes at the same time must not take the log away from them.
        for thread in lock(&self.threads).drain(..) {
            thread.join().expect("a thread that panics ends the process");
        }
        self.log.close();
    }

    /// The tables as they are now.
    pub fn catalog(&self) -> Arc<Catalog> {
        self.tables.catalog().load_full()
    }

    /// A look at the tables for somebody who looks often: it costs next to nothing as long as none is changed.
    pub fn tables_view(&self) -> TablesView {
        TablesView(arc_swap::Cache::new(self.tables.catalog().clone()))
    }

    /// The table of this name.
    pub fn table(&self, name: &str) -> Result<Arc<Table>, EngineError> {
        self.catalog().find(name).cloned().ok_or_else(|| EngineError::NoSuchTable(name.into()))
    }

    /// The store's time.
    pub fn now(&self) -> Timestamp {
        self.time.now()
    }

    /// Makes a table. It is there for good when this returns.
    pub fn create_table(&self, name: &str, settings: TableSettings) -> Result<Arc<Table>, TableError> {
        self.tables.create(name, settings)?;
        Ok(self.table(name)?)
    }

    /// Gives a table other settings. Every promise already made is kept.
    pub fn change_table(&self, name: &str, settings: TableSettings) -> Result<Arc<Table>, TableError> {
        self.tables.alter(name, settings, || self.now(), self.health.logged_time())?;
        Ok(self.table(name)?)
    }

    /// The cell of a row and column of a table.
    pub fn cell(&self, table: &Table, row: &[u8], column: &Column) -> Result<Cell, jeton_core::AddressError> {
        Cell::new(&self.secret, table.id, row, column)
    }

    /// Does an operation, once, whatever the number of times that it is asked for. The answer comes when it is durable.
    ///
    /// The work begins when this is called. Dropping the future does not undo it.
    pub fn apply(
        &self,
        operation: Operation,
    ) -> impl Future<Output = Result<OperationOutcome, EngineError>> + Send + use<> {
        let answer = self.send(self.to_request(Ask::Apply(operation)));
        async move {
            match answer?.await {
                Ok(Response::Applied(reply)) => reply,
                Ok(other) => unreachable!("an operation is not answered with {other:?}"),
                Err(_) => Err(EngineError::Closed),
            }
        }
    }

    /// What a cell holds; never what a crash could take back, except in a relaxed table.
    pub fn get(&self, cell: Cell) -> impl Future<Output = Result<Option<Value>, EngineError>> + Send + use<> {
        let answer = self.send(self.to_request(Ask::Read(cell)));
        async move {
            match answer?.await {
                Ok(Response::Read(value)) => value,
                Ok(other) => unreachable!("a read is not answered with {other:?}"),
                Err(_) => Err(EngineError::Closed),
            }
        }
    }

    /// Hashes the id and the partition of a request, for [`submit_prehashed`](Self::submit_prehashed).
    pub fn to_request(&self, ask: Ask) -> Request {
        SCRATCH.with_borrow_mut(|scratch| Request::new(ask, &self.secret, scratch))
    }

    fn send(&self, request: Request) -> Result<oneshot::Receiver<Response>, EngineError> {
        let doors = self.doors.load();
        if doors.is_empty() {
            return Err(EngineError::Closed);
        }
        let (reply, answer) = oneshot::channel();
        let door = &doors[usize::from(request.partition().0) % doors.len()];
        door.queue.try_send(Message::Request { request, reply }).map_err(unsent)?;
        Ok(answer)
    }

    /// Executes independent requests. Requests for the same counter are executed in the given order. The responses are
    /// returned together, in that order.
    ///
    /// A batch costs a fraction of the same requests one by one. A request that cannot be queued gets an error as its
    /// response, and the others are executed.
    pub fn submit_batch(&self, asks: Vec<Ask>) -> impl Future<Output = Vec<Response>> + Send + use<> {
        self.submit_prehashed(asks.into_iter().map(|ask| self.to_request(ask)).collect())
    }

    /// As [`submit_batch`](Self::submit_batch), for hashed requests.
    pub fn submit_prehashed(
        &self,
        requests: Vec<Request>,
    ) -> impl Future<Output = Vec<Response>> + Send + use<> {
        let doors = self.doors.load();
        let total = requests.len();
        let mut parts = Vec::new();
        if let [door] = &doors[..]
            && (1..=BURST_MAX).contains(&total)
        {
            parts.push((None, door.submit(requests)));
        } else {
            let mut shares: Vec<(Vec<usize>, Vec<Request>)> = Vec::new();
            shares.resize_with(doors.len(), Default::default);
            for (at, request) in requests.into_iter().enumerate() {
                if doors.is_empty() {
                    break;
                }
                let shard = usize::from(request.partition().0) % doors.len();
                shares[shard].0.push(at);
                shares[shard].1.push(request);
                if shares[shard].0.len() == BURST_MAX {
                    let (places, requests) = std::mem::take(&mut shares[shard]);
                    parts.push((Some(places), doors[shard].submit(requests)));
                }
            }
            for (door, (places, requests)) in doors.iter().zip(shares) {
                if !requests.is_empty() {
                    parts.push((Some(places), door.submit(requests)));
                }
            }
        }
        async move {
            let closed = || Response::Applied(Err(EngineError::Closed));
            let mut all = Vec::new();
            for (places, part) in parts {
                let responses = match part {
                    Ok(answer) => answer.await.map_err(|_| EngineError::Closed),
                    Err(refusal) => Err(refusal),
                };
                match (places, responses) {
                    // One shard has all of them, in order.
                    (None, Ok(responses)) => return responses,
                    (None, Err(refusal)) => return vec![Response::Applied(Err(refusal)); total],
                    (Some(places), responses) => {
                        all.resize_with(total, closed);
                        match responses {
                            Ok(responses) => {
                                for (at, response) in places.into_iter().zip(responses) {
                                    all[at] = response;
                                }
                            }
                            Err(refusal) => {
                                for at in places {
                                    all[at] = Response::Applied(Err(refusal.clone()));
                                }
                            }
                        }
                    }
                }
            }
            all.resize_with(total, closed);
            all
        }
    }

    /// What became of an id, in whichever partition: most have one answer, and those that never came have none. An id that was used for rows
    /// of several partitions has as many.
    pub async fn operation(
        &self,
        table: &Table,
        id: &OpId,
    ) -> Result<Vec<(PartitionId, IdStatus)>, EngineError> {
        let ask = |partition| Request::Recall { table: table.id, id: id.clone(), partition };
        let responses = self.submit_prehashed(PartitionId::all().map(ask).collect()).await;
        let mut found = Vec::new();
        for (partition, response) in PartitionId::all().zip(responses) {
            match response {
                Response::Recalled(Ok(IdStatus::No)) => {}
                Response::Recalled(Ok(known)) => found.push((partition, known)),
                Response::Recalled(Err(refusal)) | Response::Applied(Err(refusal)) => return Err(refusal),
                other => unreachable!("a question is not answered with {other:?}"),
            }
        }
        Ok(found)
    }

    /// Comes back when everything decided by now is in the value store, where [`list`](Self::list) finds it.
    pub async fn stored(&self) -> Result<(), EngineError> {
        let waits: Vec<_> = {
            let doors = self.doors.load();
            let ask = |door: &ShardHandle| {
                let (reply, stored) = oneshot::channel();
                door.queue.try_send(Message::Stored(reply)).map_err(unsent)?;
                Ok(stored)
            };
            doors.iter().map(ask).collect::<Result<_, EngineError>>()?
        };
        if waits.is_empty() {
            return Err(EngineError::Closed);
        }
        for stored in waits {
            stored.await.map_err(|_| EngineError::Closed)?;
        }
        Ok(())
    }

    /// The cells of a table whose rows begin like this, as far as the value store knows them, after a given one, and at most so many.
    /// They come in an order of the store's own, and may be gone or over by now. Reads the disk: not for a thread that must not wait.
    pub fn list(
        &self,
        table: &Table,
        prefix: &[u8],
        after: Option<&Cell>,
        limit: usize,
    ) -> Result<Vec<Cell>, EngineError> {
        let failed = |error: &dyn std::fmt::Display| EngineError::Storage(error.to_string());
        let mut cells = Vec::new();
        let first = after.map_or(0, |after| after.partition().0);
        for partition in PartitionId::all().skip(first.into()) {
            if cells.len() >= limit {
                break;
            }
            let after = after.filter(|after| after.partition() == partition);
            let keys = CellKeys::new(partition, table.id, prefix, after);
            let mut damaged = None;
            let listed =
                self.stores.values.keys(&keys, limit - cells.len(), &mut |key| match keys.cell(key) {
                    Ok(cell) => cells.push(cell),
                    Err(error) => damaged = Some(error),
                });
            listed.map_err(|error| failed(&error))?;
            if let Some(error) = damaged {
                return Err(failed(&error));
            }
        }
        Ok(cells)
    }

    /// How the engine is doing.
    pub fn stats(&self) -> Stats {
        Stats::of(&self.catalog(), &self.stores, &self.health, self.replayed)
    }
}

impl ShardHandle {
    fn submit(&self, requests: Vec<Request>) -> Result<oneshot::Receiver<Vec<Response>>, EngineError> {
        let count = requests.len();
        let (reply, answer) = oneshot::channel();
        if self.bursting.fetch_add(count, Ordering::Relaxed) + count > BURSTING_MAX {
            self.bursting.fetch_sub(count, Ordering::Relaxed);
            return Err(EngineError::Busy("too many requests are waiting"));
        }
        self.queue.try_send(Message::Burst { requests, reply }).map_err(|error| {
            self.bursting.fetch_sub(count, Ordering::Relaxed);
            unsent(error)
        })?;
        Ok(answer)
    }
}

fn unsent(error: mpsc::error::TrySendError<Message>) -> EngineError {
    match error {
        mpsc::error::TrySendError::Full(_) => EngineError::Busy("too many requests are waiting"),
        mpsc::error::TrySendError::Closed(_) => EngineError::Closed,
    }
}

impl Drop for Engine {
    fn drop(&mut self) {
        self.close();
    }
}

/// How much the threads stand back that nobody waits for, as `nice` counts.
#[cfg(target_os = "linux")]
const NICE: i32 = 10;

/// Runs with less right to a processor than the threads that somebody waits for. If the system does not know how, as they do.
fn run_at_low_priority(run: impl FnOnce()) {
    #[cfg(target_os = "linux")]
    let _as_it_is = rustix::process::setpriority_process(None, NICE);
    run();
}

thread_local! {
    /// Room to hash in, so that no caller allocates for it.
    static SCRATCH: std::cell::RefCell<Vec<u8>> = const { std::cell::RefCell::new(Vec::new()) };
}

/// What these locks guard is never left half changed.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
