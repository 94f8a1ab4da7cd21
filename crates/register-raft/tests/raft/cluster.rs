//! A cluster in one process. Each member reaches each other one through a network of its own, which can be cut.

use std::collections::BTreeMap;
use std::future::Future;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::pin::Pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use bytes::Bytes;
use futures_executor::block_on;
use jeton_register::{
    Batch, Blob, Error, Extent, Limits, LogId, LogKind, Registers, Slot, WritePermit, WriteResult,
};
use jeton_register_raft::{
    Durability, Member, MemberRole, OpenError, RaftRegisters, Secret, Settings, Timing,
};
use jeton_testbed::{Proxy, free_address};
use tempfile::TempDir;

/// How long the cluster may take to come to what a test waits for.
const PATIENCE: Duration = Duration::from_secs(60);

pub struct Cluster {
    _folder: TempDir,
    settings: Vec<Settings>,
    /// The networks, by who calls whom.
    lines: BTreeMap<(u64, u64), Proxy>,
    members: Mutex<BTreeMap<u64, Arc<RaftRegisters>>>,
    turn: AtomicUsize,
    _network: tokio::runtime::Runtime,
}

impl Cluster {
    /// Three members, none of them started.
    pub fn new(in_memory: bool, change: impl Fn(&mut Settings)) -> Arc<Self> {
        Self::of(3, in_memory, change)
    }

    /// So many members, none of them started.
    pub fn of(count: u64, in_memory: bool, change: impl Fn(&mut Settings)) -> Arc<Self> {
        let folder = tempfile::tempdir().unwrap();
        let network =
            tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
        let ids = 1..=count;
        let listen: BTreeMap<u64, SocketAddr> = ids.clone().map(|id| (id, free_address().unwrap())).collect();
        let mut lines = BTreeMap::new();
        let mut all = Vec::new();
        for me in ids.clone() {
            let mut members = Vec::new();
            for id in ids.clone() {
                let address = if id == me {
                    listen[&id]
                } else {
                    let line = network.block_on(Proxy::start(listen[&id])).unwrap();
                    let address = line.address();
                    lines.insert((me, id), line);
                    address
                };
                members.push(Member { id, address });
            }
            let durability = match in_memory {
                true => Durability::Memory,
                false => Durability::Disk(folder.path().join(me.to_string())),
            };
            let secret = Secret::new("a secret of the tests");
            let mut settings = Settings::new(me, members, secret, durability);
            settings.timing = Timing {
                heartbeat: Duration::from_millis(100),
                election: Duration::from_millis(500),
                request: Duration::from_secs(8),
                connect: Duration::from_millis(500),
            };
            settings.segment_bytes = 1 << 20;
            change(&mut settings);
            all.push(settings);
        }
        Arc::new(Self {
            _folder: folder,
            settings: all,
            lines,
            members: Mutex::default(),
            turn: AtomicUsize::new(0),
            _network: network,
        })
    }

    /// Three members at work.
    pub fn started(in_memory: bool) -> Arc<Self> {
        let cluster = Self::new(in_memory, |_| {});
        cluster.start_all();
        cluster
    }

    pub fn ids(&self) -> Vec<u64> {
        self.settings.iter().map(|settings| settings.me).collect()
    }

    pub fn settings(&self, id: u64) -> Settings {
        self.settings.iter().find(|settings| settings.me == id).unwrap().clone()
    }

    pub fn folder(&self, id: u64) -> PathBuf {
        match self.settings(id).durability {
            Durability::Disk(folder) => folder,
            Durability::Memory => panic!("a member in memory has no folder"),
        }
    }

    pub fn try_start(&self, id: u64) -> Result<(), OpenError> {
        let member = RaftRegisters::open(self.settings(id))?;
        self.members.lock().unwrap().insert(id, Arc::new(member));
        Ok(())
    }

    pub fn start(&self, id: u64) {
        self.try_start(id).unwrap();
    }

    pub fn start_all(&self) {
        self.ids().into_iter().for_each(|id| self.start(id));
    }

    /// As if it were killed.
    pub fn crash(&self, id: u64) {
        let member = self.members.lock().unwrap().remove(&id);
        if let Some(member) = member {
            member.close();
        }
    }

    pub fn crash_all(&self) {
        self.ids().into_iter().for_each(|id| self.crash(id));
    }

    pub fn member(&self, id: u64) -> Arc<RaftRegisters> {
        Arc::clone(&self.members.lock().unwrap()[&id])
    }

    /// Nothing goes from or to it, and nobody is told so.
    pub fn isolate(&self, id: u64) {
        for line in self.lines_of(id) {
            line.hold();
        }
    }

    /// Heals the network of a member; what was held is lost.
    pub fn rejoin(&self, id: u64) {
        for line in self.lines_of(id) {
            line.cut();
            line.release();
        }
    }

    /// Heals the network from one member to another alone.
    pub fn join(&self, from: u64, to: u64) {
        let line = &self.lines[&(from, to)];
        line.cut();
        line.release();
    }

    fn lines_of(&self, id: u64) -> impl Iterator<Item = &Proxy> {
        self.lines.iter().filter(move |((from, to), _)| *from == id || *to == id).map(|(_, line)| line)
    }

    /// The member that says of itself that it leads.
    pub fn leader(&self) -> Option<u64> {
        let members = self.members.lock().unwrap();
        members.iter().find(|(id, member)| member.leader() == Some(**id)).map(|(id, _)| *id)
    }

    pub fn await_leader(&self) -> u64 {
        self.await_that("a leader", || self.leader())
    }

    /// Until all members that run have come to their seats and are heard of by the leader.
    pub fn await_whole(&self) {
        self.await_that("all members", || {
            let leader = self.leader()?;
            let members = self.members.lock().unwrap().clone();
            let seated = members.values().all(|member| member.is_seated());
            let standing = members[&leader].members();
            (seated && standing.iter().all(|view| view.standing != MemberRole::Outside)).then_some(())
        });
    }

    pub fn await_that<T>(&self, what: &str, mut look: impl FnMut() -> Option<T>) -> T {
        let begin = Instant::now();
        loop {
            if let Some(found) = look() {
                return found;
            }
            assert!(begin.elapsed() < PATIENCE, "{what}: not within {PATIENCE:?}");
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    /// One member after the other, of those that run.
    fn next(&self) -> Result<Arc<RaftRegisters>, Error> {
        let members = self.members.lock().unwrap();
        let turn = self.turn.fetch_add(1, Ordering::Relaxed);
        let member = members.values().nth(turn % members.len().max(1)).cloned();
        member.ok_or_else(|| Error::Unavailable("no member runs".into()))
    }
}

/// Asks the members by turns.
pub struct Client(pub Arc<Cluster>);

impl Registers for Client {
    fn limits(&self) -> Limits {
        Limits::default()
    }

    fn admit(&self, writes: usize, value_bytes: usize) -> Result<WritePermit, Error> {
        self.0.next()?.admit(writes, value_bytes)
    }

    fn write(
        &self,
        batch: Batch,
        permit: WritePermit,
    ) -> impl Future<Output = Result<Vec<WriteResult>, Error>> + Send + 'static {
        // The work begins when it is asked for, not when it is waited for.
        type Answer = Pin<Box<dyn Future<Output = Result<Vec<WriteResult>, Error>> + Send>>;
        let answer = self.0.next().map(|member| -> Answer { Box::pin(member.write(batch, permit)) });
        async move { answer?.await }
    }

    async fn read(&self, log: LogId, from: Slot, limit: usize) -> Result<Vec<(Slot, Bytes)>, Error> {
        self.0.next()?.read(log, from, limit).await
    }

    async fn extent(&self, log: LogId) -> Result<Extent, Error> {
        self.0.next()?.extent(log).await
    }

    async fn trim(&self, log: LogId, through: Slot) -> Result<(), Error> {
        self.0.next()?.trim(log, through).await
    }

    async fn retire(&self, space: LogKind, below: u128) -> Result<(), Error> {
        self.0.next()?.retire(space, below).await
    }

    async fn put_blob(&self, name: &str, row: Blob) -> Result<bool, Error> {
        self.0.next()?.put_blob(name, row).await
    }

    async fn get_blob(&self, name: &str) -> Result<Option<Blob>, Error> {
        self.0.next()?.get_blob(name).await
    }
}

/// Writes one register through one member.
pub fn write(member: &RaftRegisters, log: LogId, slot: u64, value: &[u8]) -> Result<WriteResult, Error> {
    let mut batch = Batch::new();
    batch.push(log, Slot(slot), value);
    let permit = member.admit(1, value.len())?;
    block_on(member.write(batch, permit)).map(|mut written| written.remove(0))
}

/// Writes one register through one member, again and again until it is answered.
pub fn insist(member: &RaftRegisters, log: LogId, slot: u64, value: &[u8]) -> WriteResult {
    let begin = Instant::now();
    loop {
        match write(member, log, slot, value) {
            Ok(written) => return written,
            Err(failure) => assert!(begin.elapsed() < PATIENCE, "{failure}"),
        }
    }
}
