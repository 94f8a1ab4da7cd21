//! The engine: a member of the cluster, as the registers that it gives access to.
//!
//! | thread | what it does |
//! |---|---|
//! | `jeton-raft` | owns the runtime, and ends it |
//! | `jeton-raft-*` | the runtime's own, for all tasks: Raft, the door, the queues, the way to a seat |
//!
//! What must hold: futures come to their end whoever polls them, because the work is done by tasks of our own runtime. Dropping the engine
//! ends all of it, and lets the folder go; to the others it is as if the process had been killed.

use std::future::Future;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use bytes::Bytes;
use jeton_register::{
    Batch, Blob, Error, Extent, Limits, LogId, LogKind, Registers, Slot, WritePermit, WriteResult,
};
use jeton_wal::disk::RealDisk;
use jeton_wal::spawn_aborting;
use openraft::error::Fatal;
use openraft::{Config, SnapshotPolicy};
use tokio::net::TcpListener;
use tokio::runtime::Runtime;
use tokio::sync::{mpsc, oneshot};
use tokio::time::Instant;

use crate::admission::{Budget, Reserved};
use crate::command::{Answer, Command, LogName, write_cost};
use crate::membership_view::{LastSeen, MemberView};
use crate::network::Network;
use crate::node::Node;
use crate::open_error::OpenError;
use crate::read_queue::{self, Reader};
use crate::settings::{Durability, LIMITS, Settings, WAITING_BYTES_MAX, WAITING_MAX};
use crate::state::State;
use crate::state_machine::{Machine, Shared};
use crate::storage::Storage;
use crate::types::Raft;
use crate::write_queue::{self, Job, WriteQueueSender};
use crate::{bootstrap, node_identity, rpc_server};

/// Threads of the runtime.
const THREADS: usize = 2;
/// How long tasks may take to end.
const END_TIME: Duration = Duration::from_secs(5);
/// How many entries that are in a snapshot are kept for members that are a little behind.
const ENTRIES_KEPT: u64 = 256;
/// A snapshot is sent in pieces of so many bytes.
const PIECE_BYTES: u64 = 1 << 20;

/// A member of a cluster of registers.
pub struct RaftRegisters {
    node: Arc<Node>,
    address: SocketAddr,
    changes: WriteQueueSender,
    readers: mpsc::UnboundedSender<Reader>,
    writes_waiting: Arc<Budget>,
    reads_waiting: Arc<Budget>,
    thread: Mutex<Option<(oneshot::Sender<()>, JoinHandle<()>)>>,
}

impl RaftRegisters {
    /// Starts a member. It finds the others by itself, founds the cluster with them if there is none, and comes to its seat; until then
    /// requests wait for as long as the [timing](crate::Timing::request) says.
    ///
    /// It fails if the settings cannot be, if the folder is in use, damaged or another member's, and if the port is taken. Whether the others can be reached, know the
    /// secret and have the same members in their settings is found out afterwards: the [failures](Error::Unavailable) of requests say
    /// so, and [`MemberView::trouble`] does.
    pub fn open(settings: Settings) -> Result<Self, OpenError> {
        settings.check()?;
        let settings = Arc::new(settings);
        let storage = match &settings.durability {
            Durability::Memory => Storage::in_memory()?,
            Durability::Disk(folder) => {
                let disk = RealDisk::new(folder).map_err(OpenError::io("cannot make the folder"))?;
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
        let shared = Shared::new(settings.snapshot_bytes);
        let heard = Arc::<LastSeen>::default();
        let machine = Machine::new(Arc::clone(&shared), storage.shelf)?;
        let network = Network { settings: Arc::clone(&settings), heard: Arc::clone(&heard) };
        let config = Arc::new(config(&settings)?);
        let identity = storage.identity;
        let listen = settings.listen.or(settings.address(settings.me));
        let started = runtime.block_on(async {
            let listen = listen.expect("the settings were checked");
            let listener = TcpListener::bind(listen).await;
            let listener = listener.map_err(OpenError::io(format!("cannot listen at {listen}")))?;
            let address = listener.local_addr().map_err(OpenError::io("where it listens is unknown"))?;
            let raft = Raft::new(identity, config, network, storage.entries, machine).await;
            Ok::<_, OpenError>((listener, address, raft.map_err(|error| OpenError::Raft(error.to_string()))?))
        });
        let (listener, address, raft) = match started {
            Ok(started) => started,
            Err(error) => {
                runtime.shutdown_timeout(END_TIME);
                return Err(error);
            }
        };
        let node =
            Arc::new(Node { settings, identity, raft, shared, heard, is_closing: AtomicBool::new(false) });
        let (changes, queue) = WriteQueueSender::new();
        let (readers, readers_end) = mpsc::unbounded_channel();
        runtime.spawn(rpc_server::serve(listener, Arc::clone(&node)));
        runtime.spawn(bootstrap::join_cluster(Arc::clone(&node)));
        runtime.spawn(write_queue::run(queue, Arc::clone(&node), node_identity::draw()?));
        runtime.spawn(read_queue::run(readers_end, Arc::clone(&node)));
        runtime.spawn(make_snapshots(Arc::clone(&node)));
        runtime.spawn(end_with_raft(Arc::clone(&node)));
        let (end, ended) = oneshot::channel();
        let thread = spawn_aborting("jeton-raft", move || {
            // Whether it is told or the engine is gone: it is the end.
            let _ = runtime.block_on(ended);
            runtime.shutdown_timeout(END_TIME);
        });
        let thread = thread.map_err(OpenError::io("cannot start a thread"))?;
        Ok(Self {
            node,
            address,
            changes,
            readers,
            writes_waiting: Budget::new(WAITING_MAX, WAITING_BYTES_MAX),
            reads_waiting: Budget::new(WAITING_MAX, usize::MAX),
            thread: Mutex::new(Some((end, thread))),
        })
    }

    /// The member that leads, as far as this one knows. One that leads, but has not heard of a majority for a while, does not say so of itself.
    pub fn leader(&self) -> Option<u64> {
        self.node.leader()
    }

    /// All members of the settings, as they look from here. The leader hears from all of them; the others from the leader.
    pub fn members(&self) -> Vec<MemberView> {
        self.node.members()
    }

    /// Whether this member votes: it has come to its seat. One whose log is in memory does so some time after each start.
    pub fn is_seated(&self) -> bool {
        self.node.is_seated()
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// How many bytes the registers and rows take in memory, about, as far as this member has come.
    pub fn state_bytes(&self) -> usize {
        self.node.shared.bytes()
    }

    /// Ends this member, and lets its folder go. What was under way is in doubt, what is asked afterwards is refused. Dropping it does the same.
    pub fn close(&self) {
        // Held until all has ended: whoever closes at the same time must not come back before.
        let mut thread = self.thread.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((end, thread)) = thread.take() {
            self.node.is_closing.store(true, Ordering::SeqCst);
            drop(end);
            thread.join().expect("a thread that panics ends the process");
        }
    }

    /// Whether the state may grow. Asked before anything is queued: what is refused there takes with it what waits behind it, and a trim that would make
    /// room must not be among that for ever.
    fn check_room(&self) -> Result<(), Error> {
        let (bytes, room) = (self.node.shared.bytes(), self.node.settings.state_bytes_max);
        if bytes > room {
            return Err(Error::Full(format!("registers and rows take {bytes} bytes, more than {room}")));
        }
        Ok(())
    }

    /// Gives a change to the queue. Its answer.
    fn change(
        &self,
        command: Result<Command, Error>,
        permit: Option<WritePermit>,
    ) -> impl Future<Output = Result<Answer, Error>> + Send + 'static + use<> {
        let given = command.and_then(|command| {
            let cost = command.cost();
            let holds = |permit: &WritePermit| {
                permit.reserved::<Reserved>().is_some_and(|reserved| reserved.bytes >= cost)
            };
            let permit = match permit.filter(holds) {
                Some(permit) => permit,
                None => {
                    if command.grows() {
                        self.check_room()?;
                    }
                    WritePermit::holding(self.writes_waiting.reserve(cost)?)
                }
            };
            let (answer, answered) = oneshot::channel();
            self.changes.give(Job { command, answer, permit, given: Instant::now() })?;
            Ok(answered)
        });
        async move {
            let lost = |_| Err(Error::Unknown("this member ended before there was an answer".into()));
            given?.await.unwrap_or_else(lost)
        }
    }

    /// Looks at the state when it has everything that is acknowledged by now.
    fn look<T: Send + 'static>(
        &self,
        look: impl FnOnce(&State) -> Result<T, Error> + Send + 'static,
    ) -> impl Future<Output = Result<T, Error>> + Send + 'static {
        let node = Arc::clone(&self.node);
        let given = self.reads_waiting.reserve(0).and_then(|room| {
            let (ready, answered) = oneshot::channel();
            let sent = self.readers.send(Reader { ready, room, given: Instant::now() });
            sent.map_err(|_| Error::Unavailable("this member has ended".into()))?;
            Ok(answered)
        });
        async move {
            let lost = |_| Err(Error::Unavailable("this member has ended".into()));
            given?.await.unwrap_or_else(lost)?;
            node.shared.with(look)
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
        snapshot_max_chunk_size: PIECE_BYTES,
        max_in_snapshot_log_to_keep: ENTRIES_KEPT,
        ..Config::default()
    };
    config.validate().map_err(|error| OpenError::Settings(error.to_string()))
}

/// Makes a snapshot whenever the log has become long in bytes; Raft itself counts entries.
async fn make_snapshots(node: Arc<Node>) {
    loop {
        node.shared.snapshot_due.notified().await;
        if node.raft.trigger().snapshot().await.is_err() {
            return;
        }
    }
}

/// Ends the process when Raft cannot go on: its log failed it, or it panicked. The rest would serve on, half dead.
async fn end_with_raft(node: Arc<Node>) {
    let mut metrics = node.raft.metrics();
    let Ok(last) = metrics.wait_for(|metrics| metrics.running_state.is_err()).await else { return };
    if let Err(fatal) = &last.running_state
        && *fatal != Fatal::Stopped
        && !node.is_closing.load(Ordering::SeqCst)
    {
        eprintln!("jeton: raft cannot go on: {fatal}");
        eprintln!("jeton: ending now; the next start finds everything that was acknowledged");
        std::process::abort();
    }
}

fn strange(answer: Answer) -> Error {
    Error::Unknown(format!("the answer is one to something else: {answer:?}"))
}

impl Registers for RaftRegisters {
    fn limits(&self) -> Limits {
        LIMITS
    }

    fn admit(&self, writes: usize, value_bytes: usize) -> Result<WritePermit, Error> {
        if writes > LIMITS.batch_writes_max || value_bytes > LIMITS.batch_bytes_max {
            return Err(Error::TooLarge(format!("a batch of {writes} writes and {value_bytes} bytes")));
        }
        self.check_room()?;
        self.writes_waiting.reserve(write_cost(writes, value_bytes)).map(WritePermit::holding)
    }

    fn write(
        &self,
        batch: Batch,
        permit: WritePermit,
    ) -> impl Future<Output = Result<Vec<WriteResult>, Error>> + Send + 'static {
        let answer = self.change(Command::write(&batch), Some(permit));
        async move {
            match answer.await? {
                Answer::Written(outcomes) => Ok(outcomes.into_iter().map(WriteResult::from).collect()),
                other => Err(strange(other)),
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
        self.look(move |state| Ok(state.extent(log)))
    }

    fn trim(&self, log: LogId, through: Slot) -> impl Future<Output = Result<(), Error>> + Send {
        let answer = self.change(Ok(Command::Trim { log: LogName(log), through: through.0 }), None);
        async move { answer.await.map(drop) }
    }

    fn retire(&self, space: LogKind, below: u128) -> impl Future<Output = Result<(), Error>> + Send {
        let from = LogName(LogId { kind: space, id: below });
        let answer = self.change(space.check_dated().map(|()| Command::Retire { from }), None);
        async move { answer.await.map(drop) }
    }

    fn put_blob(&self, name: &str, row: Blob) -> impl Future<Output = Result<bool, Error>> + Send {
        let answer = self.change(Command::put_blob(name, row), None);
        async move {
            match answer.await? {
                Answer::Stored(stored) => Ok(stored),
                other => Err(strange(other)),
            }
        }
    }

    fn get_blob(&self, name: &str) -> impl Future<Output = Result<Option<Blob>, Error>> + Send {
        let name = name.to_owned();
        self.look(move |state| Ok(state.rows.get(&name).cloned()))
    }
}
