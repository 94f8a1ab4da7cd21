//! Reads that wait until this member has applied everything that was acknowledged before they were submitted.
//!
//! Invariant: a read is executed after a barrier that was requested from the leader after the read was
//! submitted. One barrier serves all reads that were submitted before it.

use std::sync::Arc;

use jeton_register::{Admitted, Error};
use jeton_wal::AbortOnPanic;
use tokio::sync::{mpsc, oneshot};
use tokio::time::Instant;

use crate::node::{LeaderConnections, Node};

/// A read that waits.
pub struct PendingRead {
    pub ready: oneshot::Sender<Result<(), Error>>,
    pub admitted: Admitted,
    pub submitted: Instant,
}

/// Requests barriers for all reads that wait, until the queue is closed.
pub async fn run(mut reads: mpsc::UnboundedReceiver<PendingRead>, node: Arc<Node>) {
    let _guard = AbortOnPanic;
    let mut connections = LeaderConnections::default();
    while let Some(first) = reads.recv().await {
        // The first read has the earliest deadline; the others may fail early with it.
        let deadline = first.submitted + node.settings.timing.request;
        let mut group = vec![first];
        while let Ok(read) = reads.try_recv() {
            group.push(read);
        }
        let reached = node.barrier(&mut connections, deadline).await;
        for read in group {
            drop(read.admitted);
            // A caller that no longer waits needs no result.
            let _ = read.ready.send(reached.clone());
        }
    }
}
