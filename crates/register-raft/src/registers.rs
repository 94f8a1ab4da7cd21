//! The register engine of a member.
//!
//! | thread | task |
//! |---|---|
//! | `jeton-raft` | owns the runtime, and shuts it down |
//! | `jeton-raft-work` | the threads of the runtime: Raft, the RPC server, the queues, bootstrap |
//!
//! Futures complete on any executor, because tasks of the own runtime do the work. Dropping the engine ends
//! all of them and releases the directory; the other members observe it as a crash.

use std::future::Future;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use bytes::Bytes;
use jeton_register::{
    Admission, Admitted, Batch, Blob, Error, Extent, Limits, LogId, LogKind, Registers, Slot, WritePermit,
    WriteQueue, WriteResult,
};
use jeton_wal::disk::RealDisk;
use jeton_wal::{abort_process, spawn_aborting};
use openraft::error::Fatal;
use openraft::{Config, SnapshotPolicy};
use tokio::net::TcpListener;
use tokio::runtime::Runtime;
use tokio::sync::{mpsc, oneshot};
use tokio::time::Instant;

use crate::command::{Command, CommandResult, LogName, write_cost};
use crate::membership_view::{LastSeen, MemberView};
use crate::network::Network;
use crate::node::Node;
use crate::open_error::OpenError;
use crate::read_queue::{self, PendingRead};
use crate::settings::{Durability, IN_FLIGHT_BYTES_MAX, IN_FLIGHT_MAX, LIMITS, Settings};
use crate::state::State;
use crate::state_machine::{SharedState, StateMachine};
use crate::storage::Storage;
use crate::types::Raft;
use crate::{bootstrap, node_identity, rpc_server, write_task};

/// Threads of the runtime.
const THREADS: usize = 2;
/// How long a shutdown waits for the tasks.
const SHUTDOWN_TIMEOUT: Duration = Duration::from_secs(5);
/// Entries that are kept after a snapshot, for members that are a little behind.
const ENTRIES_KEPT: u64 = 256;
/// A snapshot is sent in chunks of this length.
const CHUNK_BYTES: u64 = 1 << 20;

/// A member of a cluster of registers.
pub struct RaftRegisters {
    node: Arc<Node>,
    address: SocketAddr,
    writes: WriteQueue<Command, CommandResult>,
    reads: mpsc::UnboundedSender<PendingRead>,
    write_admission: Arc<Admission>,
    read_admission: Arc<Admission>,
    thread: Mutex<Option<(oneshot::Sender<()>, JoinHandle<()>)>>,
}

impl RaftRegisters {
    /// Starts a member. It connects to the others, bootstraps the cluster with them if there is none, and
    /// gets admitted as a voter. Until then requests wait for the [request timeout](crate::Timing::request).
    ///
    /// Fails if the settings are invalid, the port is taken, or the directory is in use, damaged or another
    /// member's. An unreachable member, another secret and other members in the settings are reported by
    /// [`Error::Unavailable`] of requests, and by [`MemberView::last_error`].
    pub fn open(settings: Settings) -> Result<Self, OpenError> {
        settings.check()?;
        let settings = Arc::new(settings);
        let storage = match &settings.durability {
            Durability::Memory => Storage::in_memory()?,
            Durability::Disk(folder) => {
                let disk = RealDisk::new(folder).map_err(OpenError::io("cannot create the directory"))?;
                let mut options = jeton_wal::Options::default();
                options.owner = format!("member {}", settings.me);
                options.segment_bytes = settings.segment_bytes;
                options.in_flight_bytes_max =
                    options.in_flight_bytes_max.max(settings.segment_bytes as usize);
                Storage::on_disk(disk, options, settings.me)?
            }
        };
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(THREADS)
            .thread_name("jeton-raft-work")
            .enable_all()
            .build()
            .map_err(OpenError::io("cannot start the runtime"))?;
        Self::start(runtime, settings, storage)
    }

    fn start(
        runtime: Runtime,
        settings: Arc<Settings>,
        storage: Storage<RealDisk>,
    ) -> Result<Self, OpenError> {
        let shared = SharedState::new(settings.snapshot_bytes);
        let last_seen = Arc::<LastSeen>::default();
        let machine = StateMachine::new(Arc::clone(&shared), storage.snapshots)?;
        let network = Network { settings: Arc::clone(&settings), last_seen: Arc::clone(&last_seen) };
        let config = Arc::new(config(&settings)?);
        let identity = storage.identity;
        let listen = settings.listen.or(settings.address(settings.me));
        let started = runtime.block_on(async {
            let listen = listen.expect("the settings were checked");
            let listener = TcpListener::bind(listen).await;
            let listener = listener.map_err(OpenError::io(format!("cannot listen on {listen}")))?;
            let address = listener.local_addr().map_err(OpenError::io("unknown listen address"))?;
            let raft = Raft::new(identity, config, network, storage.log, machine).await;
            Ok::<_, OpenError>((listener, address, raft.map_err(|error| OpenError::Raft(error.to_string()))?))
        });
        let (listener, address, raft) = match started {
            Ok(started) => started,
            Err(error) => {
                runtime.shutdown_timeout(SHUTDOWN_TIMEOUT);
                return Err(error);
            }
        };
        let is_closing = AtomicBool::new(false);
        let node = Arc::new(Node { settings, identity, raft, shared, last_seen, is_closing });
        let (writes, write_receiver) = WriteQueue::new();
        let (reads, read_receiver) = mpsc::unbounded_channel();
        runtime.spawn(rpc_server::serve(listener, Arc::clone(&node)));
        runtime.spawn(bootstrap::join_cluster(Arc::clone(&node)));
        runtime.spawn(write_task::run(write_receiver, Arc::clone(&node), node_identity::draw()?));
        runtime.spawn(read_queue::run(read_receiver, Arc::clone(&node)));
        runtime.spawn(make_snapshots(Arc::clone(&node)));
        runtime.spawn(abort_with_raft(Arc::clone(&node)));
        let (end, ended) = oneshot::channel();
        let thread = spawn_aborting("jeton-raft", move || {
            // Resolves when `end` is dropped.
            let _ = runtime.block_on(ended);
            runtime.shutdown_timeout(SHUTDOWN_TIMEOUT);
        });
        let thread = thread.map_err(OpenError::io("cannot start a thread"))?;
        Ok(Self {
            node,
            address,
            writes,
            reads,
            write_admission: Admission::new(IN_FLIGHT_MAX, IN_FLIGHT_BYTES_MAX),
            read_admission: Admission::new(IN_FLIGHT_MAX, usize::MAX),
            thread: Mutex::new(Some((end, thread))),
        })
    }

    /// The member that leads, as far as this member knows. A leader that has not heard from a majority
    /// recently does not report itself.
    pub fn leader(&self) -> Option<u64> {
        self.node.leader()
    }

    /// All members in the settings, as this member sees them.
    pub fn members(&self) -> Vec<MemberView> {
        self.node.members()
    }

    /// Whether this member is admitted as a voter. With its log in memory it is so only some time after each
    /// start.
    pub fn is_voter(&self) -> bool {
        self.node.is_voter()
    }

    /// The address that it listens on.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// The memory that the registers and blobs take, about, as far as this member has applied the log.
    pub fn state_bytes(&self) -> usize {
        self.node.shared.bytes()
    }

    /// Ends this member and releases its directory. The outcome of requests in flight is unknown; later ones
    /// are refused. Dropping it does the same.
    pub fn close(&self) {
        // Locked until all tasks have ended: a second caller must not return before.
        let mut thread = self.thread.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((end, thread)) = thread.take() {
            self.node.is_closing.store(true, Ordering::SeqCst);
            drop(end);
            thread.join().expect("a thread that panics aborts the process");
        }
    }

    /// Whether the state may grow. Checked before a write is queued: a write that fails in the queue also
    /// fails the requests behind it, and a trim that would free space must not be among them again and again.
    fn check_space(&self) -> Result<(), Error> {
        let (bytes, max) = (self.node.shared.bytes(), self.node.settings.state_bytes_max);
        if bytes > max {
            return Err(Error::Full(format!("registers and blobs take {bytes} bytes; the limit is {max}")));
        }
        Ok(())
    }

    /// Queues a change, and returns its result.
    fn change(
        &self,
        command: Result<Command, Error>,
        permit: Option<WritePermit>,
    ) -> impl Future<Output = Result<CommandResult, Error>> + Send + 'static + use<> {
        let queued = command.and_then(|command| {
            let cost = command.cost();
            let covers = |permit: &WritePermit| {
                let admitted = permit.reserved::<Admitted>();
                admitted.is_some_and(|admitted| admitted.covers(&self.write_admission, 1, cost))
            };
            let permit = match permit.filter(covers) {
                Some(permit) => permit,
                None => {
                    if command.grows() {
                        self.check_space()?;
                    }
                    WritePermit::holding(self.write_admission.reserve(1, cost)?)
                }
            };
            self.writes.submit(command, permit)
        });
        async move {
            let lost = |_| Err(Error::Unknown("the member was closed before the response".into()));
            queued?.await.unwrap_or_else(lost)
        }
    }

    /// Reads the state once it contains everything that is acknowledged now.
    fn look<T: Send + 'static>(
        &self,
        read: impl FnOnce(&State) -> Result<T, Error> + Send + 'static,
    ) -> impl Future<Output = Result<T, Error>> + Send + 'static {
        let closed = |()| Error::Unavailable("the member is closed".into());
        let node = Arc::clone(&self.node);
        let queued = self.read_admission.reserve(1, 0).and_then(|admitted| {
            let (ready, applied) = oneshot::channel();
            let read = PendingRead { ready, admitted, submitted: Instant::now() };
            self.reads.send(read).map(|()| applied).map_err(|_| closed(()))
        });
        async move {
            queued?.await.unwrap_or_else(|_| Err(closed(())))?;
            node.shared.with(read)
        }
    }
}

impl Drop for RaftRegisters {
    fn drop(&mut self) {
        self.close();
    }
}

fn config(settings: &Settings) -> Result<Config, OpenError> {
    let millis = |time: Duration| time.as_millis() as u64;
    let config = Config {
        cluster_name: "jeton".into(),
        heartbeat_interval: millis(settings.timing.heartbeat),
        election_timeout_min: millis(settings.timing.election),
        election_timeout_max: millis(settings.timing.election_max()),
        install_snapshot_timeout: millis(settings.timing.request),
        snapshot_policy: SnapshotPolicy::LogsSinceLast(settings.snapshot_entries),
        snapshot_max_chunk_size: CHUNK_BYTES,
        max_in_snapshot_log_to_keep: ENTRIES_KEPT,
        ..Config::default()
    };
    config.validate().map_err(|error| OpenError::Settings(error.to_string()))
}

/// Makes a snapshot whenever the log is long in bytes; openraft itself counts entries.
async fn make_snapshots(node: Arc<Node>) {
    loop {
        node.shared.snapshot_due.notified().await;
        if node.raft.trigger().snapshot().await.is_err() {
            return;
        }
    }
}

/// Aborts the process when Raft fails because of a log error or a panic: the member could not execute
/// requests any more.
async fn abort_with_raft(node: Arc<Node>) {
    let mut metrics = node.raft.metrics();
    let Ok(last) = metrics.wait_for(|metrics| metrics.running_state.is_err()).await else { return };
    if let Err(fatal) = &last.running_state
        && *fatal != Fatal::Stopped
        && !node.is_closing.load(Ordering::SeqCst)
    {
        abort_process(&format!("raft failed: {fatal}"));
    }
}

fn unexpected(result: &CommandResult) -> Error {
    Error::Unknown(format!("the result of another command: {result:?}"))
}

impl Registers for RaftRegisters {
    fn limits(&self) -> Limits {
        LIMITS
    }

    fn admit(&self, writes: usize, value_bytes: usize) -> Result<WritePermit, Error> {
        LIMITS.check_batch(writes, value_bytes)?;
        self.check_space()?;
        self.write_admission.reserve(1, write_cost(writes, value_bytes)).map(WritePermit::holding)
    }

    fn write(
        &self,
        batch: Batch,
        permit: WritePermit,
    ) -> impl Future<Output = Result<Vec<WriteResult>, Error>> + Send + 'static {
        let result = self.change(Command::write(&batch), Some(permit));
        async move {
            match result.await? {
                CommandResult::Written(outcomes) => Ok(outcomes.into_iter().map(WriteResult::from).collect()),
                other => Err(unexpected(&other)),
            }
        }
    }

    fn read(
        &self,
        log: LogId,
        from: Slot,
        limit: usize,
    ) -> impl Future<Output = Result<Vec<(Slot, Bytes)>, Error>> + Send {
        self.look(move |state| state.read(log, from, limit))
    }

    fn extent(&self, log: LogId) -> impl Future<Output = Result<Extent, Error>> + Send {
        self.look(move |state| Ok(state.registers.extent(log)))
    }

    fn trim(&self, log: LogId, through: Slot) -> impl Future<Output = Result<(), Error>> + Send {
        let result = self.change(Ok(Command::Trim { log: LogName(log), through: through.0 }), None);
        async move { result.await.map(drop) }
    }

    fn retire(&self, kind: LogKind, below: u128) -> impl Future<Output = Result<(), Error>> + Send {
        let below = LogName(LogId { kind, id: below });
        let result = self.change(kind.check_dated().map(|()| Command::Retire { below }), None);
        async move { result.await.map(drop) }
    }

    fn put_blob(&self, name: &str, blob: Blob) -> impl Future<Output = Result<bool, Error>> + Send {
        let result = self.change(Command::put_blob(name, blob), None);
        async move {
            match result.await? {
                CommandResult::Stored(stored) => Ok(stored),
                other => Err(unexpected(&other)),
            }
        }
    }

    fn get_blob(&self, name: &str) -> impl Future<Output = Result<Option<Blob>, Error>> + Send {
        let name = name.to_owned();
        self.look(move |state| Ok(state.blobs.get(&name).cloned()))
    }
}
