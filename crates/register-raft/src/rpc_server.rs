//! Where other members call: accepts connections, and answers what is asked on them, one thing after the other.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio::time::timeout;

use crate::bootstrap;
use crate::connection::{Connection, IDLE_TIME};
use crate::message::{Refusal, Reply, Request};
use crate::node::{Node, barrier, proposed};
use crate::settings::CONNECTIONS_MAX;

/// How long to wait when the system has no handle for a connection.
const PAUSE: Duration = Duration::from_millis(50);

/// Accepts connections, without end.
pub async fn serve(listener: TcpListener, node: Arc<Node>) {
    let places = Arc::new(Semaphore::new(CONNECTIONS_MAX));
    loop {
        // Never closed.
        let Ok(place) = Arc::clone(&places).acquire_owned().await else { return };
        let stream = match listener.accept().await {
            Ok((stream, _)) => stream,
            Err(error) => {
                tracing::warn!(%error, "no connection could be accepted");
                tokio::time::sleep(PAUSE).await;
                continue;
            }
        };
        let node = Arc::clone(&node);
        tokio::spawn(async move {
            if let Err(error) = attend(stream, &node).await {
                tracing::debug!(%error, "a connection ended");
            }
            drop(place);
        });
    }
}

/// Answers on one connection until it ends.
async fn attend(stream: TcpStream, node: &Node) -> io::Result<()> {
    let (mut connection, caller) = Connection::answer(stream, &node.settings).await?;
    loop {
        let request = timeout(IDLE_TIME, connection.hear()).await??;
        node.heard.note(caller);
        let reply = answer(node, request).await;
        timeout(IDLE_TIME, connection.say(&reply)).await??;
    }
}

async fn answer(node: &Node, request: Request) -> Reply {
    match request {
        Request::Append { to, .. } | Request::Vote { to, .. } | Request::Snapshot { to, .. }
            if to != node.identity =>
        {
            Reply::Refused(Refusal::NotMe)
        }
        Request::Append { request, .. } => Reply::Append(node.raft.append_entries(request).await),
        Request::Vote { request, .. } => Reply::Vote(node.raft.vote(request).await),
        Request::Snapshot { request, .. } => Reply::Snapshot(node.raft.install_snapshot(request).await),
        Request::Propose(proposal) if node.leads() => proposed(node.propose_here(proposal).await),
        Request::Barrier if node.leads() => barrier(node.barrier_here().await),
        Request::Admit { member, identity } if node.leads() => {
            bootstrap::admit(node, member, identity).await.map_or_else(Reply::Refused, |()| Reply::Admitted)
        }
        // It was not done, for certain.
        Request::Propose(_) | Request::Barrier | Request::Admit { .. } => {
            Reply::Refused(Refusal::Unable("it does not lead".into()))
        }
        Request::Status => Reply::Status(node.status()),
    }
}
