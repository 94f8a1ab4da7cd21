//! Calls to the owner of a stripe that are no requests of its partitions: flush and list.

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::try_join_all;
use jeton_core::{Cell, TableId};
use jeton_engine::EngineError;
use jeton_register::Registers;
use tokio::time::{Instant, timeout_at};

use crate::node_core::{NodeCore, lock};
use crate::wire::{Message, Outcome, decode_cells};

/// The pause before the next attempt, unless the owner changes before.
const PAUSE: Duration = Duration::from_millis(100);

impl<R: Registers> NodeCore<R> {
    /// Resolves when all owners have stored what they decided so far.
    pub async fn flush_all(self: &Arc<Self>) -> Outcome<()> {
        let stripes = 0..self.deployment.stripes();
        let flush = |stripe| self.at_owner(stripe, Message::Flush { stripe });
        try_join_all(stripes.map(flush)).await.map(drop)
    }

    pub async fn list_at_owner(
        self: &Arc<Self>,
        stripe: u16,
        table: TableId,
        prefix: &[u8],
        after: Option<Cell>,
        limit: usize,
    ) -> Outcome<Vec<Cell>> {
        let prefix = prefix.to_vec();
        self.at_owner(stripe, Message::List { stripe, table, prefix, after, limit }).await
    }

    /// Both messages can be repeated.
    async fn at_owner(self: &Arc<Self>, stripe: u16, message: Message) -> Outcome<Vec<Cell>> {
        let deadline = Instant::now() + self.options.timing.request_timeout;
        let bytes = message.encode();
        loop {
            let mut changed = self.routes.subscribe();
            let result = if self.owned(stripe).is_some() {
                timeout_at(deadline, self.owner_call(&message)).await.unwrap_or(Err(EngineError::Closed))
            } else {
                self.call_owner(stripe, &bytes, deadline).await
            };
            match result {
                Err(EngineError::Moved | EngineError::Closed) if Instant::now() < deadline => {}
                Err(EngineError::Moved | EngineError::Closed) => {
                    return Err(EngineError::Busy("no node owns the partition for the moment"));
                }
                result => return result,
            }
            let until = deadline.min(Instant::now() + PAUSE);
            let _or_timeout = timeout_at(until, changed.changed()).await;
        }
    }

    /// Executes a message that [`at_owner`](Self::at_owner) sends.
    pub async fn owner_call(&self, message: &Message) -> Outcome<Vec<Cell>> {
        match message {
            Message::Flush { stripe } => self.flush(*stripe).await.map(|()| Vec::new()),
            Message::List { stripe, table, prefix, after, limit } => {
                self.list(*stripe, *table, prefix.clone(), after.clone(), *limit).await
            }
            other => Err(EngineError::Storage(format!("no call to an owner: {other:?}"))),
        }
    }

    async fn call_owner(&self, stripe: u16, message: &[u8], deadline: Instant) -> Outcome<Vec<Cell>> {
        let node = self.live_owner(stripe).ok_or(EngineError::Moved)?;
        let peer = self.peer(node).ok_or(EngineError::Moved)?;
        let reply = peer.call(message, deadline).await.map_err(|_| EngineError::Moved)?;
        decode_cells(&reply).map_err(|error| EngineError::Storage(error.to_string()))?
    }

    pub fn disconnect_all(&self) {
        let nodes: Vec<_> = lock(&self.state).membership.members().map(|one| one.heartbeat.node).collect();
        nodes.into_iter().filter_map(|node| self.peer(node)).for_each(|peer| peer.disconnect());
    }
}
