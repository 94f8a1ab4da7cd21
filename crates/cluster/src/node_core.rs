//! What the tasks of a node share: its stripes, what it knows of other nodes, and its connections to them.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use arc_swap::ArcSwapOption;
use bytes::Bytes;
use jeton_core::{Cell, PartitionId, Secret, TableId};
use jeton_engine::internals::{StoreTime, Tables};
use jeton_engine::{Clock, EngineError, SystemClock};
use jeton_peer::{Endpoint, Handler, PeerClient};
use jeton_register::{Admission, Registers};
use jeton_wal::Slot;
use tokio::sync::{Notify, Semaphore, watch};

use crate::blobs::CatalogBlob;
use crate::deployment::Deployment;
use crate::follower::Follower;
use crate::frame::{NodeId, Owner};
use crate::membership::Membership;
use crate::node_options::NodeOptions;
use crate::owned_stripe::{OwnedStripe, unproved};
use crate::takeover::Takeover;
use crate::wire::{Message, Outcome, OwnerHint, encode_cells};

/// Stripes that are opened at a time.
const OPENING_MAX: usize = 4;

/// The most requests of clients that are routed, and their bytes.
const ROUTED_MAX: usize = 1 << 17;
const ROUTED_BYTES_MAX: usize = 256 << 20;

/// Cells of one message about a list.
pub(crate) const LIST_MAX: usize = 1024;

pub(crate) struct NodeCore<R: Registers> {
    pub registers: Arc<R>,
    pub deployment: Deployment,
    pub secret: Secret,
    pub me: Owner,
    pub options: NodeOptions,
    pub endpoint: Endpoint,
    /// At which other nodes reach this one.
    pub address: String,
    pub clock: SystemClock,
    pub time: StoreTime<SystemClock>,
    pub tables: Tables<CatalogBlob<R>>,
    pub state: Mutex<State>,
    /// Changed when the owner of a stripe changes.
    pub routes: watch::Sender<()>,
    /// Wakes the task that claims and yields.
    pub wake: Notify,
    pub beat_now: Notify,
    stripes: Vec<ArcSwapOption<OwnedStripe<R>>>,
    /// The engines that follow stripes of other nodes. Locked while they read.
    pub followers: Vec<Mutex<Option<Follower<R>>>>,
    peers: Mutex<BTreeMap<NodeId, Arc<PeerClient>>>,
    pub opening: Semaphore,
    /// Bounds the requests of clients that are routed.
    pub admission: Arc<Admission>,
    pub leaving: AtomicBool,
    pub closed: AtomicBool,
}

pub(crate) struct State {
    pub membership: Membership,
    pub takeover: Takeover,
    pub beat: u64,
    /// Stripes with their terms that are being yielded: the node still owns them.
    pub yielding: Vec<(u16, Slot)>,
    /// Stripes that this node follows, as of its last read.
    pub followed: BTreeSet<u16>,
    /// By what they are about.
    pub alarms: BTreeMap<String, String>,
}

pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// What [`NodeCore::new`] needs.
pub(crate) struct Parts<R> {
    pub registers: Arc<R>,
    pub deployment: Deployment,
    pub me: Owner,
    pub options: NodeOptions,
    pub endpoint: Endpoint,
    pub address: String,
    pub time: StoreTime<SystemClock>,
    pub tables: Tables<CatalogBlob<R>>,
    pub beat: u64,
}

impl<R: Registers> NodeCore<R> {
    pub fn new(parts: Parts<R>) -> Self {
        let Parts { registers, deployment, me, options, endpoint, address, time, tables, beat } = parts;
        let clock = SystemClock::default();
        let takeover = Takeover::new(me.node, deployment.stripes(), &options.timing, clock.elapsed());
        let membership = Membership::new(me.node, options.timing.clone());
        let state = State {
            membership,
            takeover,
            beat,
            yielding: Vec::new(),
            followed: BTreeSet::new(),
            alarms: BTreeMap::new(),
        };
        Self {
            registers,
            secret: deployment.secret(),
            stripes: (0..deployment.stripes()).map(|_| ArcSwapOption::empty()).collect(),
            followers: (0..deployment.stripes()).map(|_| Mutex::default()).collect(),
            deployment,
            me,
            options,
            endpoint,
            address,
            clock,
            time,
            tables,
            state: Mutex::new(state),
            routes: watch::Sender::new(()),
            wake: Notify::new(),
            beat_now: Notify::new(),
            peers: Mutex::default(),
            opening: Semaphore::new(OPENING_MAX),
            admission: Admission::new(ROUTED_MAX, ROUTED_BYTES_MAX),
            leaving: AtomicBool::new(false),
            closed: AtomicBool::new(false),
        }
    }

    pub fn is_closed(&self) -> bool {
        self.closed.load(Ordering::Acquire)
    }

    pub fn is_leaving(&self) -> bool {
        self.leaving.load(Ordering::Acquire)
    }

    pub fn stripe_of(&self, partition: PartitionId) -> u16 {
        self.deployment.stripe_of(partition)
    }

    /// The stripe, if this node owns it.
    pub fn owned(&self, stripe: u16) -> Option<Arc<OwnedStripe<R>>> {
        self.stripes.get(usize::from(stripe))?.load_full()
    }

    pub fn all_owned(&self) -> impl Iterator<Item = Arc<OwnedStripe<R>>> {
        self.stripes.iter().filter_map(ArcSwapOption::load_full)
    }

    /// The other node that owns a stripe, unless it is suspected.
    pub fn live_owner(&self, stripe: u16) -> Option<NodeId> {
        let membership = &lock(&self.state).membership;
        membership.owner(stripe).map(|(node, _)| node).filter(|node| !membership.is_suspected(*node))
    }

    pub fn hint(&self, stripe: u16) -> Option<OwnerHint> {
        let (node, term) = lock(&self.state).membership.owner(stripe)?;
        Some(OwnerHint { stripe, node, term })
    }

    pub fn learn_owner(&self, hint: OwnerHint) {
        // Not otherwise: the requests that wait would be sent again at once.
        if lock(&self.state).membership.announce(hint.stripe, hint.node, hint.term) {
            self.routes.send_replace(());
        }
    }

    /// The stripe is open.
    pub fn install(&self, owned: Arc<OwnedStripe<R>>) {
        let number = owned.stripe.number;
        self.stripes[usize::from(number)].store(Some(owned));
        lock(&self.state).takeover.claimed(number);
        self.routes.send_replace(());
    }

    /// The stripe gets no more requests. Returns whether it got requests before.
    pub fn uninstall(&self, owned: &Arc<OwnedStripe<R>>) -> bool {
        let place = &self.stripes[usize::from(owned.stripe.number)];
        let current = place.load();
        if !current.as_ref().is_some_and(|current| Arc::ptr_eq(current, owned)) {
            return false;
        }
        let before = place.compare_and_swap(&current, None);
        self.routes.send_replace(());
        before.as_ref().is_some_and(|before| Arc::ptr_eq(before, owned))
    }

    /// Another node owns the stripe. Closes the engine in the background. Only the first of several calls has
    /// an effect.
    pub fn release(&self, owned: &Arc<OwnedStripe<R>>) {
        if self.uninstall(owned) {
            tracing::info!(stripe = owned.stripe.number, "another node has taken a stripe over");
            lock(&self.state).takeover.lost(owned.stripe.number, self.clock.elapsed());
            close_in_background(owned);
        }
    }

    /// The connection to a node whose address is known.
    pub fn peer(&self, node: NodeId) -> Option<Arc<PeerClient>> {
        let address = lock(&self.state).membership.get(node)?.heartbeat.address.clone();
        let mut peers = lock(&self.peers);
        let known = peers.get(&node).filter(|known| known.address() == address);
        if let Some(known) = known {
            return Some(Arc::clone(known));
        }
        let client = Arc::new(PeerClient::new(self.endpoint.clone(), address, node.0));
        peers.insert(node, Arc::clone(&client));
        Some(client)
    }

    /// Adopts the latest catalogue in all engines, and then in the node.
    pub async fn refresh_tables(self: &Arc<Self>) {
        let core = Arc::clone(self);
        let refreshed = tokio::task::spawn_blocking(move || core.refresh_tables_now()).await;
        if let Ok(Err(error)) = refreshed {
            tracing::warn!(%error, "the catalogue cannot be read");
        }
    }

    /// As [`refresh_tables`](Self::refresh_tables). Blocks.
    pub fn refresh_tables_now(&self) -> Result<(), jeton_engine::TableError> {
        for owned in self.all_owned() {
            owned.engine.refresh_tables()?;
        }
        self.tables.refresh(|| self.time.now())?;
        Ok(())
    }

    pub async fn flush(&self, stripe: u16) -> Outcome<()> {
        let owned = self.owned(stripe).ok_or(EngineError::Moved)?;
        owned.engine.stored().await
    }

    /// Lists cells of a stripe that this node owns.
    pub async fn list(
        &self,
        stripe: u16,
        table: TableId,
        prefix: Vec<u8>,
        after: Option<Cell>,
        limit: usize,
    ) -> Outcome<Vec<Cell>> {
        let owned = self.owned(stripe).ok_or(EngineError::Moved)?;
        let proof = owned.log.prove();
        let engine = Arc::clone(&owned);
        let listed = tokio::task::spawn_blocking(move || {
            let catalog = engine.engine.catalog();
            let table = catalog.get(table).ok_or_else(|| EngineError::NoSuchTable(table.0.to_string()))?;
            engine.engine.list(table, &prefix, after.as_ref(), limit.min(LIST_MAX))
        });
        let listed = listed.await.map_err(|_| EngineError::Closed)?;
        proof.await.map_err(unproved)?;
        listed
    }

    async fn handle_message(self: &Arc<Self>, message: Message) -> Vec<u8> {
        match message {
            Message::Submit(submit) => self.execute_submit(submit).await.encode(),
            Message::Flush { .. } | Message::List { .. } => encode_cells(&self.owner_call(&message).await),
            Message::Take { stripe } => {
                self.invited(stripe);
                Vec::new()
            }
            Message::Owner(hint) => {
                self.learn_owner(hint);
                Vec::new()
            }
            Message::Ping => {
                // Held, so that the caller notices the end of the process.
                tokio::time::sleep(self.options.timing.heartbeat).await;
                Vec::new()
            }
        }
    }
}

/// Closing joins threads.
pub(crate) fn close_in_background<R: Registers>(owned: &Arc<OwnedStripe<R>>) {
    let owned = Arc::clone(owned);
    drop(tokio::task::spawn_blocking(move || owned.engine.close()));
}

/// Executes messages of other nodes.
pub(crate) struct PeerHandler<R: Registers>(pub Arc<NodeCore<R>>);

impl<R: Registers> Handler for PeerHandler<R> {
    fn is_known(&self, caller: u128) -> bool {
        caller != self.0.me.node.0
    }

    async fn handle(&self, _caller: u128, request: Bytes) -> Vec<u8> {
        match Message::decode(&request, &self.0.secret) {
            Ok(message) => self.0.handle_message(message).await,
            // The caller cannot read an empty response as one to its request.
            Err(error) => {
                tracing::warn!(%error, "a message of a node cannot be read");
                Vec::new()
            }
        }
    }
}
