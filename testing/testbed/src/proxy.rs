//! A network that can be broken: connections go through it to a server, are held up, and are cut.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use anyhow::Result;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinHandle;

/// Forwards connections to a server. Dropped, it cuts them all.
pub struct Proxy {
    address: SocketAddr,
    state: Arc<State>,
    accepting: JoinHandle<()>,
}

struct State {
    weather: watch::Sender<Weather>,
    open: AtomicUsize,
    ever: AtomicUsize,
}

/// What the network does.
#[derive(Clone, Copy, Default)]
struct Weather {
    /// Connections of an earlier one are cut.
    epoch: u64,
    holds_requests: bool,
    holds_answers: bool,
}

#[derive(Clone, Copy)]
enum Way {
    Request,
    Answer,
}

impl Weather {
    fn holds(&self, way: Way) -> bool {
        match way {
            Way::Request => self.holds_requests,
            Way::Answer => self.holds_answers,
        }
    }
}

impl Proxy {
    /// Begins to forward to a server, which need not be there yet.
    pub async fn start(to: SocketAddr) -> Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
        let address = listener.local_addr()?;
        let (weather, _) = watch::channel(Weather::default());
        let state = Arc::new(State { weather, open: AtomicUsize::new(0), ever: AtomicUsize::new(0) });
        let accepting = tokio::spawn({
            let state = Arc::clone(&state);
            async move {
                while let Ok((client, _)) = listener.accept().await {
                    state.ever.fetch_add(1, Ordering::SeqCst);
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

    /// Where clients connect.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Cuts all connections, those that are held too. New ones are accepted.
    pub fn cut(&self) {
        self.state.weather.send_modify(|weather| weather.epoch += 1);
    }

    /// Forwards nothing more, either way; connections stay open.
    pub fn hold(&self) {
        self.change(true, true);
    }

    /// Forwards what clients ask and not what they are answered.
    pub fn hold_answers(&self) {
        self.change(false, true);
    }

    /// Forwards again, what was held first.
    pub fn release(&self) {
        self.change(false, false);
    }

    /// How many connections are open.
    pub fn count(&self) -> usize {
        self.state.open.load(Ordering::SeqCst)
    }

    /// How many there have been.
    pub fn count_ever(&self) -> usize {
        self.state.ever.load(Ordering::SeqCst)
    }

    fn change(&self, holds_requests: bool, holds_answers: bool) {
        self.state.weather.send_modify(|weather| {
            (weather.holds_requests, weather.holds_answers) = (holds_requests, holds_answers);
        });
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.accepting.abort();
        self.cut();
    }
}

/// Until one of the two is gone, or the connection is cut.
async fn forward(mut client: TcpStream, to: SocketAddr, state: &State) {
    let mut cut = state.weather.subscribe();
    let epoch = cut.borrow_and_update().epoch;
    let (asks, answers) = (state.weather.subscribe(), state.weather.subscribe());
    let both = async {
        let mut server = TcpStream::connect(to).await?;
        client.set_nodelay(true)?;
        server.set_nodelay(true)?;
        let (mut from_client, mut to_client) = client.split();
        let (mut from_server, mut to_server) = server.split();
        tokio::select! {
            done = pass(&mut from_client, &mut to_server, Way::Request, asks) => done,
            done = pass(&mut from_server, &mut to_client, Way::Answer, answers) => done,
        }
    };
    let is_cut = async {
        drop(cut.wait_for(|weather| weather.epoch > epoch).await);
    };
    tokio::select! {
        // First: what is cut while it is held passes nothing, not even if it is released at the same moment.
        biased;
        () = is_cut => {}
        _gone = both => {}
    }
}

async fn pass(
    from: &mut (impl AsyncRead + Unpin),
    to: &mut (impl AsyncWrite + Unpin),
    way: Way,
    mut weather: watch::Receiver<Weather>,
) -> std::io::Result<()> {
    let mut buffer = vec![0; 16 * 1024];
    loop {
        let count = from.read(&mut buffer).await?;
        if count == 0 {
            return Ok(());
        }
        drop(weather.wait_for(|weather| !weather.holds(way)).await);
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

    async fn ask(stream: &mut TcpStream, word: &[u8; 2]) -> std::io::Result<()> {
        stream.write_all(word).await?;
        let mut answer = [0; 2];
        stream.read_exact(&mut answer).await?;
        assert_eq!(&answer, word);
        Ok(())
    }

    #[tokio::test]
    async fn connections_are_forwarded_held_released_and_cut() {
        let proxy = Proxy::start(echo().await).await.unwrap();
        let mut stream = TcpStream::connect(proxy.address()).await.unwrap();
        ask(&mut stream, b"ab").await.unwrap();
        assert_eq!((proxy.count(), proxy.count_ever()), (1, 1));

        for hold in [Proxy::hold, Proxy::hold_answers] {
            hold(&proxy);
            {
                let held = ask(&mut stream, b"cd");
                tokio::pin!(held);
                let waited = tokio::time::timeout(Duration::from_millis(50), &mut held).await;
                assert!(waited.is_err(), "nothing comes while it is held");
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
        ask(&mut stream, b"gh").await.unwrap();
        assert_eq!((proxy.count(), proxy.count_ever()), (1, 2));
        drop(proxy);
        ask(&mut stream, b"ij").await.unwrap_err();
    }
}
