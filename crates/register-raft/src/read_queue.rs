//! Reads that wait until this member has everything that was acknowledged before they were asked.
//!
//! One question to the leader is enough for all reads that came before it was put. What must hold: a read is answered by a question that was put
//! after the read came.

use std::sync::Arc;

use jeton_register::Error;
use jeton_wal::AbortOnPanic;
use tokio::sync::{mpsc, oneshot};
use tokio::time::Instant;

use crate::admission::Reserved;
use crate::node::{LeaderConnections, Node};

/// A read that waits.
pub struct Reader {
    pub ready: oneshot::Sender<Result<(), Error>>,
    /// Its room, until it is answered.
    pub room: Reserved,
    /// When it was asked for.
    pub given: Instant,
}

/// Asks the leader for all that wait, until nobody can wait any more.
pub async fn run(mut readers: mpsc::UnboundedReceiver<Reader>, node: Arc<Node>) {
    let _guard = AbortOnPanic;
    let mut ways = LeaderConnections::default();
    while let Some(first) = readers.recv().await {
        // The others came later: who has more time is told sooner than it must be, and none later.
        let deadline = first.given + node.settings.timing.request;
        let mut waiting = vec![first];
        while let Ok(reader) = readers.try_recv() {
            waiting.push(reader);
        }
        let reached = node.barrier(&mut ways, deadline).await;
        for reader in waiting {
            // Whoever does not wait any more has lost nothing.
            let _ = reader.ready.send(reached.clone());
            drop(reader.room);
        }
    }
}
