//! The tasks of a node: heartbeats, watch of other nodes, claims and yields.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use bytes::Bytes;
use jeton_engine::Clock;
use jeton_peer::CallError;
use jeton_register::{Blob, Registers};
use jeton_wal::Slot;
use tokio::time::{sleep, timeout};

use crate::blobs::catalog_version;
use crate::frame::NodeId;
use crate::heartbeat::{AGE_MAX_MILLIS, Heartbeat, PREFIX};
use crate::node_core::{NodeCore, State, close_in_background, lock};
use crate::node_followers::ClaimError;
use crate::owned_stripe::OwnedStripe;
use crate::takeover::Action;
use crate::wire::{Message, OwnerHint};

/// How often a node looks for stripes without an owner.
const STEP: Duration = Duration::from_millis(25);

/// Time for a message to a node that is no request of a client.
const MESSAGE_TIMEOUT: Duration = Duration::from_secs(1);

/// What the alarm about the id of the node is about.
const SAME_ID: &str = "id";
const CLOCK: &str = "clock";

fn millis<C: Clock>(clock: &C) -> u64 {
    clock.wall().as_nanos() / 1_000_000
}

impl<R: Registers> NodeCore<R> {
    /// Writes heartbeats, reads those of the others, and checks the catalogue.
    pub async fn beat(self: Arc<Self>) {
        let interval = self.options.timing.heartbeat;
        while !self.is_closed() {
            let began = Instant::now();
            // No longer than the others wait: the next heartbeat says the same.
            let round = async {
                self.write_heartbeat().await;
                self.read_heartbeats().await;
                self.check_catalog().await;
            };
            if timeout(self.options.timing.failure_timeout, round).await.is_err() {
                tracing::warn!("the registers do not respond to heartbeats");
            }
            let pause = interval.saturating_sub(began.elapsed());
            let _asked = timeout(pause, self.beat_now.notified()).await;
        }
    }

    pub async fn write_heartbeat(&self) {
        let owned = self.all_owned().filter(|owned| !owned.log.is_deposed());
        let mut owned: Vec<_> = owned.map(|owned| (owned.stripe.number, owned.log.term())).collect();
        let (beat, followed) = {
            let mut state = lock(&self.state);
            owned.extend(&state.yielding);
            state.beat += 1;
            (state.beat, state.followed.iter().copied().collect())
        };
        let leaving = self.leaving.load(Ordering::Acquire);
        let heartbeat = Heartbeat {
            node: self.me.node,
            incarnation: self.me.incarnation,
            beat,
            millis: millis(&self.clock),
            address: self.address.clone(),
            client_addresses: self.options.client_addresses.clone(),
            ready: !leaving && !lock(&self.state).membership.is_clock_wrong(),
            leaving,
            owned,
            followed,
        };
        let blob = Blob { version: beat, bytes: Bytes::from(heartbeat.encode()) };
        match self.registers.put_blob(&Heartbeat::blob_name(self.me.node), blob).await {
            Ok(true) => {}
            Ok(false) => {
                let why = format!("another process has the id of this node, {:032x}", self.me.node.0);
                tracing::error!(why, "the node claims nothing");
                lock(&self.state).alarms.insert(SAME_ID.into(), why);
            }
            Err(error) => tracing::warn!(%error, "the heartbeat cannot be written"),
        }
    }

    pub async fn read_heartbeats(self: &Arc<Self>) {
        let blobs = match self.registers.blobs(PREFIX).await {
            Ok(blobs) => blobs,
            Err(error) => return tracing::warn!(%error, "the heartbeats cannot be read"),
        };
        let now_millis = millis(&self.clock);
        let mut heartbeats = Vec::new();
        for (name, blob) in blobs {
            match Heartbeat::decode(&blob.bytes) {
                Ok(one) if one.millis + AGE_MAX_MILLIS < now_millis => {}
                Ok(one) => heartbeats.push(one),
                Err(error) => tracing::warn!(%error, name, "a heartbeat cannot be read"),
            }
        }
        let mut lost = Vec::new();
        let mut watched = Vec::new();
        {
            let mut state = lock(&self.state);
            let known = |state: &State| -> Vec<_> {
                state
                    .membership
                    .members()
                    .map(|one| (one.heartbeat.node, one.heartbeat.incarnation))
                    .collect()
            };
            let before = known(&state);
            state.membership.observe(self.clock.elapsed(), now_millis, heartbeats);
            watched.extend(known(&state).into_iter().filter(|one| !before.contains(one)));
            let suspected = state.membership.members().map(|one| one.heartbeat.node);
            lost.extend(suspected.filter(|node| state.membership.is_suspected(*node)));
            let differences = state.membership.clock_differences();
            if differences.is_empty() {
                state.alarms.remove(CLOCK);
            } else {
                let list = differences.iter().map(|(node, ahead)| format!("{:032x} by {ahead} ms", node.0));
                let list = list.collect::<Vec<_>>().join(", ");
                state
                    .alarms
                    .insert(CLOCK.into(), format!("the clocks of nodes are ahead of this one: {list}"));
            }
        }
        for (node, incarnation) in watched {
            tokio::spawn(Arc::clone(self).watch(node, incarnation));
        }
        for node in lost {
            if let Some(peer) = self.peer(node) {
                // The requests in flight go to the next owner.
                peer.disconnect();
            }
        }
        self.routes.send_replace(());
        self.wake.notify_one();
    }

    async fn check_catalog(self: &Arc<Self>) {
        let version = match catalog_version(&*self.registers).await {
            Ok(version) => version,
            Err(error) => return tracing::warn!(%error, "the version of the catalogue cannot be read"),
        };
        if self.all_owned().any(|owned| owned.engine.tables_version() < version)
            || self.tables.version() < version
        {
            self.refresh_tables().await;
        }
    }

    /// A type of its own: the task reads heartbeats, and a new heartbeat begins a task.
    fn watch(self: Arc<Self>, node: NodeId, incarnation: u128) -> Pin<Box<dyn Future<Output = ()> + Send>> {
        Box::pin(self.watch_peer(node, incarnation))
    }

    /// Notices the end of another process: a request is always in flight to it.
    async fn watch_peer(self: Arc<Self>, node: NodeId, incarnation: u128) {
        let ping = Message::Ping.encode();
        loop {
            let is_same = lock(&self.state)
                .membership
                .get(node)
                .is_some_and(|member| member.heartbeat.incarnation == incarnation);
            if self.is_closed() || !is_same {
                return;
            }
            let Some(peer) = self.peer(node) else { return };
            let deadline = tokio::time::Instant::now() + 2 * self.options.timing.failure_timeout;
            match peer.call(&ping, deadline).await {
                Ok(_) => {}
                Err(CallError::Unreachable(error)) => {
                    if error.kind() == io::ErrorKind::ConnectionRefused {
                        self.refuse(node).await;
                    }
                    sleep(self.options.timing.heartbeat / 2).await;
                }
                // Is the process there?
                Err(CallError::NoResponse(_)) => sleep(Duration::from_millis(5)).await,
                Err(CallError::Busy) => sleep(self.options.timing.heartbeat).await,
            }
        }
    }

    /// A connection to a node was refused: its process has ended.
    async fn refuse(self: &Arc<Self>, node: NodeId) {
        if lock(&self.state).membership.is_suspected(node) {
            return;
        }
        // Its last heartbeat does not end the suspicion.
        self.read_heartbeats().await;
        lock(&self.state).membership.refuse(node);
        tracing::info!(node = format!("{:032x}", node.0), "a node is suspected: it refuses connections");
        self.routes.send_replace(());
        self.wake.notify_one();
    }

    /// Claims stripes without an owner, and yields those that others should own.
    pub async fn place(self: Arc<Self>) {
        while !self.is_closed() {
            let _due = timeout(STEP, self.wake.notified()).await;
            for owned in self.all_owned().filter(|owned| owned.log.is_deposed()) {
                self.release(&owned);
            }
            let actions = {
                let mut state = lock(&self.state);
                let state = &mut *state;
                let may_claim = !state.alarms.contains_key(SAME_ID) && !state.membership.is_clock_wrong();
                let leaving = self.leaving.load(Ordering::Acquire);
                state.takeover.step(self.clock.elapsed(), &state.membership, may_claim, leaving)
            };
            for action in actions {
                match action {
                    Action::Claim(stripe) => drop(tokio::spawn(Arc::clone(&self).claim(stripe))),
                    Action::Yield(stripe, to) => drop(tokio::spawn(Arc::clone(&self).hand_over(stripe, to))),
                }
            }
        }
    }

    /// The owner has yielded a stripe to this node.
    pub fn invited(self: &Arc<Self>, stripe: u16) {
        if !self.leaving.load(Ordering::Acquire) && lock(&self.state).takeover.invite(stripe) {
            tokio::spawn(Arc::clone(self).claim(stripe));
        }
    }

    async fn claim(self: Arc<Self>, stripe: u16) {
        // The semaphore is never closed.
        let Ok(_place) = self.opening.acquire().await else { return };
        if self.is_closed() {
            return;
        }
        let core = Arc::clone(&self);
        let why = match tokio::task::spawn_blocking(move || core.promote(stripe)).await {
            Ok(Ok(owned)) => return self.opened(owned).await,
            Ok(Err(ClaimError::Owned(owner))) => {
                let owner = owner.map(|owner| format!("{:032x}", owner.node.0));
                tracing::debug!(stripe, owner, "the stripe has an owner");
                lock(&self.state).takeover.lost(stripe, self.clock.elapsed());
                return;
            }
            Ok(Err(error)) => error.to_string(),
            Err(error) => error.to_string(),
        };
        tracing::error!(stripe, why, "the stripe cannot be opened");
        let mut state = lock(&self.state);
        state.alarms.insert(format!("stripe {stripe}"), format!("stripe {stripe} cannot be opened: {why}"));
        state.takeover.lost(stripe, self.clock.elapsed());
    }

    async fn opened(self: &Arc<Self>, owned: OwnedStripe<R>) {
        let (number, term) = (owned.stripe.number, owned.log.term());
        let owned = Arc::new(owned);
        lock(&self.state).alarms.remove(&format!("stripe {number}"));
        self.install(Arc::clone(&owned));
        if owned.engine.tables_version() < self.tables.version() {
            self.refresh_tables().await;
        }
        tracing::info!(stripe = number, %term, "the node owns a stripe");
        if self.is_closed() {
            self.release(&owned);
            return;
        }
        self.beat_now.notify_one();
        self.announce(OwnerHint { stripe: number, node: self.me.node, term });
    }

    /// Sends a message about an owner to all nodes. Heartbeats say the same later.
    fn announce(self: &Arc<Self>, hint: OwnerHint) {
        let message = Message::Owner(hint).encode();
        let nodes: Vec<NodeId> =
            lock(&self.state).membership.members().map(|one| one.heartbeat.node).collect();
        for node in nodes {
            if let Some(peer) = self.peer(node) {
                let message = message.clone();
                tokio::spawn(async move {
                    drop(peer.call(&message, tokio::time::Instant::now() + MESSAGE_TIMEOUT).await);
                });
            }
        }
    }

    async fn hand_over(self: Arc<Self>, stripe: u16, to: NodeId) {
        let Some(owned) = self.owned(stripe) else {
            return lock(&self.state).takeover.lost(stripe, self.clock.elapsed());
        };
        lock(&self.state).yielding.push((stripe, owned.log.term()));
        self.uninstall(&owned);
        // The requests in flight complete first.
        let idle = owned.running.write().await;
        let yielded = owned.log.yield_to(to).await;
        // Later than the term of this node, and earlier than that of the next owner.
        let term = Slot(owned.log.metrics().next_slot.load(Ordering::Relaxed).saturating_sub(1));
        if yielded.is_ok() {
            // So that no other node takes it meanwhile.
            self.announce(OwnerHint { stripe, node: to, term });
            self.learn_owner(OwnerHint { stripe, node: to, term });
        }
        drop(idle);
        close_in_background(&owned);
        {
            let mut state = lock(&self.state);
            state.yielding.retain(|(yielding, _)| *yielding != stripe);
            match &yielded {
                Ok(()) => state.takeover.yielded(stripe, term, self.clock.elapsed()),
                Err(_) => state.takeover.lost(stripe, self.clock.elapsed()),
            }
        }
        if yielded.is_ok()
            && let Some(peer) = self.peer(to)
        {
            let message = Message::Take { stripe }.encode();
            drop(peer.call(&message, tokio::time::Instant::now() + MESSAGE_TIMEOUT).await);
        }
        self.wake.notify_one();
    }
}
