//! A cluster in one process. Each pair of members is connected by a proxy, which can be cut.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use futures_executor::block_on;
use jeton_register::conformance::Routed;
use jeton_register::{Batch, Error, LogId, Registers, Slot, WriteResult};
use jeton_register_raft::{
    Durability, Member, MemberRole, OpenError, RaftRegisters, Secret, Settings, Timing,
};
use jeton_testbed::{Proxy, free_address};
use tempfile::TempDir;

/// The timeout of everything that a test waits for.
const TIMEOUT: Duration = Duration::from_secs(60);

pub struct Cluster {
    settings: Vec<Settings>,
    /// By caller and callee.
    proxies: BTreeMap<(u64, u64), Proxy>,
    members: Mutex<BTreeMap<u64, Arc<RaftRegisters>>>,
    requests: AtomicUsize,
    _network: tokio::runtime::Runtime,
    /// Dropped last: a member aborts the process if its directory is gone.
    _folder: TempDir,
}

impl Cluster {
    /// Three members, not started.
    pub fn new(in_memory: bool, change: impl Fn(&mut Settings)) -> Arc<Self> {
        Self::of(3, in_memory, change)
    }

    /// `count` members, not started.
    pub fn of(count: u64, in_memory: bool, change: impl Fn(&mut Settings)) -> Arc<Self> {
        let folder = tempfile::tempdir().unwrap();
        let network =
            tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
        let ids = 1..=count;
        let listen: BTreeMap<u64, SocketAddr> = ids.clone().map(|id| (id, free_address().unwrap())).collect();
        let mut proxies = BTreeMap::new();
        let mut all = Vec::new();
        for me in ids.clone() {
            let mut members = Vec::new();
            for id in ids.clone() {
                let address = if id == me {
                    listen[&id]
                } else {
                    let proxy = network.block_on(Proxy::start(listen[&id])).unwrap();
                    let address = proxy.address();
                    proxies.insert((me, id), proxy);
                    address
                };
                members.push(Member { id, address });
            }
            let durability = match in_memory {
                true => Durability::Memory,
                false => Durability::Disk(folder.path().join(me.to_string())),
            };
            let secret = Secret::new("the secret of the tests");
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
            proxies,
            members: Mutex::default(),
            requests: AtomicUsize::new(0),
            _network: network,
        })
    }

    /// Three running members.
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

    /// To the other members this is a crash.
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

    /// Drops all traffic of a member silently.
    pub fn isolate(&self, id: u64) {
        for proxy in self.proxies_of(id) {
            proxy.hold();
        }
    }

    /// Reconnects a member. The traffic in between is lost.
    pub fn rejoin(&self, id: u64) {
        for proxy in self.proxies_of(id) {
            proxy.cut();
            proxy.release();
        }
    }

    /// Reconnects one member to another, in this direction only.
    pub fn join(&self, from: u64, to: u64) {
        let proxy = &self.proxies[&(from, to)];
        proxy.cut();
        proxy.release();
    }

    fn proxies_of(&self, id: u64) -> impl Iterator<Item = &Proxy> {
        self.proxies.iter().filter(move |((from, to), _)| *from == id || *to == id).map(|(_, proxy)| proxy)
    }

    /// The member that reports itself as the leader.
    pub fn leader(&self) -> Option<u64> {
        let members = self.members.lock().unwrap();
        members.iter().find(|(id, member)| member.leader() == Some(**id)).map(|(id, _)| *id)
    }

    pub fn await_leader(&self) -> u64 {
        self.await_that("a leader", || self.leader())
    }

    /// Waits until all running members are voters and the leader knows them.
    pub fn await_whole(&self) {
        self.await_that("all members", || {
            let leader = self.leader()?;
            let members = self.members.lock().unwrap().clone();
            let all_vote = members.values().all(|member| member.is_voter());
            let views = members[&leader].members();
            (all_vote && views.iter().all(|view| view.role != MemberRole::NotAdmitted)).then_some(())
        });
    }

    pub fn await_that<T>(&self, what: &str, mut look: impl FnMut() -> Option<T>) -> T {
        let begin = Instant::now();
        loop {
            if let Some(found) = look() {
                return found;
            }
            assert!(begin.elapsed() < TIMEOUT, "{what}: not within {TIMEOUT:?}");
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    /// The running members, one after the other.
    fn next(&self) -> Result<Arc<RaftRegisters>, Error> {
        let members = self.members.lock().unwrap();
        let number = self.requests.fetch_add(1, Ordering::Relaxed);
        let member = members.values().nth(number % members.len().max(1)).cloned();
        member.ok_or_else(|| Error::Unavailable("no member is running".into()))
    }
}

/// Sends each request to the next member.
pub type Client = Routed<RaftRegisters>;

pub fn client(cluster: &Arc<Cluster>) -> Client {
    let cluster = Arc::clone(cluster);
    Routed::new(move || cluster.next())
}

/// Writes one register through one member.
pub fn write(member: &RaftRegisters, log: LogId, slot: u64, value: &[u8]) -> Result<WriteResult, Error> {
    let mut batch = Batch::new();
    batch.push(log, Slot(slot), value);
    let permit = member.admit(1, value.len())?;
    block_on(member.write(batch, permit)).map(|mut written| written.remove(0))
}

/// Writes one register through one member, with retries until it succeeds.
pub fn insist(member: &RaftRegisters, log: LogId, slot: u64, value: &[u8]) -> WriteResult {
    let begin = Instant::now();
    loop {
        match write(member, log, slot, value) {
            Ok(written) => return written,
            Err(error) => assert!(begin.elapsed() < TIMEOUT, "{error}"),
        }
    }
}
