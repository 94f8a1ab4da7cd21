//! A node of a cluster: takes every request, and executes it at the owner of its stripe.

use std::path::Path;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use futures_executor::block_on;
use jeton_core::{
    Addition, AddressError, BranchName, BranchOutcome, Budget, Catalog, Cell, Column, IdStatus, OpId,
    Operation, Secret, Table, TableSettings, Timestamp, Value, limits,
};
use jeton_engine::internals::{StoreTime, Tables};
use jeton_engine::{
    Ask, BranchRouter, Branches, Clock, CreationQuota, EngineError, FinishResult, OperationOutcome,
    PrepareError, PrepareResult, PreparedBranchInfo, Request, Response, Stats, SystemClock, TableError,
    TableStats, TablesView,
};
use jeton_peer::{Endpoint, Secret as PeerSecret, serve};
use jeton_register::{Error as RegisterError, Registers};
use jeton_wal::disk::{Disk, LockError, RealDisk};
use jeton_wal::{Blob, Error as LogError, blobs};
use tokio::net::TcpListener;
use tokio::runtime::Handle;
use tokio::task::JoinHandle;

use crate::blobs::CatalogBlob;
use crate::deployment::{Deployment, DeploymentError};
use crate::frame::{NodeId, Owner};
use crate::heartbeat::Heartbeat;
use crate::node_core::{LIST_MAX, NodeCore, Parts, PeerHandler, lock};
use crate::node_options::NodeOptions;
use crate::status::{ClusterStatus, NodeStatus, StripeStatus};
use crate::wire::VERSION;

/// The blob with the id of the node, in its directory.
const ID: &str = "node";

const MAGIC: &[u8; 4] = b"JNOD";

/// How often a drain checks whether the node owns nothing more.
const DRAIN_PAUSE: Duration = Duration::from_millis(10);

/// How fresh the result of a read must be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Freshness {
    /// The owner proves its ownership after the read arrived.
    Linearizable,
    /// The owner has proved its ownership less than this time ago.
    MaxStaleness(Duration),
}

/// Why a node cannot be opened.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum NodeError {
    #[error("the directory of the node: {0}")]
    Io(std::io::Error),
    #[error("the directory of the node: {0}")]
    Locked(#[from] LockError),
    #[error("the directory of the node: {0}")]
    Directory(#[from] LogError),
    #[error("cannot listen on {0}: {1}")]
    Listen(std::net::SocketAddr, std::io::Error),
    #[error(transparent)]
    Deployment(#[from] DeploymentError),
    #[error(transparent)]
    Registers(#[from] RegisterError),
    #[error(transparent)]
    Tables(#[from] TableError),
}

/// A running node. Dropping it closes it.
pub struct ClusterNode<R: Registers> {
    core: Arc<NodeCore<R>>,
    runtime: Handle,
    tasks: Mutex<Vec<JoinHandle<()>>>,
    _lock: std::fs::File,
}

fn random<const N: usize>() -> Result<[u8; N], NodeError> {
    let mut bytes = [0; N];
    getrandom::fill(&mut bytes).map_err(|error| NodeError::Io(std::io::Error::other(error)))?;
    Ok(bytes)
}

/// The id of the node, which its directory keeps.
fn node_id(disk: &RealDisk) -> Result<NodeId, NodeError> {
    if let Some(stored) = blobs::get(disk, ID)? {
        let bytes = stored.bytes[..].try_into();
        let bytes = bytes.map_err(|_| LogError::Damaged("the id of the node has not 16 bytes".into()))?;
        return Ok(NodeId(u128::from_le_bytes(bytes)));
    }
    let id: [u8; 16] = random()?;
    let stored = blobs::put(disk, ID, &Blob { version: 1, bytes: Bytes::copy_from_slice(&id) });
    stored.map_err(|error| match error {
        blobs::BlobError::Refused(error) => error,
        blobs::BlobError::Fatal(fatal) => LogError::Unavailable(fatal.0),
    })?;
    Ok(NodeId(u128::from_le_bytes(id)))
}

impl<R: Registers> ClusterNode<R> {
    /// Joins the cluster of these registers, or founds it. The node takes requests at once; it owns stripes
    /// later. Blocks.
    pub fn open(registers: Arc<R>, options: NodeOptions, runtime: Handle) -> Result<Arc<Self>, NodeError> {
        std::fs::create_dir_all(&options.directory).map_err(NodeError::Io)?;
        let disk = RealDisk::new(&options.directory).map_err(NodeError::Io)?;
        let lock = disk.lock("jeton")?;
        let me = Owner { node: node_id(&disk)?, incarnation: u128::from_le_bytes(random()?) };

        let candidate = Deployment::new(options.stripes, random()?, random()?)?;
        let deployment = block_on(Deployment::found(&*registers, candidate))?;
        let before = block_on(registers.get_blob(&Heartbeat::blob_name(me.node)))?;

        let listen_error = |error| NodeError::Listen(options.listen, error);
        let listener = std::net::TcpListener::bind(options.listen).map_err(listen_error)?;
        listener.set_nonblocking(true).map_err(listen_error)?;
        let listening = listener.local_addr().map_err(listen_error)?;
        let address = options.advertised.clone().unwrap_or_else(|| listening.to_string());
        let entered = runtime.enter();
        let listener = TcpListener::from_std(listener).map_err(listen_error)?;
        drop(entered);

        let catalog = Arc::new(Catalog::within(&Budget::new(options.engine.memory_max)));
        let tables = Tables::new(Arc::new(CatalogBlob::new(Arc::clone(&registers))), catalog, 0);
        let time = StoreTime::begin(SystemClock::default(), Timestamp::ZERO, Duration::MAX)
            .unwrap_or_else(|_| unreachable!("without a log any clock is believed"));
        tables.refresh(|| time.now())?;
        // All nodes of the deployment have its secret, and only they have it.
        let secret = PeerSecret::new(*deployment.secret().as_bytes()).derive(b"connections between nodes");
        let secret = PeerSecret::new(secret);
        let endpoint = Endpoint {
            magic: *MAGIC,
            version: VERSION,
            secret,
            me: me.node.0,
            connect_timeout: options.timing.failure_timeout / 2,
            tls: options.tls.clone(),
        };
        let beat = before.map_or(0, |blob| blob.version);
        let core = Arc::new(NodeCore::new(Parts {
            registers,
            deployment,
            me,
            options,
            endpoint: endpoint.clone(),
            address,
            time,
            tables,
            beat,
        }));
        let tasks = vec![
            runtime.spawn(serve(listener, endpoint, Arc::new(PeerHandler(Arc::clone(&core))))),
            runtime.spawn(Arc::clone(&core).beat()),
            runtime.spawn(Arc::clone(&core).place()),
            runtime.spawn(Arc::clone(&core).follow()),
        ];
        Ok(Arc::new(Self { core, runtime, tasks: Mutex::new(tasks), _lock: lock }))
    }

    /// The number that the node keeps permanently.
    pub fn id(&self) -> NodeId {
        self.core.me.node
    }

    /// The address at which other nodes reach this one.
    pub fn address(&self) -> &str {
        &self.core.address
    }

    pub fn deployment(&self) -> Deployment {
        self.core.deployment
    }

    pub fn folder(&self) -> &Path {
        &self.core.options.directory
    }

    /// Hashes the id and the partition of a request, for [`submit_prehashed`](Self::submit_prehashed).
    pub fn to_request(&self, ask: Ask) -> Request {
        match ask {
            Ask::Apply(operation) => Request::apply(operation, &self.core.secret, &mut Vec::new()),
            Ask::Read(cell) => Request::Read { cell },
        }
    }

    /// As the method of the engine. Reads are linearizable. Operations with an id, and reads, are sent again
    /// if their owner changes meanwhile; other operations then get
    /// [`Closed`](jeton_engine::EngineError::Closed) if they may have been applied.
    pub fn submit_prehashed(
        &self,
        requests: Vec<Request>,
    ) -> impl Future<Output = Vec<Response>> + Send + use<R> {
        self.submit_with(requests, Freshness::Linearizable)
    }

    pub fn submit_with(
        &self,
        requests: Vec<Request>,
        freshness: Freshness,
    ) -> impl Future<Output = Vec<Response>> + Send + use<R> {
        let closed = vec![Response::Applied(Err(EngineError::Closed)); requests.len()];
        // A task of its own, so that the future completes on any executor, also if it is dropped.
        let submitted = (!self.core.is_closed())
            .then(|| self.runtime.spawn(Arc::clone(&self.core).submit(requests, freshness)));
        async move {
            match submitted {
                Some(task) => task.await.unwrap_or(closed),
                None => closed,
            }
        }
    }

    pub fn submit_batch(&self, asks: Vec<Ask>) -> impl Future<Output = Vec<Response>> + Send + use<R> {
        self.submit_prehashed(asks.into_iter().map(|ask| self.to_request(ask)).collect())
    }

    /// Applies an operation once, however often it is sent.
    pub fn apply(
        &self,
        operation: Operation,
    ) -> impl Future<Output = Result<OperationOutcome, EngineError>> + Send + use<R> {
        let responses = self.submit_batch(vec![Ask::Apply(operation)]);
        async move {
            match responses.await.pop() {
                Some(Response::Applied(outcome)) => outcome,
                other => unreachable!("the response to an operation is {other:?}"),
            }
        }
    }

    /// The value of a cell.
    pub fn get(
        &self,
        cell: Cell,
    ) -> impl Future<Output = Result<Option<Value>, EngineError>> + Send + use<R> {
        let responses = self.submit_batch(vec![Ask::Read(cell)]);
        async move {
            match responses.await.pop() {
                Some(Response::Read(value)) => value,
                Some(Response::Applied(Err(error))) => Err(error),
                other => unreachable!("the response to a read is {other:?}"),
            }
        }
    }

    pub fn cell(&self, table: &Table, row: &[u8], column: &Column) -> Result<Cell, AddressError> {
        Cell::new(&self.core.secret, table.id, row, column)
    }

    pub fn table(&self, name: &str) -> Result<Arc<Table>, EngineError> {
        self.catalog().find(name).cloned().ok_or_else(|| EngineError::NoSuchTable(name.into()))
    }

    /// The catalogue that this node knows. Another node may have changed it less than a second ago.
    pub fn catalog(&self) -> Arc<Catalog> {
        self.core.tables.catalog().load_full()
    }

    /// A view of the catalogue that costs nearly nothing per look while no table changes.
    pub fn tables_view(&self) -> TablesView {
        self.core.tables.view()
    }

    /// Of the stripes of this node.
    pub fn tables_without_filters(&self) -> Vec<String> {
        let all = self.core.all_owned();
        let mut tables: Vec<String> =
            all.flat_map(|owned| owned.engine.tables_without_filters().to_vec()).collect();
        tables.sort();
        tables.dedup();
        tables
    }

    /// Creates a table, durably. Blocks.
    pub fn create_table(&self, name: &str, settings: TableSettings) -> Result<Arc<Table>, TableError> {
        self.core.tables.create(name, settings, self.now())?;
        self.core.refresh_tables_now()?;
        Ok(self.table(name)?)
    }

    /// Changes the settings of a table, durably. Every guarantee given before is kept. Owners adopt the
    /// change within seconds. Blocks.
    pub fn change_table(&self, name: &str, settings: TableSettings) -> Result<Arc<Table>, TableError> {
        // Eras that have expired by all clocks are dropped.
        let behind = self.core.options.engine.clock_ahead_max.as_nanos() as u64;
        let expired = Timestamp::from_nanos(self.now().as_nanos().saturating_sub(behind));
        self.core.tables.alter(name, settings, || self.now(), expired)?;
        self.core.refresh_tables_now()?;
        Ok(self.table(name)?)
    }

    /// Not supported in a cluster yet.
    pub fn delete_table(&self, _name: &str) -> Result<Timestamp, TableError> {
        Err(EngineError::Withheld("tables of a cluster cannot be deleted yet".into()).into())
    }

    /// The status of an id that is used for the routing key of this cell.
    pub async fn operation(&self, cell: Cell, id: OpId) -> Result<IdStatus, EngineError> {
        let key = self.core.secret.id_key(&cell, &id, &mut Vec::new());
        match self.submit_prehashed(vec![Request::Recall { cell, id, key }]).await.pop() {
            Some(Response::Recalled(status)) => status,
            Some(Response::Applied(Err(refusal))) => Err(refusal),
            other => unreachable!("the response to a lookup is {other:?}"),
        }
    }

    /// As the method of the engine.
    pub async fn prepare_branch(
        &self,
        name: &BranchName,
        additions: Vec<Addition>,
        quota: Option<&Arc<dyn CreationQuota>>,
    ) -> Result<PrepareResult, PrepareError> {
        Branches(self).prepare(name, additions, quota).await
    }

    /// As the method of the engine.
    pub async fn finish_branch(
        &self,
        name: &BranchName,
        outcome: BranchOutcome,
        quota: Option<&Arc<dyn CreationQuota>>,
    ) -> Result<FinishResult, EngineError> {
        Branches(self).finish(name, outcome, quota).await
    }

    /// All prepared branches.
    pub async fn prepared_branches(&self) -> Result<Vec<PreparedBranchInfo>, EngineError> {
        Branches(self).list(0..limits::PARTITIONS).await
    }

    /// Resolves when all owners have stored what they decided so far.
    pub async fn stored(&self) -> Result<(), EngineError> {
        let core = Arc::clone(&self.core);
        let flushed = self.runtime.spawn(async move { core.flush_all().await });
        flushed.await.unwrap_or(Err(EngineError::Closed))
    }

    /// At most `limit` cells of a table whose rows begin with `prefix`, in the order of the value stores,
    /// after the cell `after`. Blocks; not to be called by a task of the runtime.
    pub fn list(
        &self,
        table: &Table,
        prefix: &[u8],
        after: Option<&Cell>,
        limit: usize,
    ) -> Result<Vec<Cell>, EngineError> {
        let core = Arc::clone(&self.core);
        let (table, prefix, mut after) = (table.id, prefix.to_vec(), after.cloned());
        let listing = self.runtime.spawn(async move {
            let mut cells: Vec<Cell> = Vec::new();
            let first = after.as_ref().map_or(0, |after| core.stripe_of(after.partition()));
            for stripe in first..core.deployment.stripes() {
                while cells.len() < limit {
                    let asked = LIST_MAX.min(limit - cells.len());
                    let here = after.clone().filter(|cell| core.stripe_of(cell.partition()) == stripe);
                    let page = core.list_at_owner(stripe, table, &prefix, here, asked).await?;
                    let is_last = page.len() < asked;
                    after = page.last().cloned().or(after);
                    cells.extend(page);
                    if is_last {
                        break;
                    }
                }
            }
            Ok(cells)
        });
        block_on(listing).unwrap_or(Err(EngineError::Closed))
    }

    /// Of the stripes of this node.
    pub fn stats(&self) -> Stats {
        let all: Vec<Stats> = self.core.all_owned().map(|owned| owned.engine.stats()).collect();
        let catalog = self.catalog();
        let table = |table: &Arc<Table>| TableStats {
            name: table.name.clone(),
            filters: (None, None),
            eras: table.eras().count(),
        };
        let mut sum = Stats::empty(catalog.iter().map(table).collect());
        all.iter().for_each(|one| sum.add(one));
        sum
    }

    pub fn now(&self) -> Timestamp {
        self.core.time.now()
    }

    pub fn status(&self) -> ClusterStatus {
        let state = lock(&self.core.state);
        let membership = &state.membership;
        let now = self.core.clock.elapsed();
        let leaving = self.core.leaving.load(Ordering::Acquire);
        let mut nodes = vec![NodeStatus {
            id: self.id(),
            address: self.core.address.clone(),
            client_addresses: self.core.options.client_addresses.clone(),
            incarnation: self.core.me.incarnation,
            heartbeat_age: Duration::ZERO,
            suspected: false,
            leaving,
        }];
        nodes.extend(membership.members().map(|member| NodeStatus {
            id: member.heartbeat.node,
            address: member.heartbeat.address.clone(),
            client_addresses: member.heartbeat.client_addresses.clone(),
            incarnation: member.heartbeat.incarnation,
            heartbeat_age: now.saturating_sub(member.seen),
            suspected: membership.is_suspected(member.heartbeat.node),
            leaving: member.heartbeat.leaving,
        }));
        nodes.sort_by_key(|node| node.id);
        let stripe = |number| {
            let local = self.core.owned(number);
            let owner = match &local {
                Some(owned) => Some((self.id(), owned.log.term())),
                None => membership.owner(number),
            };
            let partitions = self.core.deployment.stripe(number).map_or(0..0, |stripe| stripe.partitions);
            StripeStatus {
                number,
                partitions,
                owner: owner.map(|(node, _)| node),
                term: owner.map(|(_, term)| term).unwrap_or_default(),
                follower: membership.follower(number, owner.map(|(node, _)| node), &state.followed),
                local: local.map(|owned| owned.status()),
            }
        };
        let stripes = (0..self.core.deployment.stripes()).map(stripe).collect();
        ClusterStatus { me: self.id(), nodes, stripes, alarms: state.alarms.values().cloned().collect() }
    }

    /// Yields all stripes to other nodes, one after the other. Afterwards the node still routes requests. The
    /// caller limits the time: without another node that is ready, it does not end.
    pub async fn drain(&self) {
        let core = Arc::clone(&self.core);
        core.leaving.store(true, Ordering::Release);
        core.beat_now.notify_one();
        let drained = self.runtime.spawn(async move {
            while !lock(&core.state).takeover.is_empty() && !core.is_closed() {
                core.wake.notify_one();
                tokio::time::sleep(DRAIN_PAUSE).await;
            }
            core.beat_now.notify_one();
        });
        // It ends early only with the runtime.
        drop(drained.await);
    }

    /// Closes the engines of the node without yielding. Blocks; not to be called by a task of the runtime.
    pub fn close(&self) {
        if self.core.closed.swap(true, Ordering::AcqRel) {
            return;
        }
        lock(&self.tasks).drain(..).for_each(|task| task.abort());
        self.core.disconnect_all();
        for owned in self.core.all_owned() {
            self.core.uninstall(&owned);
            owned.engine.close();
        }
        self.core.close_followers();
    }
}

impl<R: Registers> BranchRouter for ClusterNode<R> {
    fn secret(&self) -> &Secret {
        &self.core.secret
    }

    fn submit(&self, requests: Vec<Request>) -> impl Future<Output = Vec<Response>> + Send {
        self.submit_prehashed(requests)
    }
}

impl<R: Registers> Drop for ClusterNode<R> {
    fn drop(&mut self) {
        self.close();
    }
}
