//! HTTP connections: their limit, timeouts and shutdown.
//!
//! What must hold: the cost of a connection is bounded, whatever its client does; and on shutdown the server
//! responds to the requests in flight.

use std::io;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, LazyLock};
use std::time::Duration;

use hyper::Request;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::{Service as _, service_fn};
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};
use tokio::task::JoinSet;

use super::bulk::BulkRuntime;
use super::problem::{ErrorCode, Problem};
use super::reply_memory::ConnectionMemory;
use super::routes;
use super::state::App;
use super::write_timeout::WriteTimeout;
use crate::accept_loop::{accept, drain};
use crate::auth_failures::AuthFailures;
use crate::service::OpenConnection;
use crate::{Metric, Service};

/// Maximum size of the head of a request.
pub const HEAD_BYTES_MAX: usize = 64 << 10;

/// Read buffer of a connection. Larger than a head, so that a head that is a little too large gets a problem;
/// to larger ones the HTTP library responds 431 without a body.
pub const BUFFER_BYTES: usize = HEAD_BYTES_MAX + (4 << 10);

/// Requests of a connection that sends without waiting for responses, before other connections are served.
const TURN_REQUESTS: usize = 4;

/// Grace period of a shutdown after the request timeout.
const SHUTDOWN_GRACE: Duration = Duration::from_secs(5);

static TOO_MANY_CONNECTIONS: LazyLock<String> = LazyLock::new(|| {
    let problem = Problem::new(ErrorCode::Busy, "too many connections are open; retry in a second");
    let (status, body) = (problem.status(), serde_json::to_string(&problem.into_body()).unwrap_or_default());
    format!(
        "HTTP/1.1 {status}\r\ncontent-type: application/problem+json\r\nretry-after: 1\r\nconnection: close\r\n\
         content-length: {}\r\n\r\n{body}",
        body.len()
    )
});

pub struct Server {
    service: Arc<Service>,
    router: axum::Router,
    closing: watch::Sender<bool>,
    slots: Arc<Semaphore>,
    bulk: Arc<BulkRuntime>,
}

/// A permit for a connection, released on drop.
pub struct ConnectionSlot {
    _open: OpenConnection,
    _permit: OwnedSemaphorePermit,
}

/// The remote address of a connection.
#[derive(Debug, Clone, Copy)]
pub struct Peer(pub SocketAddr);

impl Server {
    pub fn new(service: Arc<Service>) -> io::Result<Self> {
        let (closing, is_closing) = watch::channel(false);
        let router = routes::router(App { service: service.clone(), closing: is_closing });
        let slots = Arc::new(Semaphore::new(service.options.connections_max.min(Semaphore::MAX_PERMITS)));
        Ok(Self { service, router, closing, slots, bulk: Arc::new(BulkRuntime::new()?) })
    }

    /// Serves until `shutdown` completes, then responds to the requests in flight and returns.
    pub async fn serve(
        self,
        listener: TcpListener,
        shutdown: impl Future<Output = ()> + Send,
    ) -> io::Result<()> {
        let server = Arc::new(self);
        let connections = accept(listener, shutdown, |stream, peer, connections| {
            server.clone().accept(stream, peer, connections);
        })
        .await;
        server.close();
        drain(connections, server.service.options.request_timeout + SHUTDOWN_GRACE).await;
        Ok(())
    }

    fn accept(self: Arc<Self>, stream: TcpStream, peer: SocketAddr, connections: &mut JoinSet<()>) {
        let Some(slot) = self.acquire_slot() else {
            // Without waiting: a rejected connection must cost nothing.
            let _best_effort = stream.try_write(TOO_MANY_CONNECTIONS.as_bytes());
            return;
        };
        connections.spawn(async move { self.serve_connection(slot, stream, peer).await });
    }

    /// A permit for a connection; `None` at the limit, which is counted.
    pub fn acquire_slot(&self) -> Option<ConnectionSlot> {
        let Ok(permit) = self.slots.clone().try_acquire_owned() else {
            self.service.metrics.add(Metric::TurnedAway, 1);
            return None;
        };
        let open = OpenConnection::new(&self.service, Metric::HttpConnections, Metric::HttpOpen);
        Some(ConnectionSlot { _open: open, _permit: permit })
    }

    /// Closes every connection after its request in flight.
    pub fn close(&self) {
        self.closing.send_replace(true);
    }

    /// Serves a connection over any transport until it ends.
    pub async fn serve_connection<S>(&self, slot: ConnectionSlot, stream: S, peer: SocketAddr)
    where
        S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    {
        let router = TowerToHyperService::new(self.router.clone());
        let failures = Arc::new(AuthFailures::default());
        let memory = ConnectionMemory::default();
        let of_requests = memory.clone();
        let bulk = self.bulk.clone();
        let served = AtomicUsize::new(0);
        let service = service_fn(move |mut request: Request<Incoming>| {
            of_requests.head_complete();
            request.extensions_mut().insert(of_requests.clone());
            request.extensions_mut().insert(Peer(peer));
            request.extensions_mut().insert(failures.clone());
            let is_bulk = BulkRuntime::takes(&request);
            let (response, bulk) = (router.call(request), bulk.clone());
            let ends_turn = served.fetch_add(1, Ordering::Relaxed) % TURN_REQUESTS == TURN_REQUESTS - 1;
            async move {
                if ends_turn {
                    tokio::task::yield_now().await;
                }
                if is_bulk { bulk.run(response).await } else { response.await }
            }
        });
        let must_close = memory.must_close.clone();
        let limit = self.service.options.request_read_timeout;
        let stream = WriteTimeout::new(stream, limit).charging(memory, &self.service);
        let connection = http1::Builder::new()
            .timer(TokioTimer::new())
            .header_read_timeout(self.service.options.request_read_timeout)
            .max_buf_size(BUFFER_BYTES)
            .serve_connection(TokioIo::new(stream), service);
        let mut connection = std::pin::pin!(connection);
        let mut closing = self.closing.subscribe();
        let closing = async move { closing.wait_for(|closing| *closing).await.map(|_| ()) };
        let ended = tokio::select! {
            ended = connection.as_mut() => ended,
            _ = closing => {
                connection.as_mut().graceful_shutdown();
                connection.await
            }
            () = must_close.notified() => {
                tracing::debug!(%peer, "closed: client_memory_max");
                Ok(())
            }
        };
        if let Err(error) = ended {
            let cause = std::error::Error::source(&error).and_then(|cause| cause.downcast_ref::<io::Error>());
            if error.is_timeout() {
                self.service.metrics.add(Metric::ReadTimeoutHit, 1);
            } else if cause.is_some_and(|cause| cause.kind() == io::ErrorKind::TimedOut) {
                self.service.metrics.add(Metric::WriteTimeoutHit, 1);
            }
            tracing::debug!(%peer, %error, "connection failed");
        }
        drop(slot);
    }
}
