//! Servers that can be killed, and clients that retry.

use std::sync::{Arc, Mutex, Weak};
use std::time::Duration;

use async_trait::async_trait;
use jeton_etx::{
    AttemptNumber, ClientOutcome, Coordinator, CoordinatorId, Options, PeerStatus, Peers, RequestId,
    TransactionService as _,
};
use jeton_register::memory::MemoryRegisters;
use tokio::runtime::Runtime;

use crate::bank::{Bank, CLUSTER, Transfer, Transfers};

/// Timeout after which a client sends to the next server, with the same id.
const TIMEOUT: Duration = Duration::from_secs(2);

struct ServerRuntime {
    server: Arc<Coordinator<MemoryRegisters>>,
    runtime: Runtime,
}

/// The servers by number; `None` for a dead one.
type Servers = Arc<Mutex<Vec<Option<ServerRuntime>>>>;

pub struct Cluster {
    registers: Arc<MemoryRegisters>,
    lives: Servers,
    incarnations: Mutex<u64>,
}

impl Cluster {
    pub fn start(bank: &Bank, servers: usize) -> Self {
        let lives: Servers = Arc::new(Mutex::new((0..servers).map(|_| None).collect()));
        let cluster =
            Self { registers: Arc::new(MemoryRegisters::new()), lives, incarnations: Mutex::new(0) };
        for number in 0..servers {
            cluster.restart(bank, number);
        }
        cluster
    }

    /// Starts a new incarnation of a server.
    pub fn restart(&self, bank: &Bank, number: usize) {
        let incarnation = {
            let mut incarnations = self.incarnations.lock().unwrap();
            *incarnations += 1;
            *incarnations
        };
        let runtime =
            tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
        let options = Options {
            procedure_timeout: Duration::from_secs(20),
            recovery_interval: Duration::from_millis(200),
            // Sessions are numbered here, not dated.
            window: Duration::MAX,
            ..Options::new(CLUSTER, number as u16, incarnation)
        };
        let peers = Arc::new(LocalPeers { lives: Arc::downgrade(&self.lives), own: number });
        let resources = runtime.block_on(bank.resources());
        let server =
            Coordinator::new(options, Arc::clone(&self.registers), resources, Arc::new(Transfers), peers);
        runtime.spawn(Arc::clone(&server).run_recovery());
        self.lives.lock().unwrap()[number] = Some(ServerRuntime { server, runtime });
    }

    /// Kills a server by dropping its runtime.
    pub fn kill(&self, number: usize) {
        let life = self.lives.lock().unwrap()[number].take();
        if let Some(life) = life {
            life.runtime.shutdown_background();
        }
    }

    fn server(&self, number: usize) -> Option<(Arc<Coordinator<MemoryRegisters>>, tokio::runtime::Handle)> {
        let lives = self.lives.lock().unwrap();
        let life = lives[number % lives.len()].as_ref()?;
        Some((Arc::clone(&life.server), life.runtime.handle().clone()))
    }
}

/// The other servers of this process. A missing one counts as dead.
struct LocalPeers {
    lives: Weak<Mutex<Vec<Option<ServerRuntime>>>>,
    own: usize,
}

#[async_trait]
impl Peers for LocalPeers {
    async fn executing(&self, request: RequestId, attempt: AttemptNumber) -> Option<CoordinatorId> {
        let lives = self.lives.upgrade()?;
        let lives = lives.lock().unwrap();
        let others = lives.iter().enumerate().filter(|(number, _)| *number != self.own);
        others.filter_map(|(_, life)| life.as_ref()?.server.executing(request, attempt)).next()
    }

    async fn status(
        &self,
        coordinator: CoordinatorId,
        request: RequestId,
        attempt: AttemptNumber,
    ) -> PeerStatus {
        let Some(lives) = self.lives.upgrade() else { return PeerStatus::Unreachable };
        let lives = lives.lock().unwrap();
        match &lives[usize::from(coordinator.server)] {
            None => PeerStatus::Suspected,
            Some(life) if life.server.is_working(coordinator, request, attempt) => PeerStatus::Working,
            Some(life) if life.server.identity().1 == coordinator.incarnation => PeerStatus::NotWorking,
            Some(_) => PeerStatus::Restarted,
        }
    }
}

/// A client with a session of its own.
pub struct Client {
    cluster: Arc<Cluster>,
    session: u128,
    sequence: u32,
    preferred: usize,
}

impl Client {
    pub fn new(cluster: &Arc<Cluster>) -> Self {
        static SESSIONS: std::sync::atomic::AtomicU64 = std::sync::atomic::AtomicU64::new(1);
        let number = SESSIONS.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        let session = 0x0192_8f00_0000_7000_8000_0000_0000_0000 + u128::from(number);
        Self { cluster: Arc::clone(cluster), session, sequence: 0, preferred: number as usize }
    }

    pub fn mint(&mut self) -> RequestId {
        self.sequence += 1;
        RequestId { session: self.session, sequence: self.sequence }
    }

    /// Retries until there is an answer.
    pub async fn ask(&mut self, id: RequestId, transfer: Transfer, mut is_first_time: bool) -> ClientOutcome {
        loop {
            if let Some((server, handle)) = self.cluster.server(self.preferred) {
                // On the runtime of the server, so that it ends with it.
                let request = transfer.request(id);
                let pending = handle.spawn(async move { server.issue(id, request, is_first_time).await });
                is_first_time = false;
                if let Ok(Ok(Ok(outcome))) = tokio::time::timeout(TIMEOUT, pending).await {
                    return outcome;
                }
            }
            self.preferred += 1;
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }
}
