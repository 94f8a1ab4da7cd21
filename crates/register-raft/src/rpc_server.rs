//! The RPC server: accepts connections of other members, and executes the requests of a connection one after
//! the other.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio::time::timeout;

use crate::bootstrap;
use crate::connection::{Connection, IDLE_TIMEOUT};
use crate::message::{Refusal, Request, Response};
use crate::node::{Node, barrier_response, proposal_response};
use crate::settings::CONNECTIONS_MAX;

/// The pause after a connection could not be accepted, for example because of too many open files.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

/// Accepts connections until shutdown.
pub async fn serve(listener: TcpListener, node: Arc<Node>) {
    let permits = Arc::new(Semaphore::new(CONNECTIONS_MAX));
    loop {
        // The semaphore is never closed.
        let Ok(permit) = Arc::clone(&permits).acquire_owned().await else { return };
        let stream = match listener.accept().await {
            Ok((stream, _)) => stream,
            Err(error) => {
                tracing::warn!(%error, "cannot accept a connection");
                tokio::time::sleep(ACCEPT_PAUSE).await;
                continue;
            }
        };
        let node = Arc::clone(&node);
        tokio::spawn(async move {
            if let Err(error) = serve_connection(stream, &node).await {
                tracing::debug!(%error, "a connection ended");
            }
            drop(permit);
        });
    }
}

async fn serve_connection(stream: TcpStream, node: &Node) -> io::Result<()> {
    let (mut connection, caller) = Connection::accept(stream, &node.settings).await?;
    loop {
        let request = timeout(IDLE_TIMEOUT, connection.receive()).await??;
        node.last_seen.record(caller);
        let response = execute(node, request).await;
        timeout(IDLE_TIMEOUT, connection.send(&response)).await??;
    }
}

async fn execute(node: &Node, request: Request) -> Response {
    match request {
        Request::Append { to, .. } | Request::Vote { to, .. } | Request::Snapshot { to, .. }
            if to != node.identity =>
        {
            Response::Refused(Refusal::OtherIdentity)
        }
        Request::Append { request, .. } => Response::Append(node.raft.append_entries(request).await),
        Request::Vote { request, .. } => Response::Vote(node.raft.vote(request).await),
        Request::Snapshot { request, .. } => Response::Snapshot(node.raft.install_snapshot(request).await),
        Request::Propose(proposal) if node.leads() => proposal_response(node.propose_here(proposal).await),
        Request::Barrier if node.leads() => barrier_response(node.barrier_here().await),
        Request::Admit { member, identity } if node.leads() => {
            let admitted = bootstrap::admit(node, member, identity).await;
            admitted.map_or_else(Response::Refused, |()| Response::Admitted)
        }
        // Not `NotLeader`: this request certainly has no effect.
        Request::Propose(_) | Request::Barrier | Request::Admit { .. } => {
            Response::Refused(Refusal::Rejected("it does not lead".into()))
        }
        Request::Status => Response::Status(node.status()),
    }
}
