//! The accept loop of all listeners.
//!
//! Invariants:
//! - A failed accept does not end the loop.
//! - A connection whose peer has vanished is closed in bounded time, whether the server reads from it or
//!   writes to it. Until then it counts against the connection limit.

use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::task::{Context, Poll};
use std::time::Duration;

use socket2::{SockRef, TcpKeepalive};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;

/// Pause after a failed accept. The usual cause is the limit on open files.
const PAUSE: Duration = Duration::from_millis(100);

/// Idle time before the first keepalive probe. Most middleboxes drop idle connections after a few minutes.
const IDLE: Duration = Duration::from_secs(60);

/// Interval and number of keepalive probes. A network outage of half a minute must not close connections.
const PROBE_EVERY: Duration = Duration::from_secs(15);
const PROBES: u32 = 4;

/// Timeout of unacknowledged data. The kernel's default is about 15 minutes and disables keepalive meanwhile.
/// Equal to the keepalive time of an idle connection.
#[cfg(target_os = "linux")]
const UNACKNOWLEDGED: Duration = IDLE.saturating_add(PROBE_EVERY.saturating_mul(PROBES));

/// Accepts connections until `stop` completes and passes each to `serve`, which may spawn a task. Closes the
/// listener and returns the tasks that are still running.
pub async fn accept(
    listener: TcpListener,
    stop: impl Future<Output = ()>,
    serve: impl FnMut(TcpStream, SocketAddr, &mut JoinSet<()>),
) -> JoinSet<()> {
    accept_from(|context| listener.poll_accept(context), stop, serve).await
}

async fn accept_from(
    mut next: impl FnMut(&mut Context<'_>) -> Poll<io::Result<(TcpStream, SocketAddr)>>,
    stop: impl Future<Output = ()>,
    mut serve: impl FnMut(TcpStream, SocketAddr, &mut JoinSet<()>),
) -> JoinSet<()> {
    let mut connections = JoinSet::new();
    let mut stop = std::pin::pin!(stop);
    loop {
        let accepted = tokio::select! {
            accepted = std::future::poll_fn(&mut next) => accepted,
            () = &mut stop => return connections,
            Some(_ended) = connections.join_next() => continue,
        };
        match accepted {
            Ok((stream, peer)) => {
                if let Err(error) = set_socket_options(&stream) {
                    // The connection works without the options. If it is closed, the task that serves it
                    // notices.
                    tracing::debug!(%peer, %error, "cannot set socket options");
                }
                serve(stream, peer, &mut connections);
            }
            Err(error) if is_about_one_connection(&error) => {}
            Err(error) => {
                tracing::warn!(%error, "cannot accept connections");
                tokio::time::sleep(PAUSE).await;
            }
        }
    }
}

/// Waits until all connections have ended, at most for `timeout`. The rest is closed.
pub async fn drain(mut connections: JoinSet<()>, timeout: Duration) {
    let all_ended = async { while connections.join_next().await.is_some() {} };
    if tokio::time::timeout(timeout, all_ended).await.is_err() {
        tracing::warn!(open = connections.len(), "closed connections that did not end in time");
    }
}

/// Whether the error concerns only the connection being accepted.
fn is_about_one_connection(error: &io::Error) -> bool {
    use io::ErrorKind::{ConnectionAborted, ConnectionRefused, ConnectionReset};
    matches!(error.kind(), ConnectionAborted | ConnectionRefused | ConnectionReset)
}

/// Sets keepalive, timeout and no-delay.
fn set_socket_options(stream: &TcpStream) -> io::Result<()> {
    let socket = SockRef::from(stream);
    let keepalive = TcpKeepalive::new().with_time(IDLE).with_interval(PROBE_EVERY).with_retries(PROBES);
    socket.set_tcp_keepalive(&keepalive)?;
    #[cfg(target_os = "linux")]
    socket.set_tcp_user_timeout(Some(UNACKNOWLEDGED))?;
    // Replies are small and clients wait for them, so they must not be delayed.
    socket.set_tcp_nodelay(true)
}

#[cfg(test)]
mod tests {
    use tokio::sync::Notify;

    use super::*;

    /// No-delay, keepalive, its idle time, interval and number of probes, and the timeout of unacknowledged
    /// data, as the system reports them.
    type SocketOptions = (bool, bool, Duration, Duration, u32, Option<Duration>);

    fn options_of(stream: &TcpStream) -> SocketOptions {
        let socket = SockRef::from(stream);
        #[cfg(target_os = "linux")]
        let unacknowledged = socket.tcp_user_timeout().unwrap();
        #[cfg(not(target_os = "linux"))]
        let unacknowledged = None;
        (
            socket.tcp_nodelay().unwrap(),
            socket.keepalive().unwrap(),
            socket.tcp_keepalive_time().unwrap(),
            socket.tcp_keepalive_interval().unwrap(),
            socket.tcp_keepalive_retries().unwrap(),
            unacknowledged,
        )
    }

    /// Accepts one client from a listener that first fails with these errors, and returns the socket options.
    async fn accept_after(errors: Vec<io::ErrorKind>) -> SocketOptions {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let _client = TcpStream::connect(address).await.unwrap();
        let mut errors = errors.into_iter();
        let next = |context: &mut Context<'_>| match errors.next() {
            Some(kind) => Poll::Ready(Err(kind.into())),
            None => listener.poll_accept(context),
        };
        let (mut found, enough) = (None, Notify::new());
        let serve = |stream: TcpStream, _, _: &mut JoinSet<()>| {
            found = Some(options_of(&stream));
            enough.notify_one();
        };
        accept_from(next, enough.notified(), serve).await;
        found.unwrap()
    }

    #[tokio::test]
    async fn accepted_connections_have_keepalive_and_timeout() {
        let [idle, interval, timeout] = [60, 15, 120].map(Duration::from_secs);
        let unacknowledged = cfg!(target_os = "linux").then_some(timeout);
        assert_eq!(accept_after(Vec::new()).await, (true, true, idle, interval, 4, unacknowledged));
    }

    #[tokio::test(start_paused = true)]
    async fn the_loop_continues_after_a_failed_accept() {
        use io::ErrorKind::{ConnectionAborted, Other};
        let begun = tokio::time::Instant::now();
        accept_after(vec![ConnectionAborted; 5]).await;
        assert_eq!(begun.elapsed(), Duration::ZERO, "an aborted connection must not delay the next");
        accept_after(vec![Other; 3]).await;
        assert!(begun.elapsed() >= 3 * PAUSE, "other errors need a pause");
    }
}
