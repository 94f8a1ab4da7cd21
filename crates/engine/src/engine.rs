//! The engine: a store in a directory, its threads and its API.
//!
//! | thread | what it does |
//! |---|---|
//! | `jeton-shard-n` | decides requests for partitions n, n + shards, ...; with a runtime in the options it is a task |
//! | `jeton-respond` | sends the responses of durable batches, if shards are threads |
//! | `jeton-log` | of the WAL: group commit |
//! | `jeton-segments` | of the WAL: creates the next segment, removes released ones |
//! | `jeton-checkpoint` | checkpoints ids, values and filters, trims the log, removes cells of deleted tables |
//! | `jeton-compact` | compaction, removal of expired data |

// Long file: the public API of the engine with its start and stop sequence.

use std::collections::VecDeque;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc as std_mpsc;
use std::sync::{Arc, Mutex, RwLock};
use std::thread::JoinHandle;

use arc_swap::ArcSwap;
use futures_executor::block_on;
use jeton_core::{
    Catalog, Cell, Column, IdStatus, OpId, Operation, PartitionId, Secret, Table, TableId, TableSettings,
    Timestamp, Value,
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
use crate::lock::lock;
use crate::maintenance::Maintenance;
use crate::options::Options;
use crate::partition_log::{BlobStore, PartitionLog};
use crate::pending::REQUESTS_MAX;
use crate::recovery::{self, Recovered, RecoveryError};
use crate::request::Request;
use crate::response::{Ask, EngineError, OperationOutcome, Response};
use crate::response_dispatcher::ResponseDispatcher;
use crate::shard::{Shard, Stores};
use crate::stats::Stats;
use crate::task_group::Tasks;
use crate::trim_guard::TrimBlock;
use crate::values::{CellKeys, LsmValues, Values, ValuesError};
use crate::worker::{Job, Message, Worker};

/// Why an engine cannot be opened.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OpenError {
    /// An option is out of range.
    #[error("{0}")]
    Options(String),
    /// The directory contains an unfinished backup.
    #[error("{} is a backup that was never completed; make it again", .0.display())]
    Incomplete(PathBuf),
    #[error(transparent)]
    Log(#[from] jeton_wal::OpenError),
    #[error(transparent)]
    Recovery(#[from] RecoveryError),
    #[error(transparent)]
    ClockAhead(#[from] ClockAhead),
    #[error(transparent)]
    Values(#[from] ValuesError),
    #[error("id index: {0}")]
    Ids(#[from] crate::ids::Error),
    #[error("{what}: {source}")]
    System { what: String, source: std::io::Error },
}

fn system(what: String) -> impl FnOnce(std::io::Error) -> OpenError {
    move |source| OpenError::System { what, source }
}

/// A cached reference to the current catalogue.
#[derive(Debug)]
pub struct TablesView(arc_swap::Cache<Arc<ArcSwap<Catalog>>, Arc<Catalog>>);

impl TablesView {
    /// The current catalogue.
    pub fn look(&mut self) -> &Arc<Catalog> {
        self.0.load()
    }
}

struct ShardHandle {
    queue: mpsc::Sender<Message>,
    /// Number of requests in the batches of the queue.
    queued_requests: Arc<AtomicUsize>,
}

/// Maximum number of requests in the batches of a shard's queue. Beyond it callers get a busy error.
const QUEUED_REQUESTS_MAX: usize = 1 << 16;

const BUSY: EngineError = EngineError::Busy("too many requests are waiting");

/// An open store. Dropping it or calling [`Engine::close`] closes it.
///
/// Its log is a [`Wal`] in the directory of the store. With a log elsewhere the directory is a cache: the
/// engine can be opened in an empty one.
pub struct Engine<L: PartitionLog + BlobStore = Wal<RealDisk>> {
    pub(crate) log: Arc<L>,
    pub(crate) disk: Arc<RealDisk>,
    pub(crate) stores: Stores<LsmValues, RealDisk>,
    pub(crate) stores_in_use: Arc<RwLock<()>>,
    pub(crate) trim_block: TrimBlock,
    pub(crate) tables: Arc<Tables<L>>,
    time: Arc<StoreTime<SystemClock>>,
    health: Arc<Health>,
    pub(crate) secret: Secret,
    pub(crate) partitions: Range<u16>,
    /// Empty once the engine is closed.
    shards: ArcSwap<Vec<ShardHandle>>,
    /// Locked while a table is deleted.
    deleting: Mutex<()>,
    /// To the checkpoint thread; `None` once the engine is closed.
    jobs: Mutex<Option<std_mpsc::Sender<Job>>>,
    /// Dropped to end maintenance.
    stop: Mutex<Option<std_mpsc::Sender<()>>>,
    tasks: Tasks,
    threads: Mutex<Vec<JoinHandle<()>>>,
    replayed: u64,
    without_filters: Vec<String>,
}

impl Engine {
    /// Opens the store in a directory, or creates it.
    pub fn open(folder: &Path, options: Options) -> Result<Self, OpenError> {
        options.check().map_err(OpenError::Options)?;
        if folder.join(INCOMPLETE).exists() {
            return Err(OpenError::Incomplete(folder.into()));
        }
        let disk = RealDisk::new(folder).map_err(system(format!("cannot use {}", folder.display())))?;
        let mut log_options = jeton_wal::Options::default();
        log_options.segment_bytes = options.segment_bytes;
        // Takes the lock of the directory, so it comes before everything else.
        let log = Arc::new(Wal::open(disk, log_options)?);
        Self::open_on(log, folder, options)
    }
}

impl<L: PartitionLog + BlobStore> Engine<L> {
    /// Opens a store with this log; the id index and the values are in the directory. The caller holds the
    /// lock of the directory.
    pub fn open_on(log: Arc<L>, folder: &Path, options: Options) -> Result<Self, OpenError> {
        options.check().map_err(OpenError::Options)?;
        let disk = RealDisk::new(folder).map_err(system(format!("cannot use {}", folder.display())))?;
        let disk = Arc::new(disk);
        let (ids, note) = IdIndex::open(disk.clone(), "ids")?;
        let values = LsmValues::open(&folder.join("values"), &options.lsm)?;
        // The directories of the stores must be durable before the log is trimmed for them.
        let root = std::fs::File::open(folder).and_then(|root| root.sync_all());
        root.map_err(system(format!("cannot sync {}", folder.display())))?;
        let stores = Stores { values: Arc::new(values), ids: Arc::new(ids) };

        let clock = SystemClock::default();
        let mut random = [0; 16];
        getrandom::fill(&mut random).map_err(|error| {
            let what = "cannot read random bytes".to_owned();
            OpenError::System { what, source: std::io::Error::other(error) }
        })?;
        let found = recovery::find(&*log, &stores, &note, options.memory_max, || random)?;
        let catalog = Arc::new(found.catalog);
        let known = (found.secret, found.partitions, &found.positions);
        let Recovered { shards, replayed, logged } =
            recovery::replay_log(&*log, &stores, &catalog, known, &options)?;
        let time = StoreTime::begin(clock, logged, options.clock_ahead_max)?;

        let engine = Self {
            log: log.clone(),
            disk,
            stores: stores.clone(),
            stores_in_use: Arc::default(),
            trim_block: TrimBlock::default(),
            tables: Arc::new(Tables::new(log.clone(), catalog, found.catalog_version)),
            time: Arc::new(time),
            health: Arc::new(Health::new(options.shards, replayed.bytes, logged)),
            secret: found.secret,
            partitions: options.partitions.clone(),
            shards: ArcSwap::default(),
            deleting: Mutex::default(),
            jobs: Mutex::default(),
            stop: Mutex::default(),
            tasks: Tasks::default(),
            threads: Mutex::default(),
            replayed: replayed.entries,
            without_filters: found.without_filters,
        };
        let stored = (found.positions, found.filters);
        let checkpointer = Checkpointer::new(log, stores, stored, options.filter_row_bytes);
        engine.start(shards, checkpointer.blocked_by(engine.trim_block.clone()), &options)?;
        Ok(engine)
    }

    fn start(
        &self,
        shards: Vec<Shard<LsmValues, RealDisk>>,
        checkpointer: Checkpointer<L, LsmValues, RealDisk>,
        options: &Options,
    ) -> Result<(), OpenError> {
        let (jobs, job_queue) = std_mpsc::channel();
        *lock(&self.jobs) = Some(jobs.clone());
        let responses = if options.runtime.is_some() {
            ResponseDispatcher::inline()
        } else {
            let (responses, send) = ResponseDispatcher::threaded();
            self.spawn("jeton-respond", send)?;
            responses
        };
        let mut handles = Vec::new();
        for (number, shard) in shards.into_iter().enumerate() {
            let (sender, queue) = mpsc::channel(options.queue_max);
            let queued_requests = Arc::<AtomicUsize>::default();
            handles.push(ShardHandle { queue: sender, queued_requests: queued_requests.clone() });
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
                responses: responses.clone(),
                queued_requests,
                yields_first: options.runtime.is_some(),
            };
            match &options.runtime {
                Some(runtime) => self.tasks.start(runtime, worker.run()),
                None => self.spawn(&format!("jeton-shard-{number}"), move || block_on(worker.run()))?,
            }
        }
        let checkpoints = CheckpointThread {
            checkpointer,
            values: self.stores.values.clone(),
            tables: self.tables.clone(),
            shards: handles.iter().map(|handle| handle.queue.downgrade()).collect(),
            health: self.health.clone(),
            stores_in_use: self.stores_in_use.clone(),
            log_bytes: options.log_bytes,
            removal: None,
        };
        self.spawn("jeton-checkpoint", move || run_at_low_priority(|| checkpoints.run(&job_queue)))?;
        let (stop, stopped) = std_mpsc::channel();
        *lock(&self.stop) = Some(stop);
        let maintenance = Maintenance {
            stores: self.stores.clone(),
            tables: self.tables.clone(),
            health: self.health.clone(),
            stores_in_use: self.stores_in_use.clone(),
            stopped,
        };
        self.spawn("jeton-compact", move || run_at_low_priority(|| maintenance.run()))?;
        self.shards.store(Arc::new(handles));
        Ok(())
    }

    fn spawn(&self, name: &str, run: impl FnOnce() + Send + 'static) -> Result<(), OpenError> {
        let thread = spawn_aborting(name, run).map_err(system(format!("cannot start the thread {name}")))?;
        lock(&self.threads).push(thread);
        Ok(())
    }

    /// Completes the requests in flight and releases the directory. Later requests get
    /// [`EngineError::Closed`].
    ///
    /// Close does not wait for disk space: batches that cannot be written are dropped, and their callers get
    /// [`EngineError::Closed`]. In a relaxed table such a batch may be acknowledged already; it is lost as in
    /// a crash.
    ///
    /// Blocks until the shards have ended. If shards are tasks, it must not be called on a thread that they
    /// need.
    pub fn close(&self) {
        self.health.close();
        drop(lock(&self.jobs).take());
        drop(lock(&self.stop).take());
        self.shards.store(Arc::default());
        // After `health.close()`: a dropped batch is an error in a shard that is not closing.
        self.log.stop_waiting();
        self.tasks.join();
        // Locked until all have ended: a concurrent close must not close the log before that.
        for thread in lock(&self.threads).drain(..) {
            thread.join().expect("a thread that panics ends the process");
        }
        self.log.close();
    }

    /// The current catalogue.
    pub fn catalog(&self) -> Arc<Catalog> {
        self.tables.catalog().load_full()
    }

    /// A view of the catalogue that costs nearly nothing per look while no table changes.
    pub fn tables_view(&self) -> TablesView {
        TablesView(arc_swap::Cache::new(self.tables.catalog().clone()))
    }

    pub fn table(&self, name: &str) -> Result<Arc<Table>, EngineError> {
        self.catalog().find(name).cloned().ok_or_else(|| EngineError::NoSuchTable(name.into()))
    }

    /// The tables whose stored filters did not fit into `memory_max` when the store was opened. Until their
    /// ids have expired, all ids are looked up on the disk.
    pub fn tables_without_filters(&self) -> &[String] {
        &self.without_filters
    }

    pub fn now(&self) -> Timestamp {
        self.time.now()
    }

    /// Creates a table, durably.
    pub fn create_table(&self, name: &str, settings: TableSettings) -> Result<Arc<Table>, TableError> {
        self.tables.create(name, settings, self.now())?;
        Ok(self.table(name)?)
    }

    /// Deletes a table, durably. Operations that arrive meanwhile are refused. The cells are removed in the
    /// background. Fails if a branch is prepared in the table. Returns the time until which the name is
    /// reserved. Blocks.
    pub fn delete_table(&self, name: &str) -> Result<Timestamp, TableError> {
        let _one_at_a_time = lock(&self.deleting);
        let table = self.table(name)?.id;
        let deleted = if self.set_closed(table, true)? {
            Err(TableError::Prepared(name.into()))
        } else {
            self.tables.delete(name, || self.now())
        };
        // Opened after an error too: the WAL has not stored the catalogue, or has failed and takes no write.
        self.set_closed(table, false)?;
        deleted
    }

    /// Closes or opens a table in all shards. Returns whether branches are prepared in it.
    fn set_closed(&self, table: TableId, closed: bool) -> Result<bool, EngineError> {
        let shards = self.shards.load_full();
        if shards.is_empty() {
            return Err(EngineError::Closed);
        }
        let mut replies = Vec::new();
        for shard in shards.iter() {
            let (reply, prepared) = oneshot::channel();
            let sent = block_on(shard.queue.send(Message::SetClosed { table, closed, reply }));
            sent.map_err(|_| EngineError::Closed)?;
            replies.push(prepared);
        }
        // A shard runs until all its senders are dropped.
        drop(shards);
        let mut any = false;
        for prepared in replies {
            any |= block_on(prepared).map_err(|_| EngineError::Closed)?;
        }
        Ok(any)
    }

    /// Changes the settings of a table, durably. Every guarantee given before is kept.
    pub fn change_table(&self, name: &str, settings: TableSettings) -> Result<Arc<Table>, TableError> {
        self.tables.alter(name, settings, || self.now(), self.health.logged_time())?;
        Ok(self.table(name)?)
    }

    pub fn cell(&self, table: &Table, row: &[u8], column: &Column) -> Result<Cell, jeton_core::AddressError> {
        Cell::new(&self.secret, table.id, row, column)
    }

    /// Applies an operation once, however often it is sent. Resolves when the result is durable.
    ///
    /// The operation is sent by the call itself. Dropping the future does not undo it.
    pub fn apply(
        &self,
        operation: Operation,
    ) -> impl Future<Output = Result<OperationOutcome, EngineError>> + Send + use<L> {
        let response = self.send(self.to_request(Ask::Apply(operation)));
        async move {
            match response?.await.map_err(|_| EngineError::Closed)? {
                Response::Applied(outcome) => outcome,
                other => unreachable!("the response to an operation is {other:?}"),
            }
        }
    }

    /// The value of a cell. It is durable, except in a relaxed table.
    pub fn get(
        &self,
        cell: Cell,
    ) -> impl Future<Output = Result<Option<Value>, EngineError>> + Send + use<L> {
        let response = self.send(Request::Read { cell });
        async move {
            match response?.await.map_err(|_| EngineError::Closed)? {
                Response::Read(value) => value,
                other => unreachable!("the response to a read is {other:?}"),
            }
        }
    }

    /// Hashes the id and the partition of a request, for [`submit_prehashed`](Self::submit_prehashed).
    pub fn to_request(&self, ask: Ask) -> Request {
        match ask {
            Ask::Apply(operation) => {
                SCRATCH.with_borrow_mut(|scratch| Request::apply(operation, &self.secret, scratch))
            }
            Ask::Read(cell) => Request::Read { cell },
        }
    }

    fn send(&self, request: Request) -> Result<oneshot::Receiver<Response>, EngineError> {
        let shards = self.shards.load();
        if shards.is_empty() {
            return Err(EngineError::Closed);
        }
        let (reply, response) = oneshot::channel();
        let shard = &shards[usize::from(request.partition().0) % shards.len()];
        shard.queue.try_send(Message::Request { request, reply }).map_err(unsent)?;
        Ok(response)
    }

    /// Executes independent requests. Requests for the same counter are executed in the given order. The
    /// responses are returned together, in that order.
    ///
    /// A batch costs a fraction of the same requests one by one. A request that cannot be queued gets an
    /// error as its response, and the others are executed.
    pub fn submit_batch(&self, asks: Vec<Ask>) -> impl Future<Output = Vec<Response>> + Send + use<L> {
        self.submit_prehashed(asks.into_iter().map(|ask| self.to_request(ask)).collect())
    }

    /// As [`submit_batch`](Self::submit_batch), for hashed requests.
    pub fn submit_prehashed(
        &self,
        requests: Vec<Request>,
    ) -> impl Future<Output = Vec<Response>> + Send + use<L> {
        let shards = self.shards.load_full();
        let total = requests.len();
        let error = |error| Response::Applied(Err(error));
        // A single shard gets all requests, and returns all responses in order.
        let single = shards.len() == 1 && (1..=REQUESTS_MAX).contains(&total);
        let (mut whole, mut parts) = (None, Vec::new());
        if single {
            whole = Some(shards[0].submit(requests));
        } else if !shards.is_empty() {
            let mut shares: Vec<_> = shards.iter().map(|_| (Vec::new(), Vec::new())).collect();
            for (at, request) in requests.into_iter().enumerate() {
                let share = &mut shares[usize::from(request.partition().0) % shards.len()];
                share.0.push(at);
                share.1.push(request);
            }
            parts = shares.into_iter().enumerate().map(|(shard, share)| Part::new(shard, share)).collect();
            parts.iter_mut().for_each(|part| part.submit(&shards));
        }
        // A shard runs until all its senders are dropped: close must not wait for callers.
        let shards = Arc::downgrade(&shards);
        async move {
            if let Some(submitted) = whole {
                return match submitted {
                    Ok(responses) => {
                        responses.await.unwrap_or_else(|_| vec![error(EngineError::Closed); total])
                    }
                    Err(refusal) => vec![error(refusal); total],
                };
            }
            let mut all = vec![error(EngineError::Closed); total];
            while parts.iter().any(|part| part.submitted.is_some()) {
                for part in &mut parts {
                    part.receive(&mut all).await;
                }
                let shards = shards.upgrade().unwrap_or_default();
                parts.iter_mut().for_each(|part| part.submit(&shards));
            }
            all
        }
    }

    /// The status of an id that is used for the routing key of this cell.
    pub async fn operation(&self, cell: Cell, id: OpId) -> Result<IdStatus, EngineError> {
        let key = self.secret.id_key(&cell, &id, &mut Vec::new());
        match self.submit_prehashed(vec![Request::Recall { cell, id, key }]).await.pop() {
            Some(Response::Recalled(status)) => status,
            Some(Response::Applied(Err(refusal))) => Err(refusal),
            other => unreachable!("the response to a lookup is {other:?}"),
        }
    }

    /// Resolves when everything decided so far is in the value store, where [`list`](Self::list) finds it.
    pub async fn stored(&self) -> Result<(), EngineError> {
        let flush = |shard: &ShardHandle| {
            let (reply, flushed) = oneshot::channel();
            shard.queue.try_send(Message::Flush(reply)).map(|()| flushed).map_err(unsent)
        };
        let flushes: Vec<_> = self.shards.load().iter().map(flush).collect::<Result<_, _>>()?;
        if flushes.is_empty() {
            return Err(EngineError::Closed);
        }
        for flushed in flushes {
            flushed.await.map_err(|_| EngineError::Closed)?;
        }
        Ok(())
    }

    /// Makes checkpoints: when it returns, all stores contain everything decided so far. Blocks.
    pub fn store_all(&self) -> Result<(), EngineError> {
        let shards = self.shards.load_full();
        let mut stored = Vec::new();
        for shard in shards.iter() {
            for flush in [Message::Flush, Message::FlushIds] {
                let (reply, flushed) = oneshot::channel();
                let sent = block_on(shard.queue.send(flush(reply)));
                sent.map_err(|_| EngineError::Closed)?;
                stored.push(flushed);
            }
        }
        // A shard runs until all its senders are dropped.
        drop(shards);
        for flushed in stored {
            block_on(flushed).map_err(|_| EngineError::Closed)?;
        }
        let (reply, filters) = oneshot::channel();
        let jobs = lock(&self.jobs).clone().ok_or(EngineError::Closed)?;
        let sent = jobs.send(Job::Filters(reply));
        // As above, for the checkpoint thread.
        drop(jobs);
        match sent.map(|()| block_on(filters)) {
            Ok(Ok(true)) => Ok(()),
            Ok(Ok(false)) => {
                let why = self.health.last_error().unwrap_or_else(|| "the filters were not stored".into());
                Err(EngineError::Storage(why))
            }
            _ => Err(EngineError::Closed),
        }
    }

    /// At most `limit` cells of a table whose rows begin with `prefix`, in the order of the value store,
    /// after the cell `after`. The value store may lack new cells and contain deleted or expired ones. Blocks
    /// on the disk.
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

    pub fn stats(&self) -> Stats {
        Stats::of(&self.catalog(), &self.stores, &self.health, self.replayed)
    }
}

/// The requests of a call for one shard. They are submitted `REQUESTS_MAX` at a time, the next ones after the
/// responses to the previous ones: a shard does not keep the order between batches.
struct Part {
    shard: usize,
    /// The places of all responses that are not received.
    places: VecDeque<usize>,
    rest: Vec<Request>,
    submitted: Option<Submitted>,
}

/// The number of submitted requests, and their responses.
type Submitted = (usize, Result<oneshot::Receiver<Vec<Response>>, EngineError>);

impl Part {
    fn new(shard: usize, (places, rest): (Vec<usize>, Vec<Request>)) -> Self {
        Self { shard, places: places.into(), rest, submitted: None }
    }

    fn submit(&mut self, shards: &[ShardHandle]) {
        if self.rest.is_empty() {
            return;
        }
        let count = self.rest.len().min(REQUESTS_MAX);
        let after = self.rest.split_off(count);
        let requests = std::mem::replace(&mut self.rest, after);
        let shard = shards.get(self.shard).ok_or(EngineError::Closed);
        self.submitted = Some((count, shard.and_then(|shard| shard.submit(requests))));
    }

    async fn receive(&mut self, all: &mut [Response]) {
        let Some((count, submitted)) = self.submitted.take() else { return };
        let places = self.places.drain(..count);
        let responses = match submitted {
            Ok(responses) => responses.await.map_err(|_| EngineError::Closed),
            Err(refusal) => Err(refusal),
        };
        match responses {
            Ok(responses) => places.zip(responses).for_each(|(at, response)| all[at] = response),
            Err(refusal) => places.for_each(|at| all[at] = Response::Applied(Err(refusal.clone()))),
        }
    }
}

impl ShardHandle {
    fn submit(&self, requests: Vec<Request>) -> Result<oneshot::Receiver<Vec<Response>>, EngineError> {
        let count = requests.len();
        let (reply, responses) = oneshot::channel();
        let queued = self.queued_requests.fetch_add(count, Ordering::Relaxed) + count;
        let sent = if queued > QUEUED_REQUESTS_MAX {
            Err(BUSY)
        } else {
            self.queue.try_send(Message::Batch { requests, reply }).map_err(unsent)
        };
        if sent.is_err() {
            self.queued_requests.fetch_sub(count, Ordering::Relaxed);
        }
        sent.map(|()| responses)
    }
}

fn unsent(error: mpsc::error::TrySendError<Message>) -> EngineError {
    match error {
        mpsc::error::TrySendError::Full(_) => BUSY,
        mpsc::error::TrySendError::Closed(_) => EngineError::Closed,
    }
}

impl<L: PartitionLog + BlobStore> Drop for Engine<L> {
    fn drop(&mut self) {
        self.close();
    }
}

/// Priority of threads that no request waits for, as in `nice`.
#[cfg(target_os = "linux")]
const NICE: i32 = 10;

/// Lowers the priority of the thread, if the system can, and runs.
pub fn run_at_low_priority(run: impl FnOnce()) {
    #[cfg(target_os = "linux")]
    let _unchanged_on_error = rustix::process::setpriority_process(None, NICE);
    run();
}

thread_local! {
    /// Buffer for hashing, so that no request allocates one.
    static SCRATCH: std::cell::RefCell<Vec<u8>> = const { std::cell::RefCell::new(Vec::new()) };
}
