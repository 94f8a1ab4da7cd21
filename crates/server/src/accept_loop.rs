//! Accepting: the one loop that all doors have, whatever is spoken behind them.
//!
//! What must hold:
//! - An accept that fails ends nothing: the next may fare better.
//! - A connection whose other end is gone without a word ends in bounded time, whether anybody waits for it or writes to it. Until then
//!   it takes the place of another.

use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::task::{Context, Poll};
use std::time::Duration;

use socket2::{SockRef, TcpKeepalive};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;

/// The pause after an accept that failed: mostly there are too many open files, and only time helps.
const PAUSE: Duration = Duration::from_millis(100);

/// How long a connection is silent before the other end is asked whether it is there. Most middleboxes forget a connection after some
/// minutes, not within one; and a packet a minute costs nothing.
const IDLE: Duration = Duration::from_secs(60);

/// The time between two such questions, and how many go unanswered before the connection is given up: a network that is away for half a minute
/// should cost nobody a connection.
const PROBE_EVERY: Duration = Duration::from_secs(15);
const PROBES: u32 = 4;

/// How long what was sent may go unacknowledged. The kernel would try for a quarter of an hour, and asks no questions while it does. As
/// long as a silent connection has, so that the two agree.
#[cfg(target_os = "linux")]
const UNACKNOWLEDGED: Duration = IDLE.saturating_add(PROBE_EVERY.saturating_mul(PROBES));

/// Accepts connections until it is told to stop, and hands each to `welcome`, which may make a task of it. Closes the listener, and returns
/// the tasks that have not ended.
pub async fn accept(
    listener: TcpListener,
    stop: impl Future<Output = ()>,
    welcome: impl FnMut(TcpStream, SocketAddr, &mut JoinSet<()>),
) -> JoinSet<()> {
    accept_from(|context| listener.poll_accept(context), stop, welcome).await
}

async fn accept_from(
    mut next: impl FnMut(&mut Context<'_>) -> Poll<io::Result<(TcpStream, SocketAddr)>>,
    stop: impl Future<Output = ()>,
    mut welcome: impl FnMut(TcpStream, SocketAddr, &mut JoinSet<()>),
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
                if let Err(error) = prepare(&stream) {
                    // It works all the same, unless it is gone already; then whoever serves it will see.
                    tracing::debug!(%peer, %error, "a connection could not be set up as it should be");
                }
                welcome(stream, peer, &mut connections);
            }
            Err(error) if is_about_one_connection(&error) => {}
            Err(error) => {
                tracing::warn!(%error, "no connection can be accepted");
                tokio::time::sleep(PAUSE).await;
            }
        }
    }
}

/// Whether only the client that came is concerned, and is gone.
fn is_about_one_connection(error: &io::Error) -> bool {
    use io::ErrorKind::{ConnectionAborted, ConnectionRefused, ConnectionReset};
    matches!(error.kind(), ConnectionAborted | ConnectionRefused | ConnectionReset)
}

/// Sets up a connection that was accepted.
fn prepare(stream: &TcpStream) -> io::Result<()> {
    let socket = SockRef::from(stream);
    let keepalive = TcpKeepalive::new().with_time(IDLE).with_interval(PROBE_EVERY).with_retries(PROBES);
    socket.set_tcp_keepalive(&keepalive)?;
    #[cfg(target_os = "linux")]
    socket.set_tcp_user_timeout(Some(UNACKNOWLEDGED))?;
    // Answers go when they are there, not when there are enough of them: they are small, and somebody waits for each.
    socket.set_tcp_nodelay(true)
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};

    use tokio::sync::Notify;

    use super::*;

    /// What a connection was set up with, as the system tells it.
    #[derive(Debug, PartialEq, Eq)]
    struct Found {
        nodelay: bool,
        keepalive: bool,
        idle: Duration,
        every: Duration,
        probes: u32,
        #[cfg(target_os = "linux")]
        unacknowledged: Option<Duration>,
    }

    fn look(stream: &TcpStream) -> Found {
        let socket = SockRef::from(stream);
        Found {
            nodelay: socket.tcp_nodelay().unwrap(),
            keepalive: socket.keepalive().unwrap(),
            idle: socket.tcp_keepalive_time().unwrap(),
            every: socket.tcp_keepalive_interval().unwrap(),
            probes: socket.tcp_keepalive_retries().unwrap(),
            #[cfg(target_os = "linux")]
            unacknowledged: socket.tcp_user_timeout().unwrap(),
        }
    }

    /// Accepts from a listener that fails with these errors first, until one client was welcomed; tells how it was set up.
    async fn welcomed(errors: Vec<io::ErrorKind>) -> Found {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let _client = TcpStream::connect(address).await.unwrap();
        let mut errors = errors.into_iter();
        let next = |context: &mut Context<'_>| match errors.next() {
            Some(kind) => Poll::Ready(Err(kind.into())),
            None => listener.poll_accept(context),
        };
        let (found, enough) = (Arc::new(Mutex::new(None)), Arc::new(Notify::new()));
        let stop = {
            let enough = enough.clone();
            async move { enough.notified().await }
        };
        let welcome = |stream: TcpStream, _, _: &mut JoinSet<()>| {
            *found.lock().unwrap() = Some(look(&stream));
            enough.notify_one();
        };
        accept_from(next, stop, welcome).await;
        found.lock().unwrap().take().unwrap()
    }

    #[tokio::test]
    async fn an_accepted_connection_asks_whether_the_other_end_is_there() {
        let wanted = Found {
            nodelay: true,
            keepalive: true,
            idle: Duration::from_secs(60),
            every: Duration::from_secs(15),
            probes: 4,
            #[cfg(target_os = "linux")]
            unacknowledged: Some(Duration::from_secs(120)),
        };
        assert_eq!(welcomed(Vec::new()).await, wanted);
    }

    #[tokio::test(start_paused = true)]
    async fn an_accept_that_fails_does_not_keep_the_next_from_being_welcomed() {
        use io::ErrorKind::{ConnectionAborted, Other};
        let begun = tokio::time::Instant::now();
        welcomed(vec![ConnectionAborted; 5]).await;
        assert_eq!(begun.elapsed(), Duration::ZERO, "a client that is gone holds nobody up");
        welcomed(vec![Other; 3]).await;
        assert!(begun.elapsed() >= 3 * PAUSE, "there is no pause for what only time helps against");
    }
}
