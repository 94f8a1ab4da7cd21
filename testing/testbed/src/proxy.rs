//! A TCP proxy that delays and cuts connections on command, and injects planned faults into them.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

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
    replayed: AtomicUsize,
}

/// The planned faults of one connection.
#[derive(Debug, Clone, Copy)]
pub struct ConnectionFaults {
    /// The connection is cut after this many bytes of requests.
    pub request_bytes: usize,
    /// After this many bytes of responses, the connection is cut or the rest is dropped.
    pub response_bytes: usize,
    /// Drop the responses instead of cutting the connection.
    pub drop_responses: bool,
    /// Delay of every read.
    pub delay: Duration,
    /// Whether the requests are sent again after the connection has ended.
    pub replay: bool,
}

impl ConnectionFaults {
    /// A connection without faults.
    pub const NONE: Self = Self {
        request_bytes: usize::MAX,
        response_bytes: usize::MAX,
        drop_responses: false,
        delay: Duration::ZERO,
        replay: false,
    };
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
        Self::start_with(to, || ConnectionFaults::NONE).await
    }

    /// Like [`start`](Self::start); `plan` returns the faults of each connection.
    pub async fn start_with(
        to: SocketAddr,
        mut plan: impl FnMut() -> ConnectionFaults + Send + 'static,
    ) -> Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
        let address = listener.local_addr()?;
        let (faults, _) = watch::channel(Faults::default());
        let count = AtomicUsize::default;
        let state = Arc::new(State { faults, open: count(), accepted: count(), replayed: count() });
        let accepting = tokio::spawn({
            let state = Arc::clone(&state);
            async move {
                while let Ok((client, _)) = listener.accept().await {
                    state.accepted.fetch_add(1, Ordering::SeqCst);
                    state.open.fetch_add(1, Ordering::SeqCst);
                    let (state, plan) = (Arc::clone(&state), plan());
                    tokio::spawn(async move {
                        let requests = forward(client, to, &state, plan).await;
                        state.open.fetch_sub(1, Ordering::SeqCst);
                        if plan.replay && replay(&requests, to).await.is_ok() {
                            state.replayed.fetch_add(1, Ordering::SeqCst);
                        }
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

    /// The number of connections whose requests were sent again.
    pub fn count_replayed(&self) -> usize {
        self.state.replayed.load(Ordering::SeqCst)
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

/// Forwards until one side closes or the connection is cut. Returns the forwarded requests if the plan needs
/// them.
async fn forward(mut client: TcpStream, to: SocketAddr, state: &State, plan: ConnectionFaults) -> Vec<u8> {
    let mut cut = state.faults.subscribe();
    let epoch = cut.borrow_and_update().epoch;
    let mut sent = Vec::new();
    let both = async {
        let mut server = TcpStream::connect(to).await?;
        client.set_nodelay(true)?;
        server.set_nodelay(true)?;
        let (mut from_client, mut to_client) = client.split();
        let (mut from_server, mut to_server) = server.split();
        let pass = |direction, limit, drops_rest| Pass {
            direction,
            faults: state.faults.subscribe(),
            limit,
            drops_rest,
            delay: plan.delay,
        };
        let requests = pass(Direction::Request, plan.request_bytes, false);
        let responses = pass(Direction::Response, plan.response_bytes, plan.drop_responses);
        let record = plan.replay.then_some(&mut sent);
        tokio::select! {
            done = requests.run(&mut from_client, &mut to_server, record) => done,
            done = responses.run(&mut from_server, &mut to_client, None) => done,
        }
    };
    let is_cut = async {
        drop(cut.wait_for(|faults| faults.epoch > epoch).await);
    };
    tokio::select! {
        // `is_cut` first: a delayed connection that is cut forwards nothing, even if it is released at the
        // same moment.
        biased;
        () = is_cut => {}
        _gone = both => {}
    }
    sent
}

/// One direction of a connection.
struct Pass {
    direction: Direction,
    faults: watch::Receiver<Faults>,
    /// Bytes until the planned fault.
    limit: usize,
    drops_rest: bool,
    delay: Duration,
}

impl Pass {
    async fn run(
        mut self,
        from: &mut (impl AsyncRead + Unpin),
        to: &mut (impl AsyncWrite + Unpin),
        mut record: Option<&mut Vec<u8>>,
    ) -> std::io::Result<()> {
        let mut buffer = vec![0; 16 * 1024];
        loop {
            let count = from.read(&mut buffer).await?;
            if count == 0 {
                return Ok(());
            }
            let direction = self.direction;
            drop(self.faults.wait_for(|faults| !faults.holds(direction)).await);
            if !self.delay.is_zero() {
                tokio::time::sleep(self.delay).await;
            }
            let passed = &buffer[..count.min(self.limit)];
            self.limit -= passed.len();
            if let Some(record) = &mut record {
                record.extend_from_slice(passed);
            }
            to.write_all(passed).await?;
            if passed.len() < count && !self.drops_rest {
                return Ok(());
            }
        }
    }
}

/// Sends requests again, as a network does that loses their acknowledgement.
async fn replay(requests: &[u8], to: SocketAddr) -> std::io::Result<()> {
    let mut server = TcpStream::connect(to).await?;
    let (mut reader, mut writer) = server.split();
    let mut ignored = Vec::new();
    let writing = async {
        writer.write_all(requests).await?;
        writer.shutdown().await
    };
    tokio::try_join!(writing, reader.read_to_end(&mut ignored)).map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;

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

    #[tokio::test]
    async fn planned_faults_cut_drop_and_replay() {
        let plan = ConnectionFaults { response_bytes: 3, replay: true, ..ConnectionFaults::NONE };
        let proxy = Proxy::start_with(echo().await, move || plan).await.unwrap();
        let mut stream = TcpStream::connect(proxy.address()).await.unwrap();
        echo_once(&mut stream, b"ab").await.unwrap();
        echo_once(&mut stream, b"cd").await.unwrap_err();
        while proxy.count_replayed() == 0 {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        let plan = ConnectionFaults { request_bytes: 3, ..ConnectionFaults::NONE };
        let proxy = Proxy::start_with(echo().await, move || plan).await.unwrap();
        let mut stream = TcpStream::connect(proxy.address()).await.unwrap();
        stream.write_all(b"abcd").await.unwrap();
        let mut response = Vec::new();
        let _cut = stream.read_to_end(&mut response).await;
        assert!(b"abc".starts_with(&response), "{response:?}");
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
