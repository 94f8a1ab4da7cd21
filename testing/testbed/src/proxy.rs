//! A TCP proxy that can delay and cut connections.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use anyhow::Result;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinHandle;

/// Forwards connections to a server. Dropping it cuts all connections.
pub struct Proxy {
    address: SocketAddr,
    state: Arc<State>,
    accepting: JoinHandle<()>,
}

struct State {
    faults: watch::Sender<Faults>,
    open: AtomicUsize,
    accepted: AtomicUsize,
}

/// The faults in effect.
#[derive(Clone, Copy, Default)]
struct Faults {
    /// Connections of an earlier epoch are cut.
    epoch: u64,
    holds_requests: bool,
    holds_responses: bool,
}

#[derive(Clone, Copy)]
enum Direction {
    Request,
    Response,
}

impl Faults {
    fn holds(&self, direction: Direction) -> bool {
        match direction {
            Direction::Request => self.holds_requests,
            Direction::Response => self.holds_responses,
        }
    }
}

impl Proxy {
    /// Starts to forward to a server, which need not run yet.
    pub async fn start(to: SocketAddr) -> Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
        let address = listener.local_addr()?;
        let (faults, _) = watch::channel(Faults::default());
        let state = Arc::new(State { faults, open: AtomicUsize::new(0), accepted: AtomicUsize::new(0) });
        let accepting = tokio::spawn({
            let state = Arc::clone(&state);
            async move {
                while let Ok((client, _)) = listener.accept().await {
                    state.accepted.fetch_add(1, Ordering::SeqCst);
                    state.open.fetch_add(1, Ordering::SeqCst);
                    let state = Arc::clone(&state);
                    tokio::spawn(async move {
                        forward(client, to, &state).await;
                        state.open.fetch_sub(1, Ordering::SeqCst);
                    });
                }
            }
        });
        Ok(Self { address, state, accepting })
    }

    /// The address for clients.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Cuts all connections, also delayed ones. New connections are accepted.
    pub fn cut(&self) {
        self.state.faults.send_modify(|faults| faults.epoch += 1);
    }

    /// Delays requests and responses. Connections stay open.
    pub fn hold(&self) {
        self.change(true, true);
    }

    /// Delays responses and forwards requests.
    pub fn hold_responses(&self) {
        self.change(false, true);
    }

    /// Forwards the delayed bytes and all later ones.
    pub fn release(&self) {
        self.change(false, false);
    }

    /// The number of open connections.
    pub fn count(&self) -> usize {
        self.state.open.load(Ordering::SeqCst)
    }

    /// The number of connections accepted since the start.
    pub fn count_ever(&self) -> usize {
        self.state.accepted.load(Ordering::SeqCst)
    }

    fn change(&self, holds_requests: bool, holds_responses: bool) {
        self.state.faults.send_modify(|faults| {
            (faults.holds_requests, faults.holds_responses) = (holds_requests, holds_responses);
        });
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.accepting.abort();
        self.cut();
    }
}

/// Forwards until one side closes or the connection is cut.
async fn forward(mut client: TcpStream, to: SocketAddr, state: &State) {
    let mut cut = state.faults.subscribe();
    let epoch = cut.borrow_and_update().epoch;
    let (requests, responses) = (state.faults.subscribe(), state.faults.subscribe());
    let both = async {
        let mut server = TcpStream::connect(to).await?;
        client.set_nodelay(true)?;
        server.set_nodelay(true)?;
        let (mut from_client, mut to_client) = client.split();
        let (mut from_server, mut to_server) = server.split();
        tokio::select! {
            done = pass(&mut from_client, &mut to_server, Direction::Request, requests) => done,
            done = pass(&mut from_server, &mut to_client, Direction::Response, responses) => done,
        }
    };
    let is_cut = async {
        drop(cut.wait_for(|faults| faults.epoch > epoch).await);
    };
    tokio::select! {
        // `is_cut` first: a delayed connection that is cut forwards nothing, even if it is released at the same moment.
        biased;
        () = is_cut => {}
        _gone = both => {}
    }
}

async fn pass(
    from: &mut (impl AsyncRead + Unpin),
    to: &mut (impl AsyncWrite + Unpin),
    direction: Direction,
    mut faults: watch::Receiver<Faults>,
) -> std::io::Result<()> {
    let mut buffer = vec![0; 16 * 1024];
    loop {
        let count = from.read(&mut buffer).await?;
        if count == 0 {
            return Ok(());
        }
        drop(faults.wait_for(|faults| !faults.holds(direction)).await);
        to.write_all(&buffer[..count]).await?;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    async fn echo() -> SocketAddr {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
        let address = listener.local_addr().unwrap();
        tokio::spawn(async move {
            while let Ok((mut stream, _)) = listener.accept().await {
                tokio::spawn(async move {
                    let (mut from, mut to) = stream.split();
                    tokio::io::copy(&mut from, &mut to).await
                });
            }
        });
        address
    }

    async fn echo_once(stream: &mut TcpStream, word: &[u8; 2]) -> std::io::Result<()> {
        stream.write_all(word).await?;
        let mut response = [0; 2];
        stream.read_exact(&mut response).await?;
        assert_eq!(&response, word);
        Ok(())
    }

    #[tokio::test]
    async fn connections_are_forwarded_delayed_and_cut() {
        let proxy = Proxy::start(echo().await).await.unwrap();
        let mut stream = TcpStream::connect(proxy.address()).await.unwrap();
        echo_once(&mut stream, b"ab").await.unwrap();
        assert_eq!((proxy.count(), proxy.count_ever()), (1, 1));

        for hold in [Proxy::hold, Proxy::hold_responses] {
            hold(&proxy);
            {
                let held = echo_once(&mut stream, b"cd");
                tokio::pin!(held);
                let waited = tokio::time::timeout(Duration::from_millis(50), &mut held).await;
                assert!(waited.is_err(), "no response arrives while requests or responses are delayed");
                proxy.release();
                held.await.unwrap();
            }
        }

        proxy.hold();
        stream.write_all(b"ef").await.unwrap();
        tokio::task::yield_now().await;
        proxy.cut();
        proxy.release();
        stream.read_exact(&mut [0; 2]).await.unwrap_err();
        while proxy.count() > 0 {
            tokio::task::yield_now().await;
        }
        let mut stream = TcpStream::connect(proxy.address()).await.unwrap();
        echo_once(&mut stream, b"gh").await.unwrap();
        assert_eq!((proxy.count(), proxy.count_ever()), (1, 2));
        drop(proxy);
        echo_once(&mut stream, b"ij").await.unwrap_err();
    }
}
