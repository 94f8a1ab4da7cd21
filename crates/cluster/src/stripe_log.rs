//! The log of a stripe, as its owner uses it: frames in write-once registers, written by a thread.

// Long file: the log as the engine uses it, with the thread that writes it.

use std::future::Future;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, OnceLock};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use bytes::Bytes;
use futures_executor::block_on;
use jeton_core::{PartitionId, mutated};
use jeton_engine::{
    AppendError, BlobStore, CATALOG, EntryLocation, LogClock, PartitionLog, STORE, STORE_VERSION,
};
use jeton_register::{Admission, Admitted, LogId, Registers};
use jeton_wal::{Blob, Error as LogError, Extent, Limits, LogId as PartitionLogId, Slot, spawn_aborting};
use tokio::sync::{mpsc, oneshot};

use crate::blobs::{CacheFolder, read_catalog, write_catalog};
use crate::chain::{Chain, ChainError};
use crate::claim::{claim, millis, write};
use crate::deployment::{Deployment, Stripe};
use crate::durable_log::{DurableLog, lock};
use crate::frame::{Body, ENTRY_OVERHEAD_MAX, HEAD_BYTES, NodeId, Owner, encode_entry};
use crate::log_metrics::LogMetrics;
use crate::open_error::OpenError;
use crate::register_error::log_error;
use crate::seed::{self, LocalCheckpoint};
use crate::writer::{Progress, Writer};

/// The largest frame of several entries. A single larger entry has a frame of its own.
const FRAME_BYTES_MAX: usize = 256 << 10;

/// The most entries of a batch.
const BATCH_ENTRIES_MAX: usize = 512;

/// The most bytes at the start of an entry, which a reservation does not count.
const ENTRY_START_MAX: usize = 16;

/// The most batches and other requests, and bytes, that wait or are in flight.
const REQUESTS_MAX: usize = 1024;
const REQUEST_BYTES_MAX: usize = 8 << 20;

/// The pause before a write is repeated; each is twice as long as the one before.
pub(crate) const PAUSE_MIN: Duration = Duration::from_millis(5);
pub(crate) const PAUSE_MAX: Duration = Duration::from_millis(500);

/// After this time without a write, an owner writes a proof.
const PROOF_INTERVAL: Duration = Duration::from_secs(10);

/// Durable frames that wait for a subscriber. One that lags behind further is dropped.
const SUBSCRIBED_FRAMES_MAX: usize = 64;

/// The log of a stripe in registers. It is opened by a follower, which only reads it, and written once the
/// node has claimed the stripe. A log that is deposed must be opened again.
///
/// The stores of a node are caches. The log is trimmed when a [checkpoint](crate::Checkpoints) in the
/// registers contains what a node with an empty directory needs.
pub struct StripeLog<R> {
    registers: Arc<R>,
    deployment: Deployment,
    /// As of the checkpoint that the log was read from, and when the log was opened.
    base: Chain,
    opened: Chain,
    durable: Arc<DurableLog>,
    /// What the stores in the directory contain.
    local: Mutex<LocalCheckpoint>,
    /// The slot of the claim of this node; 0 before that.
    term: AtomicU64,
    limits: Limits,
    admission: Arc<Admission>,
    /// The version of the catalogue, for the next frame.
    catalog: Arc<AtomicU64>,
    metrics: Arc<LogMetrics>,
    end: Arc<End>,
    /// The clock of the engine.
    clock: Arc<OnceLock<LogClock>>,
    proof_interval: Arc<AtomicU64>,
    subscribers: Subscribers,
    /// `None` before the claim, and once the log is closed.
    commands: Mutex<Option<Sender<Command>>>,
    thread: Mutex<Option<JoinHandle<()>>>,
    folder: CacheFolder,
}

/// Queues of frames that are durable.
type Subscribers = Arc<Mutex<Vec<mpsc::Sender<(Slot, Bytes)>>>>;

enum Command {
    Append(Vec<u8>, Ticket),
    Prove(Ticket),
    Yield(NodeId, Ticket),
}

/// A request. If the sender is dropped, the request is not done, and [`End`] has the reason.
struct Ticket {
    done: oneshot::Sender<()>,
    /// Counted as in flight until the request is done.
    _admitted: Admitted,
}

/// Why the log ends.
#[derive(Default)]
struct End {
    deposed: AtomicBool,
    closing: AtomicBool,
}

impl End {
    fn depose(&self) {
        self.deposed.store(true, Ordering::Release);
    }

    fn is_deposed(&self) -> bool {
        self.deposed.load(Ordering::Acquire)
    }

    fn error(&self) -> AppendError {
        if self.is_deposed() {
            return AppendError::Deposed;
        }
        LogError::Unknown("the log was closed before the batch was durable".into()).into()
    }
}

impl<R: Registers> StripeLog<R> {
    /// Reads the log to its end, and claims it for this node. The directory is a cache of the stripe, and may
    /// be empty. Blocks.
    pub fn open(
        registers: Arc<R>,
        deployment: Deployment,
        number: u16,
        me: Owner,
        folder: &Path,
    ) -> Result<Self, OpenError> {
        let mut log = Self::follow(registers, deployment, number, folder)?;
        log.opened = claim(&*log.registers, log.opened.clone(), me)?;
        log.own(&log.opened)?;
        Ok(log)
    }

    /// Reads the log to its end, and writes nothing. Blocks.
    pub fn follow(
        registers: Arc<R>,
        deployment: Deployment,
        number: u16,
        folder: &Path,
    ) -> Result<Self, OpenError> {
        let stripe = deployment.stripe(number).ok_or(OpenError::NoStripe(number))?;
        let empty = deployment.chain(stripe);
        let folder = CacheFolder::open(folder, empty.before())?;
        let seed::Prepared { base, end: opened, bytes, local } = seed::prepare(&*registers, &folder, &empty)?;
        let durable = DurableLog::new(opened.clone(), bytes);
        Ok(Self {
            limits: limits(&*registers),
            registers,
            deployment,
            base,
            opened,
            durable: Arc::new(durable),
            local: Mutex::new(local),
            term: AtomicU64::new(0),
            admission: Admission::new(REQUESTS_MAX, REQUEST_BYTES_MAX),
            catalog: Arc::default(),
            metrics: Arc::default(),
            end: Arc::default(),
            clock: Arc::default(),
            proof_interval: Arc::new(AtomicU64::new(PROOF_INTERVAL.as_millis() as u64)),
            subscribers: Arc::default(),
            commands: Mutex::new(None),
            thread: Mutex::new(None),
            folder,
        })
    }

    /// Begins the term of this node: its claim is the last frame of the chain.
    pub(crate) fn own(&self, claimed: &Chain) -> Result<(), OpenError> {
        let (commands, received) = channel();
        self.durable.own(claimed);
        let thread = WriterThread {
            durable: Arc::clone(&self.durable),
            writer: Writer::new(claimed, FRAME_BYTES_MAX),
            registers: Arc::clone(&self.registers),
            log: claimed.log(),
            catalog: Arc::clone(&self.catalog),
            metrics: Arc::clone(&self.metrics),
            end: Arc::clone(&self.end),
            clock: Arc::clone(&self.clock),
            proof_interval: Arc::clone(&self.proof_interval),
            subscribers: Arc::clone(&self.subscribers),
        };
        let thread = spawn_aborting("jeton-stripe", move || thread.run(&received));
        let io_error = |source| OpenError::Io { path: "the thread of the stripe".into(), source };
        *lock(&self.thread) = Some(thread.map_err(io_error)?);
        *lock(&self.commands) = Some(commands);
        self.catalog.fetch_max(claimed.catalog(), Ordering::Relaxed);
        self.term.store(claimed.term().0, Ordering::Release);
        Ok(())
    }

    pub(crate) fn metrics(&self) -> &LogMetrics {
        &self.metrics
    }

    pub(crate) fn registers(&self) -> &R {
        &self.registers
    }

    pub(crate) fn opened(&self) -> &Chain {
        &self.opened
    }

    /// Whether this node has claimed the stripe. It may be deposed since.
    fn is_owner(&self) -> bool {
        self.term() > Slot::ZERO
    }

    /// The frames that this owner writes from now on, once they are durable. A subscriber that does not keep
    /// up is dropped, and must read the registers.
    pub fn subscribe(&self) -> mpsc::Receiver<(Slot, Bytes)> {
        let (sender, frames) = mpsc::channel(SUBSCRIBED_FRAMES_MAX);
        lock(&self.subscribers).push(sender);
        frames
    }

    /// Sets the time without a write after which the owner writes a proof, from the next write on.
    pub fn set_proof_interval(&self, interval: Duration) {
        let millis = u64::try_from(interval.as_millis()).unwrap_or(u64::MAX);
        self.proof_interval.store(millis.max(1), Ordering::Relaxed);
    }

    /// The slot of the claim of this node; 0 while it follows.
    pub fn term(&self) -> Slot {
        Slot(self.term.load(Ordering::Acquire))
    }

    pub(crate) fn stripe(&self) -> &Stripe {
        self.base.stripe()
    }

    pub(crate) fn base(&self) -> &Chain {
        &self.base
    }

    pub(crate) fn folder(&self) -> &Path {
        self.folder.path()
    }

    pub(crate) fn durable(&self) -> &DurableLog {
        &self.durable
    }

    /// Bytes of the frames that no checkpoint contains.
    pub fn log_bytes(&self) -> u64 {
        self.durable.untrimmed_bytes()
    }

    /// Whether another node has taken the stripe over, or this one has yielded it.
    pub fn is_deposed(&self) -> bool {
        self.end.is_deposed()
    }

    /// Proves that this node was the owner at some time after the call. Then a value that was durable here at
    /// the call is linearizable.
    pub fn prove(&self) -> impl Future<Output = Result<(), AppendError>> + Send + 'static + use<R> {
        self.request(None)
    }

    /// Gives the stripe up after everything that was appended before, and proposes the next owner.
    pub fn yield_to(
        &self,
        node: NodeId,
    ) -> impl Future<Output = Result<(), AppendError>> + Send + 'static + use<R> {
        self.request(Some(node))
    }

    fn request(
        &self,
        yield_to: Option<NodeId>,
    ) -> impl Future<Output = Result<(), AppendError>> + Send + 'static + use<R> {
        let owner = if self.is_owner() { Ok(()) } else { Err(AppendError::Deposed) };
        let admitted = owner.and_then(|()| Ok(self.admission.reserve(1, 0).map_err(log_error)?));
        let sent = admitted.map(|admitted| {
            let (ticket, result) = Ticket::new(admitted);
            let command = match yield_to {
                None => Command::Prove(ticket),
                Some(node) => Command::Yield(node, ticket),
            };
            self.send(command, result)
        });
        async move { sent?.await }
    }

    fn send(
        &self,
        command: Command,
        result: oneshot::Receiver<()>,
    ) -> impl Future<Output = Result<(), AppendError>> + Send + 'static + use<R> {
        if let Some(commands) = &*lock(&self.commands) {
            // If the thread has ended, the ticket is dropped.
            drop(commands.send(command));
        }
        let end = Arc::clone(&self.end);
        async move { result.await.map_err(|_| end.error()) }
    }
}

fn limits<R: Registers>(registers: &R) -> Limits {
    let limits = registers.limits();
    let value = limits.value_bytes_max.min(limits.batch_bytes_max);
    let overhead = BATCH_ENTRIES_MAX * (ENTRY_OVERHEAD_MAX + ENTRY_START_MAX);
    Limits {
        entry_bytes_max: value.saturating_sub(HEAD_BYTES + ENTRY_OVERHEAD_MAX),
        batch_entries_max: BATCH_ENTRIES_MAX,
        batch_bytes_max: value.min(FRAME_BYTES_MAX).saturating_sub(HEAD_BYTES + overhead),
        headroom_bytes: 0,
    }
}

struct WriterThread<R> {
    durable: Arc<DurableLog>,
    writer: Writer<Ticket>,
    registers: Arc<R>,
    log: LogId,
    catalog: Arc<AtomicU64>,
    metrics: Arc<LogMetrics>,
    end: Arc<End>,
    clock: Arc<OnceLock<LogClock>>,
    proof_interval: Arc<AtomicU64>,
    subscribers: Subscribers,
}

impl<R: Registers> WriterThread<R> {
    /// Runs until the log is closed, or there is another owner.
    fn run(mut self, commands: &Receiver<Command>) {
        let (mut pause, mut sent) = (PAUSE_MIN, None);
        loop {
            if self.writer.is_idle() {
                let interval = Duration::from_millis(self.proof_interval.load(Ordering::Relaxed));
                match commands.recv_timeout(interval) {
                    Ok(command) => self.take(command),
                    Err(RecvTimeoutError::Timeout) => self.writer.prove_idle(),
                    Err(RecvTimeoutError::Disconnected) => return,
                }
            }
            while let Ok(command) = commands.try_recv() {
                self.take(command);
            }
            let millis = self.clock.get().map_or_else(millis, |clock| clock().as_nanos() / 1_000_000);
            let written = self.writer.write(self.catalog.load(Ordering::Relaxed), millis);
            let Some((slot, value)) = written else { continue };
            let first = *sent.get_or_insert_with(Instant::now);
            let result = block_on(write(&*self.registers, self.log, slot, &value));
            match self.writer.written(result) {
                Progress::Durable(tickets) => {
                    (pause, sent) = (PAUSE_MIN, None);
                    self.durable.accept(slot, &value);
                    self.metrics.wrote(first, value.len(), slot.next().0);
                    let ended = self.writer.has_ended();
                    if ended {
                        self.end.depose();
                    }
                    if let Some(frame) = self.writer.take_durable() {
                        lock(&self.subscribers).retain(|one| one.try_send(frame.clone()).is_ok());
                    }
                    tickets.into_iter().for_each(Ticket::complete);
                    if ended {
                        return;
                    }
                }
                Progress::Again if self.end.closing.load(Ordering::Relaxed) => return,
                Progress::Again => {
                    std::thread::sleep(pause);
                    pause = PAUSE_MAX.min(2 * pause);
                }
                Progress::Deposed(tickets) => {
                    // Before the tickets are dropped.
                    self.end.depose();
                    return drop(tickets);
                }
            }
        }
    }

    fn take(&mut self, command: Command) {
        match command {
            Command::Append(entries, ticket) => self.writer.append(entries, ticket),
            Command::Prove(ticket) => drop(self.writer.prove(ticket).map(Ticket::complete)),
            Command::Yield(node, ticket) => self.writer.yield_to(node, ticket),
        }
    }
}

impl Ticket {
    fn new(admitted: Admitted) -> (Self, oneshot::Receiver<()>) {
        let (done, result) = oneshot::channel();
        (Self { done, _admitted: admitted }, result)
    }

    fn complete(self) {
        let _caller_gone = self.done.send(());
    }
}

impl<R: Registers> PartitionLog for StripeLog<R> {
    type Reservation = Admitted;

    fn limits(&self) -> Limits {
        self.limits
    }

    fn reserve(&self, entries: usize, bytes: usize) -> Result<Admitted, AppendError> {
        self.durable.check_space()?;
        if !self.is_owner() || self.is_deposed() {
            return Err(AppendError::Deposed);
        }
        let overhead = entries * (ENTRY_OVERHEAD_MAX + ENTRY_START_MAX);
        Ok(self.admission.reserve(1, bytes + overhead).map_err(log_error)?)
    }

    fn append(
        &self,
        batch: &jeton_wal::Batch,
        admitted: Admitted,
    ) -> impl Future<Output = Result<(), AppendError>> + Send + 'static {
        let mut entries = Vec::with_capacity(batch.entry_bytes() + batch.len() * ENTRY_OVERHEAD_MAX);
        for (log, slot, bytes) in batch.iter() {
            encode_entry(PartitionId(log.0), slot, bytes, &mut entries);
        }
        let (ticket, result) = Ticket::new(admitted);
        self.send(Command::Append(entries, ticket), result)
    }

    fn replay<E: From<LogError>>(
        &self,
        mut visit: impl FnMut(EntryLocation, PartitionLogId, Slot, &[u8]) -> Result<(), E>,
    ) -> Result<(), E> {
        /// Keeps the error of the visitor apart.
        struct Stopped<E>(E);
        impl<E: From<LogError>> From<ChainError> for Stopped<E> {
            fn from(error: ChainError) -> Self {
                Self(LogError::from(error).into())
            }
        }
        let mut chain = if mutated!(SeedWithoutTail) { self.opened.clone() } else { self.base.clone() };
        let read = chain.read(&*self.registers, Slot(self.opened.next().0 - 1), |register, frame| {
            let Body::Entries(entries) = frame.body else { return Ok(()) };
            for (partition, slot, bytes) in entries.iter() {
                let at = EntryLocation::Register(register);
                visit(at, PartitionLogId(partition.0), slot, bytes).map_err(Stopped)?;
            }
            Ok(())
        });
        block_on(read).map_err(|Stopped(error)| error)?;
        if chain != self.opened {
            return Err(LogError::Damaged(format!("{} has lost frames", chain.log())).into());
        }
        Ok(())
    }

    /// As of the time when the log was opened.
    fn extent(&self, partition: PartitionId) -> Result<Extent, LogError> {
        Ok(Extent { trimmed: self.base.last_slot(partition), last: self.opened.last_slot(partition) })
    }

    /// Records what the stores contain. The registers are trimmed by [`Checkpoints`](crate::Checkpoints).
    fn trim(&self, trims: &[(PartitionLogId, Slot)]) -> Result<(), LogError> {
        let mut local = lock(&self.local);
        let mut next = local.clone();
        next.chain = self.durable.state().0;
        for (log, slot) in trims {
            next.raise(PartitionId(log.0), *slot);
        }
        next.store(&self.folder)?;
        *local = next;
        Ok(())
    }

    fn set_clock(&self, clock: LogClock) {
        let _only_once = self.clock.set(clock);
    }

    fn stop_waiting(&self) {
        self.end.closing.store(true, Ordering::Relaxed);
    }

    fn close(&self) {
        self.end();
    }
}

impl<R: Registers> BlobStore for StripeLog<R> {
    fn put_blob(&self, name: &str, blob: &Blob) -> Result<bool, LogError> {
        match name {
            STORE => Err(LogError::Invalid("the secret of a deployment does not change".into())),
            CATALOG if !self.is_owner() || self.is_deposed() => {
                Err(LogError::Unavailable("another node owns the stripe".into()))
            }
            CATALOG => write_catalog(&*self.registers, blob),
            _ => self.folder.put(name, blob),
        }
    }

    fn get_blob(&self, name: &str) -> Result<Option<Blob>, LogError> {
        match name {
            STORE => {
                let mut bytes = vec![STORE_VERSION];
                bytes.extend_from_slice(self.deployment.secret().as_bytes());
                Ok(Some(Blob { version: 1, bytes: bytes.into() }))
            }
            CATALOG => {
                let found = read_catalog(&*self.registers)?;
                let version = found.as_ref().map_or(0, |blob| blob.version);
                let needed = self.opened.catalog();
                if version < needed {
                    let why = format!("the log needs version {needed} of the catalogue; there is {version}");
                    return Err(LogError::Damaged(why));
                }
                Ok(found)
            }
            _ => self.folder.get(name),
        }
    }

    fn shared_catalog(&self) -> Option<&AtomicU64> {
        Some(&self.catalog)
    }
}

impl<R> StripeLog<R> {
    /// Ends the thread, after its write in flight.
    fn end(&self) {
        self.end.closing.store(true, Ordering::Relaxed);
        drop(lock(&self.commands).take());
        if let Some(thread) = lock(&self.thread).take() {
            thread.join().expect("a thread that panics ends the process");
        }
    }
}

impl<R> Drop for StripeLog<R> {
    fn drop(&mut self) {
        self.end();
    }
}
