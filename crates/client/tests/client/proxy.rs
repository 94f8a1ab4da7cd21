//! A faulty network between client and server. By a seed, it cuts connections at any byte, drops replies, delays, and
//! replays requests. It can be switched off. (The proxy of `testbed` holds and cuts on command; it injects no random
//! faults.)

use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::{JoinHandle, JoinSet};

use crate::rng::Rng;

/// Faults of connections.
#[derive(Debug, Clone, Copy, Default)]
pub struct Faults {
    /// Percentage of connections that are cut, for each direction.
    pub cut: u64,
    /// Percentage that lose replies.
    pub drop_replies: u64,
    /// Percentage that are slow.
    pub delay: u64,
    /// Percentage whose requests are sent again after their end.
    pub replay: u64,
    /// Most bytes that pass before a fault.
    pub bytes: u64,
}

pub struct Proxy {
    pub address: SocketAddr,
    shared: Arc<Shared>,
    accepting: JoinHandle<()>,
}

struct Shared {
    server: SocketAddr,
    faults: Faults,
    rng: Mutex<Rng>,
    down: AtomicBool,
    connections: AtomicU64,
    /// Connections whose requests were replayed.
    replayed: AtomicU64,
}

impl Proxy {
    pub async fn start(server: SocketAddr, faults: Faults, seed: u64) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a local port is free");
        let address = listener.local_addr().expect("a local port is free");
        let shared = Arc::new(Shared {
            server,
            faults,
            rng: Mutex::new(Rng(seed)),
            down: AtomicBool::new(false),
            connections: AtomicU64::new(0),
            replayed: AtomicU64::new(0),
        });
        let accepting = tokio::spawn(accept(listener, shared.clone()));
        Self { address, shared, accepting }
    }

    /// Closes all connections and rejects new ones, or accepts them again.
    pub fn set_down(&self, down: bool) {
        self.shared.down.store(down, Ordering::Relaxed);
    }

    pub fn connections(&self) -> u64 {
        self.shared.connections.load(Ordering::Relaxed)
    }

    pub fn replayed(&self) -> u64 {
        self.shared.replayed.load(Ordering::Relaxed)
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

/// The faults of one connection.
struct PlannedFaults {
    up_bytes: u64,
    down_bytes: u64,
    /// Whether replies are dropped after `down_bytes`; otherwise the connection is cut there.
    drop_replies: bool,
    delay: Duration,
    replay: bool,
}

impl PlannedFaults {
    fn draw(faults: Faults, rng: &mut Rng) -> Self {
        let mut has_fault = |percent: u64| rng.below(100) < percent;
        let (cut_up, cut_down) = (has_fault(faults.cut), has_fault(faults.cut));
        let (drop_replies, delayed, replay) =
            (has_fault(faults.drop_replies), has_fault(faults.delay), has_fault(faults.replay));
        // Connections without another fault end too.
        let limit = if faults.bytes == 0 { u64::MAX } else { 4 * faults.bytes };
        let mut bytes = |yes: bool| if yes { rng.below(faults.bytes.max(1)) } else { limit };
        let (up_bytes, down_bytes) = (bytes(cut_up), bytes(cut_down || drop_replies));
        let delay = Duration::from_millis(if delayed { rng.below(30) } else { 0 });
        Self { up_bytes, down_bytes, drop_replies, delay, replay }
    }
}

async fn pass(mut client: TcpStream, shared: Arc<Shared>) {
    let Ok(mut server) = TcpStream::connect(shared.server).await else { return };
    let plan = PlannedFaults::draw(shared.faults, &mut shared.rng.lock().unwrap());
    let (mut up_left, mut down_left) = (plan.up_bytes, plan.down_bytes);
    let mut requests = Vec::new();
    let (mut from_client, mut from_server) = (vec![0; 4096], vec![0; 4096]);
    loop {
        tokio::select! {
            read = client.read(&mut from_client) => {
                let Ok(read @ 1..) = read else { break };
                let pass = up_left.min(read as u64) as usize;
                up_left -= pass as u64;
                requests.extend_from_slice(&from_client[..pass]);
                tokio::time::sleep(plan.delay).await;
                if server.write_all(&from_client[..pass]).await.is_err() || pass < read {
                    break;
                }
            }
            read = server.read(&mut from_server) => {
                let Ok(read @ 1..) = read else { break };
                let pass = down_left.min(read as u64) as usize;
                down_left -= pass as u64;
                tokio::time::sleep(plan.delay).await;
                if client.write_all(&from_server[..pass]).await.is_err() {
                    break;
                }
                if pass < read && !plan.drop_replies {
                    break;
                }
            }
        }
        if shared.down.load(Ordering::Relaxed) {
            break;
        }
    }
    drop(client);
    if plan.replay {
        replay(&requests, &shared).await;
    }
}

/// Sends the requests of a connection again.
async fn replay(requests: &[u8], shared: &Shared) {
    let Ok(mut server) = TcpStream::connect(shared.server).await else { return };
    let (mut reader, mut writer) = server.split();
    let mut ignored = Vec::new();
    let writing = async {
        writer.write_all(requests).await?;
        writer.shutdown().await
    };
    let (written, _read) = tokio::join!(writing, reader.read_to_end(&mut ignored));
    if written.is_ok() {
        shared.replayed.fetch_add(1, Ordering::Relaxed);
    }
}
