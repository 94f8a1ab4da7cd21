//! The engine: a store in a directory, its threads, and the way in.
//!
//! | thread | what it does |
//! |---|---|
//! | `jeton-shard-n` | owns partitions n, n + shards, ...: decides |
//! | `jeton-answers` | answers what has become durable |
//! | `jeton-log` | of the registers: one sync for whatever came during the last |
//! | `jeton-keeper` | of the registers: makes the log's next segment |
//! | `jeton-rows` | of the registers: stores and fetches rows |
//! | `jeton-store` | stores what shards hand out, and the filters; then the log is trimmed |
//! | `jeton-upkeep` | merges, and drops what has expired |

use std::path::{Path, PathBuf};
use std::sync::mpsc as std_mpsc;
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::thread::JoinHandle;

use arc_swap::ArcSwap;
use futures_executor::block_on;
use jeton_core::{
    Catalog, Cell, Column, Hashes, Moment, Operation, PartitionId, Secret, Table, TableSettings, Value,
};
use jeton_register::disk::RealDisk;
use jeton_register::embedded::{self, Embedded};
use jeton_register::start_thread;
use tokio::sync::{mpsc, oneshot};

use crate::answers::Answers;
use crate::backup::INCOMPLETE;
use crate::clock::{ClockAhead, StoreTime, SystemClock};
use crate::health::Health;
use crate::hold::Hold;
use crate::ids::IdIndex;
use crate::keeper::Keeper;
use crate::options::Options;
use crate::recovery::{self, Recovered, RecoveryError};
use crate::reply::{Refusal, Reply, Response};
use crate::shard::{Request, Shard, Stores};
use crate::stats::Stats;
use crate::store_thread::StoreThread;
use crate::tables::{TableError, Tables};
use crate::upkeep::{Bell, Upkeep};
use crate::values::{LsmValues, ValuesError};
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
    Log(#[from] embedded::OpenError),
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

/// A store that is open. To close it, drop it, or call [`Engine::close`].
pub struct Engine {
    pub(crate) registers: Arc<Embedded<RealDisk>>,
    pub(crate) disk: Arc<RealDisk>,
    pub(crate) stores: Stores<LsmValues, RealDisk>,
    pub(crate) stores_in_use: Arc<RwLock<()>>,
    pub(crate) hold: Hold,
    pub(crate) tables: Arc<Tables<Embedded<RealDisk>>>,
    time: Arc<StoreTime<SystemClock>>,
    health: Arc<Health>,
    secret: Secret,
    shards: Mutex<Option<Vec<mpsc::Sender<Message>>>>,
    /// The same senders, for callers: no lock on their way.
    doors: ArcSwap<Vec<mpsc::Sender<Message>>>,
    bell: Arc<Bell>,
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
        let mut log_options = embedded::Options::default();
        log_options.segment_bytes = options.segment_bytes;
        // First the lock: nobody else may touch anything from here on.
        let registers = Arc::new(Embedded::open(disk.clone(), log_options)?);
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
        let found = recovery::find(&*registers, &stores, &note, || random)?;
        let catalog = Arc::new(found.catalog);
        let known = (found.secret, found.partitions, &found.kept);
        let Recovered { shards, replayed, logged } =
            recovery::share_out(&*registers, &stores, &catalog, known, &options)?;
        let time = StoreTime::begin(clock, logged, options.clock_ahead_max)?;

        let engine = Self {
            registers: registers.clone(),
            disk,
            stores: stores.clone(),
            stores_in_use: Arc::default(),
            hold: Hold::default(),
            tables: Arc::new(Tables::new(registers.clone(), catalog, found.catalog_version)),
            time: Arc::new(time),
            health: Arc::new(Health::new(options.shards, replayed.bytes, logged)),
            secret: found.secret,
            shards: Mutex::default(),
            doors: ArcSwap::default(),
            bell: Arc::default(),
            threads: Mutex::default(),
            replayed: replayed.entries,
        };
        let stored = (found.kept, found.filters);
        let keeper = Keeper::new(registers, stores, stored, options.filter_row_bytes);
        let keeper = keeper.held_by(engine.hold.clone());
        engine.start(shards, keeper, &options)?;
        Ok(engine)
    }

    fn start(
        &self,
        shards: Vec<Shard<LsmValues, RealDisk>>,
        keeper: Keeper<Embedded<RealDisk>, LsmValues, RealDisk>,
        options: &Options,
    ) -> Result<(), OpenError> {
        let (jobs, job_queue) = std_mpsc::channel();
        let (answers, give) = Answers::by_thread();
        self.spawn("jeton-answers", give)?;
        let mut senders = Vec::new();
        for (number, shard) in shards.into_iter().enumerate() {
            let (sender, queue) = mpsc::channel(options.queue_max);
            senders.push(sender);
            let worker = Worker {
                number,
                shard,
                registers: self.registers.clone(),
                catalog: self.tables.catalog().clone(),
                time: self.time.clone(),
                health: self.health.clone(),
                options: options.clone(),
                queue,
                jobs: jobs.clone(),
                answers: answers.clone(),
            };
            self.spawn(&format!("jeton-shard-{number}"), move || block_on(worker.run()))?;
        }
        let store = StoreThread {
            keeper,
            values: self.stores.values.clone(),
            catalog: self.tables.catalog().clone(),
            shards: senders.iter().map(mpsc::Sender::downgrade).collect(),
            health: self.health.clone(),
            stores_in_use: self.stores_in_use.clone(),
            log_bytes: options.log_bytes,
        };
        self.spawn("jeton-store", move || behind_the_others(|| store.run(&job_queue)))?;
        let upkeep = Upkeep {
            stores: self.stores.clone(),
            tables: self.tables.clone(),
            health: self.health.clone(),
            stores_in_use: self.stores_in_use.clone(),
            bell: self.bell.clone(),
        };
        self.spawn("jeton-upkeep", move || behind_the_others(|| upkeep.run()))?;
        self.doors.store(Arc::new(senders.clone()));
        *lock(&self.shards) = Some(senders);
        Ok(())
    }

    fn spawn(&self, name: &str, run: impl FnOnce() + Send + 'static) -> Result<(), OpenError> {
        let thread = start_thread(name, run).map_err(system(format!("cannot start the thread {name}")))?;
        lock(&self.threads).push(thread);
        Ok(())
    }

    /// Answers what is under way, and lets the directory go. What is asked afterwards is refused.
    ///
    /// It does not wait for room on the disk: what the log cannot take is given up, and whoever waits for it is told
    /// [`Refusal::Closed`]. Of a relaxed table, that may be what was answered already: as a crash would take it back.
    pub fn close(&self) {
        self.health.close();
        self.bell.end();
        self.doors.store(Arc::default());
        drop(lock(&self.shards).take());
        // Not before the threads know: what is given up is an error to a shard that is not closing.
        self.registers.wind_up();
        // Held until all have ended: whoever closes at the same time must not take the log away from them.
        for thread in lock(&self.threads).drain(..) {
            thread.join().expect("a thread that panics ends the process");
        }
        self.registers.close();
    }

    /// The tables as they are now.
    pub fn catalog(&self) -> Arc<Catalog> {
        self.tables.catalog().load_full()
    }

    /// The table of this name.
    pub fn table(&self, name: &str) -> Result<Arc<Table>, Refusal> {
        self.catalog().find(name).cloned().ok_or_else(|| Refusal::NoSuchTable(name.into()))
    }

    /// The store's time.
    pub fn now(&self) -> Moment {
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
    pub fn apply(&self, operation: Operation) -> impl Future<Output = Result<Reply, Refusal>> + Send + use<> {
        let hashes = SCRATCH.with_borrow_mut(|scratch| Hashes::of(&operation, &self.secret, scratch));
        let partition = operation.partition();
        let answer = self.send(partition, |ticket| Request::Apply { operation, hashes, ticket });
        async move {
            match answer?.await {
                Ok(Response::Applied(reply)) => reply,
                Ok(Response::Read(_)) => unreachable!("an operation is not answered like a read"),
                Err(_) => Err(Refusal::Closed),
            }
        }
    }

    /// What a cell holds; never what a crash could take back, except in a relaxed table.
    pub fn get(&self, cell: Cell) -> impl Future<Output = Result<Option<Value>, Refusal>> + Send + use<> {
        let answer = self.send(cell.partition(), |ticket| Request::Read { cell, ticket });
        async move {
            match answer?.await {
                Ok(Response::Read(value)) => value,
                Ok(Response::Applied(_)) => unreachable!("a read is not answered like an operation"),
                Err(_) => Err(Refusal::Closed),
            }
        }
    }

    fn send(
        &self,
        partition: PartitionId,
        request: impl FnOnce(oneshot::Sender<Response>) -> Request<oneshot::Sender<Response>>,
    ) -> Result<oneshot::Receiver<Response>, Refusal> {
        let doors = self.doors.load();
        if doors.is_empty() {
            return Err(Refusal::Closed);
        }
        let (ticket, answer) = oneshot::channel();
        let door = &doors[usize::from(partition.0) % doors.len()];
        match door.try_send(Message::Request(request(ticket))) {
            Ok(()) => Ok(answer),
            Err(mpsc::error::TrySendError::Full(_)) => Err(Refusal::Busy("too many requests are waiting")),
            Err(mpsc::error::TrySendError::Closed(_)) => Err(Refusal::Closed),
        }
    }

    /// How the engine is doing.
    pub fn stats(&self) -> Stats {
        Stats::of(&self.catalog(), &self.stores, &self.health, self.replayed)
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
fn behind_the_others(run: impl FnOnce()) {
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
