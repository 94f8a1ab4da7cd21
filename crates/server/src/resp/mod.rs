//! The Redis protocol. Any Redis client can use it; commands with an operation id take effect once.
//!
//! `pipeline.rs` submits the commands that arrive together as one batch to the engine. `multi_step.rs` runs
//! commands that need several steps. `keyspace.rs` computes the effect of commands on keys, without I/O.

pub(crate) mod command_table;
pub(crate) mod connection;
mod connection_commands;
mod glob;
mod id_commands;
mod info;
mod keyspace;
pub(crate) mod multi_step;
pub(crate) mod pipeline;
pub(crate) mod reply;
mod scan;
mod session;
mod turn;

use std::future::Future;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt};
use tokio::net::TcpListener;

pub(crate) use command_table::COMMANDS;
pub use scan::Cursors;

use crate::accept_loop::accept;
use crate::metrics::Metric;
use crate::service::{OpenConnection, Service};

/// Connections accepted so far; the source of connection numbers.
static CONNECTIONS: AtomicU64 = AtomicU64::new(0);

/// Serves the clients of a listener until `stop` completes. Then it completes the requests in flight and
/// closes the connections.
pub async fn serve(
    service: Arc<Service>,
    listener: TcpListener,
    stop: impl Future<Output = ()>,
) -> io::Result<()> {
    service.set_resp_port(listener.local_addr()?.port());
    let mut connections = accept(listener, stop, |stream, peer, connections| {
        connections.spawn(serve_connection(service.clone(), stream, peer.to_string()));
    })
    .await;
    service.stop().await;
    // The connections left are idle.
    connections.shutdown().await;
    Ok(())
}

/// Serves a connection, or rejects it if there are too many.
pub async fn serve_connection<S>(service: Arc<Service>, mut stream: S, peer: String)
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    let _open = OpenConnection::new(&service, Metric::RespConnections, Metric::RespOpen);
    if service.metrics.get(Metric::RespOpen) > service.options.connections_max as u64 {
        service.metrics.add(Metric::TurnedAway, 1);
        let _may_be_closed = stream.write_all(b"-ERR max number of clients reached\r\n").await;
        return;
    }
    let number = 1 + CONNECTIONS.fetch_add(1, Ordering::Relaxed);
    connection::serve(service.clone(), stream, number, peer).await;
}
