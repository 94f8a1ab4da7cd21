//! The log of a stripe, as its owner uses it: frames in write-once registers, written by a thread.

use std::future::Future;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use bytes::Bytes;
use futures_executor::block_on;
use jeton_core::{PartitionId, mutated};
use jeton_engine::{
    AppendError, BlobStore, CATALOG, Clock, EntryLocation, PartitionLog, STORE, STORE_VERSION, SystemClock,
};
use jeton_register::{Admission, Admitted, Batch, Error, LogId, Registers, WriteResult};
use jeton_wal::{Blob, Error as LogError, Extent, Limits, LogId as PartitionLogId, Slot, spawn_aborting};
use tokio::sync::oneshot;

use crate::blobs::{CacheFolder, read_catalog, write_catalog};
use crate::chain::{Chain, ChainError};
use crate::claimant::{ClaimProgress, Claimant};
use crate::deployment::{Deployment, Stripe};
use crate::frame::{Body, ENTRY_OVERHEAD_MAX, HEAD_BYTES, NodeId, Owner, encode_entry};
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
const PAUSE_MIN: Duration = Duration::from_millis(5);
const PAUSE_MAX: Duration = Duration::from_millis(500);

/// The most bytes of frames that no checkpoint contains. Beyond it writes are refused.
const LOG_BYTES_MAX: u64 = 1 << 30;

/// Writes of a claim without a result, after which it is given up.
const CLAIM_WRITES_MAX: u32 = 10;

/// The log of a stripe in registers, in the term that began when it was opened.
///
/// The stores of a node are caches. The log is trimmed when a [checkpoint](crate::Checkpoints) in the registers
/// contains what a node with an empty directory needs.
pub struct StripeLog<R> {
    registers: Arc<R>,
    deployment: Deployment,
    /// As of the checkpoint that the log was read from, and as of the claim.
    base: Chain,
    claimed: Chain,
    durable: Arc<Durable>,
    /// What the stores in the directory contain.
    local: Mutex<LocalCheckpoint>,
    next_object: AtomicU32,
    limits: Limits,
    admission: Arc<Admission>,
    /// The version of the catalogue, for the next frame.
    catalog: Arc<AtomicU64>,
    end: Arc<End>,
    /// `None` once the log is closed.
    commands: Mutex<Option<Sender<Command>>>,
    thread: Mutex<Option<JoinHandle<()>>>,
    folder: CacheFolder,
}

/// The log as far as this node knows it to be durable.
struct Durable {
    chain: Mutex<Chain>,
    /// Bytes of the frames since the checkpoint that the log was read from, and those of them that a later
    /// checkpoint contains.
    bytes: AtomicU64,
    trimmed_bytes: AtomicU64,
}

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

/// No panic leaves the values inconsistent.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The wall clock, for display.
fn millis() -> u64 {
    SystemClock::default().wall().as_nanos() / 1_000_000
}

async fn write<R: Registers>(
    registers: &R,
    log: LogId,
    slot: Slot,
    value: &Bytes,
) -> Result<WriteResult, Error> {
    let mut batch = Batch::new();
    batch.push(log, slot, value);
    let permit = registers.admit(1, value.len())?;
    let results = registers.write(batch, permit).await?;
    results.into_iter().next().ok_or_else(|| Error::Unknown("no result".into()))
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
        let stripe = deployment.stripe(number).ok_or(OpenError::NoStripe(number))?;
        let empty = deployment.chain(stripe);
        let folder = CacheFolder::open(folder, empty.before())?;
        let seed::Prepared { base, end, bytes, local } = seed::prepare(&*registers, &folder, &empty)?;
        let claimed = claim(&*registers, end, me)?;

        let catalog = Arc::new(AtomicU64::new(claimed.catalog()));
        let end = Arc::<End>::default();
        let (commands, received) = channel();
        let durable = Arc::new(Durable {
            chain: Mutex::new(claimed.clone()),
            bytes: AtomicU64::new(bytes),
            trimmed_bytes: AtomicU64::new(0),
        });
        let thread = WriterThread {
            durable: Arc::clone(&durable),
            writer: Writer::new(&claimed, FRAME_BYTES_MAX),
            registers: Arc::clone(&registers),
            log: claimed.log(),
            catalog: Arc::clone(&catalog),
            end: Arc::clone(&end),
        };
        let thread = spawn_aborting("jeton-stripe", move || thread.run(&received));
        let io_error = |source| OpenError::Io { path: "the thread of the stripe".into(), source };
        Ok(Self {
            limits: limits(&*registers),
            registers,
            deployment,
            base,
            claimed,
            durable,
            local: Mutex::new(local),
            next_object: AtomicU32::new(0),
            admission: Admission::new(REQUESTS_MAX, REQUEST_BYTES_MAX),
            catalog,
            end,
            commands: Mutex::new(Some(commands)),
            thread: Mutex::new(Some(thread.map_err(io_error)?)),
            folder,
        })
    }

    /// The slot of the claim.
    pub fn term(&self) -> Slot {
        self.claimed.term()
    }

    pub(crate) fn registers(&self) -> &R {
        &self.registers
    }

    pub(crate) fn stripe(&self) -> &Stripe {
        self.base.stripe()
    }

    pub(crate) fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// The state of the chain after the last durable frame, and the bytes of frames up to there.
    pub(crate) fn durable(&self) -> (Chain, u64) {
        let chain = lock(&self.durable.chain);
        (chain.clone(), self.durable.bytes.load(Ordering::Relaxed))
    }

    /// The log is trimmed for these bytes of frames.
    pub(crate) fn trimmed(&self, bytes: u64) {
        self.durable.trimmed_bytes.fetch_max(bytes, Ordering::Relaxed);
    }

    /// Bytes of the frames that no checkpoint contains.
    pub fn log_bytes(&self) -> u64 {
        let trimmed = self.durable.trimmed_bytes.load(Ordering::Relaxed);
        self.durable.bytes.load(Ordering::Relaxed).saturating_sub(trimmed)
    }

    /// A number for an object, which is used once in a term.
    pub(crate) fn next_object(&self) -> u32 {
        self.next_object.fetch_add(1, Ordering::Relaxed)
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
        let sent = self.admission.reserve(1, 0).map(|admitted| {
            let (ticket, result) = Ticket::new(admitted);
            let command = match yield_to {
                None => Command::Prove(ticket),
                Some(node) => Command::Yield(node, ticket),
            };
            self.send(command, result)
        });
        async move { sent.map_err(log_error)?.await }
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

fn claim<R: Registers>(registers: &R, chain: Chain, me: Owner) -> Result<Chain, OpenError> {
    let log = chain.log();
    let mut claimant = Claimant::new(chain, me);
    let mut pause = PAUSE_MIN;
    for _ in 0..CLAIM_WRITES_MAX {
        let (slot, value) = claimant.write(millis());
        let result = block_on(write(registers, log, slot, &value));
        let failed = result.is_err();
        claimant = match claimant.written(result)? {
            ClaimProgress::Claimed(chain) => return Ok(chain),
            ClaimProgress::GaveUp(chain) => {
                return Err(OpenError::Owned(chain.owner().map_or(me.node, |owner| owner.node)));
            }
            ClaimProgress::Again(claimant) => claimant,
        };
        if failed {
            std::thread::sleep(pause);
            pause = PAUSE_MAX.min(2 * pause);
        }
    }
    Err(Error::Unavailable("no result of the claim".into()).into())
}

struct WriterThread<R> {
    durable: Arc<Durable>,
    writer: Writer<Ticket>,
    registers: Arc<R>,
    log: LogId,
    catalog: Arc<AtomicU64>,
    end: Arc<End>,
}

impl<R: Registers> WriterThread<R> {
    /// Runs until the log is closed, or there is another owner.
    fn run(mut self, commands: &Receiver<Command>) {
        let mut pause = PAUSE_MIN;
        loop {
            if self.writer.is_idle() {
                let Ok(command) = commands.recv() else { return };
                self.take(command);
            }
            while let Ok(command) = commands.try_recv() {
                self.take(command);
            }
            let written = self.writer.write(self.catalog.load(Ordering::Relaxed), millis());
            let Some((slot, value)) = written else { continue };
            let result = block_on(write(&*self.registers, self.log, slot, &value));
            match self.writer.written(result) {
                Progress::Durable(tickets) => {
                    pause = PAUSE_MIN;
                    self.durable.accept(slot, &value);
                    let ended = self.writer.has_ended();
                    if ended {
                        self.end.depose();
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

impl Durable {
    fn accept(&self, slot: Slot, frame: &[u8]) {
        let mut chain = lock(&self.chain);
        chain.accept(slot, frame).expect("the owner wrote the frame after the one before it");
        self.bytes.fetch_add(frame.len() as u64, Ordering::Relaxed);
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
        let log_bytes = self.log_bytes();
        if log_bytes > LOG_BYTES_MAX {
            let why = format!("{log_bytes} bytes of the stripe are in no checkpoint");
            return Err(LogError::Full(why).into());
        }
        if self.is_deposed() {
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
        let mut chain = if mutated!(SeedWithoutTail) { self.claimed.clone() } else { self.base.clone() };
        let read = chain.read(&*self.registers, self.term(), |register, frame| {
            let Body::Entries(entries) = frame.body else { return Ok(()) };
            for (partition, slot, bytes) in entries.iter() {
                let at = EntryLocation::Register(register);
                visit(at, PartitionLogId(partition.0), slot, bytes).map_err(Stopped)?;
            }
            Ok(())
        });
        block_on(read).map_err(|Stopped(error)| error)?;
        if chain != self.claimed {
            return Err(LogError::Damaged(format!("{} has lost frames", chain.log())).into());
        }
        Ok(())
    }

    /// As of the claim.
    fn extent(&self, partition: PartitionId) -> Result<Extent, LogError> {
        Ok(Extent { trimmed: self.base.last_slot(partition), last: self.claimed.last_slot(partition) })
    }

    /// Records what the stores contain. The registers are trimmed by [`Checkpoints`](crate::Checkpoints).
    fn trim(&self, trims: &[(PartitionLogId, Slot)]) -> Result<(), LogError> {
        let mut local = lock(&self.local);
        let mut next = local.clone();
        next.chain = self.durable().0;
        for (log, slot) in trims {
            next.raise(PartitionId(log.0), *slot);
        }
        next.store(&self.folder)?;
        *local = next;
        Ok(())
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
            CATALOG if self.is_deposed() => Err(LogError::Unavailable("another node owns the stripe".into())),
            CATALOG => {
                write_catalog(&*self.registers, blob)?;
                self.catalog.fetch_max(blob.version, Ordering::Relaxed);
                Ok(true)
            }
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
                let needed = self.claimed.catalog();
                if version < needed {
                    let why = format!("the log needs version {needed} of the catalogue; there is {version}");
                    return Err(LogError::Damaged(why));
                }
                self.catalog.fetch_max(version, Ordering::Relaxed);
                Ok(found)
            }
            _ => self.folder.get(name),
        }
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
