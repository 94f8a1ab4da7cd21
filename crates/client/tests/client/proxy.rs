//! A network as bad as one likes: between a client and a server, it cuts connections at any byte, swallows answers, delays, sends again
//! what was sent, and is down for a while.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::{JoinHandle, JoinSet};

use crate::rng::Chance;

/// What happens to connections.
#[derive(Debug, Clone, Copy, Default)]
pub struct Weather {
    /// Of a hundred connections: how many are cut early, in each direction; lose answers; are slow; are sent again when they end.
    pub cut: u64,
    pub swallow: u64,
    pub delay: u64,
    pub repeat: u64,
    /// Bytes that go through, at most, before something happens.
    pub bytes: u64,
}

pub struct Proxy {
    pub address: SocketAddr,
    shared: Arc<Shared>,
    accepting: JoinHandle<()>,
}

struct Shared {
    server: SocketAddr,
    weather: Weather,
    chance: Mutex<Chance>,
    down: AtomicBool,
    connections: AtomicU64,
    /// What was sent again by the network itself.
    repeated: AtomicU64,
}

impl Proxy {
    pub async fn start(server: SocketAddr, weather: Weather, seed: u64) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("an address");
        let address = listener.local_addr().expect("an address");
        let shared = Arc::new(Shared {
            server,
            weather,
            chance: Mutex::new(Chance(seed)),
            down: AtomicBool::new(false),
            connections: AtomicU64::new(0),
            repeated: AtomicU64::new(0),
        });
        let accepting = tokio::spawn(accept(listener, shared.clone()));
        Self { address, shared, accepting }
    }

    /// Lets nobody through, or everybody again.
    pub fn set_down(&self, down: bool) {
        self.shared.down.store(down, Ordering::Relaxed);
    }

    pub fn connections(&self) -> u64 {
        self.shared.connections.load(Ordering::Relaxed)
    }

    pub fn repeated(&self) -> u64 {
        self.shared.repeated.load(Ordering::Relaxed)
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.accepting.abort();
    }
}

async fn accept(listener: TcpListener, shared: Arc<Shared>) {
    let mut connections = JoinSet::new();
    loop {
        let Ok((client, _)) = listener.accept().await else { continue };
        shared.connections.fetch_add(1, Ordering::Relaxed);
        if shared.down.load(Ordering::Relaxed) {
            continue;
        }
        connections.spawn(pass(client, shared.clone()));
        while connections.try_join_next().is_some() {}
    }
}

/// What will happen to a connection.
struct Fate {
    up_bytes: u64,
    down_bytes: u64,
    /// Whether answers are swallowed after so many bytes; else the connection is cut there.
    swallow: bool,
    delay: Duration,
    repeat: bool,
}

impl Fate {
    fn draw(weather: Weather, chance: &mut Chance) -> Self {
        let mut happens = |percent: u64| chance.below(100) < percent;
        let (cut_up, cut_down) = (happens(weather.cut), happens(weather.cut));
        let (swallow, delayed, repeat) =
            (happens(weather.swallow), happens(weather.delay), happens(weather.repeat));
        // In bad weather nothing lasts, also where nothing worse happens.
        let lasts = if weather.bytes == 0 { u64::MAX } else { 4 * weather.bytes };
        let mut bytes = |yes: bool| if yes { chance.below(weather.bytes.max(1)) } else { lasts };
        let (up_bytes, down_bytes) = (bytes(cut_up), bytes(cut_down || swallow));
        let delay = Duration::from_millis(if delayed { chance.below(30) } else { 0 });
        Self { up_bytes, down_bytes, swallow, delay, repeat }
    }
}

async fn pass(mut client: TcpStream, shared: Arc<Shared>) {
    let Ok(mut server) = TcpStream::connect(shared.server).await else { return };
    let fate = Fate::draw(shared.weather, &mut shared.chance.lock().unwrap());
    let (mut up_left, mut down_left) = (fate.up_bytes, fate.down_bytes);
    let mut said = Vec::new();
    let (mut from_client, mut from_server) = (vec![0; 4096], vec![0; 4096]);
    loop {
        tokio::select! {
            read = client.read(&mut from_client) => {
                let Ok(read @ 1..) = read else { break };
                let pass = up_left.min(read as u64) as usize;
                up_left -= pass as u64;
                said.extend_from_slice(&from_client[..pass]);
                tokio::time::sleep(fate.delay).await;
                if server.write_all(&from_client[..pass]).await.is_err() || pass < read {
                    break;
                }
            }
            read = server.read(&mut from_server) => {
                let Ok(read @ 1..) = read else { break };
                let pass = down_left.min(read as u64) as usize;
                down_left -= pass as u64;
                tokio::time::sleep(fate.delay).await;
                if client.write_all(&from_server[..pass]).await.is_err() {
                    break;
                }
                if pass < read && !fate.swallow {
                    break;
                }
            }
        }
        if shared.down.load(Ordering::Relaxed) {
            break;
        }
    }
    drop(client);
    if fate.repeat {
        repeat(&said, &shared).await;
    }
}

/// Sends again what a connection sent, as a network may that repeats what it does not see acknowledged.
async fn repeat(said: &[u8], shared: &Shared) {
    let Ok(mut server) = TcpStream::connect(shared.server).await else { return };
    let (mut reader, mut writer) = server.split();
    let mut nobody_reads = Vec::new();
    let writing = async {
        writer.write_all(said).await?;
        writer.shutdown().await
    };
    let (written, _read) = tokio::join!(writing, reader.read_to_end(&mut nobody_reads));
    if written.is_ok() {
        shared.repeated.fetch_add(1, Ordering::Relaxed);
    }
}
