//! Exact counts over a faulty network.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use jeton_auth::Access;
use jeton_client::{Backoff, Client, Error, Options};
use jeton_testbed::{ConnectionFaults, Proxy};
use jeton_testkit::Rng;

use crate::server::Server;

/// Percentages of connections with a fault.
pub struct Faults {
    /// In each direction.
    pub cut: u32,
    pub drop_responses: u32,
    pub delay: u32,
    pub replay: u32,
    /// Most bytes that pass before a fault.
    pub bytes: u64,
}

pub const HEAVY: Faults = Faults { cut: 40, drop_responses: 30, delay: 20, replay: 30, bytes: 3000 };

impl Faults {
    /// A proxy whose connections have random faults.
    pub async fn proxy(self, server: SocketAddr, seed: u64) -> Proxy {
        let mut rng = Rng::new(seed);
        let plan = move || {
            let drop_responses = rng.percent(self.drop_responses);
            let [cut_requests, cut_responses] = [(); 2].map(|()| rng.percent(self.cut));
            // Connections without another fault end too.
            let mut bytes = |yes| if yes { rng.below(self.bytes) } else { 4 * self.bytes } as usize;
            ConnectionFaults {
                request_bytes: bytes(cut_requests),
                response_bytes: bytes(cut_responses || drop_responses),
                drop_responses,
                delay: Duration::from_millis(if rng.percent(self.delay) { rng.below(30) } else { 0 }),
                replay: rng.percent(self.replay),
            }
        };
        Proxy::start_with(server, plan).await.unwrap()
    }
}

pub fn short_timeouts(addresses: impl IntoIterator<Item = String>) -> Options {
    Options {
        attempt_timeout: Duration::from_millis(250),
        deadline: Duration::from_secs(5),
        backoff: Backoff { base: Duration::from_millis(2), cap: Duration::from_millis(50) },
        ..Options::to(addresses)
    }
}

/// Adds 1 until the client confirms that it was counted: after an unknown outcome with the same id, and with
/// a new id only if it is certain that nothing changed. Returns the number of unknown outcomes.
pub async fn add_until_confirmed(client: &Client, key: &str) -> u64 {
    let (mut call, mut unknown) = (client.add(key, 1), 0);
    loop {
        match call.await {
            Ok(outcome) => {
                assert!(outcome.is_applied());
                return unknown;
            }
            Err(Error::Unknown { id, .. }) => {
                unknown += 1;
                call = client.add(key, 1).id(id);
            }
            Err(error) if error.is_certain() => call = client.add(key, 1),
            Err(error) => panic!("{error}"),
        }
    }
}

/// `callers` tasks make `each` additions to a few counters. Returns the number of unknown outcomes.
pub async fn add_concurrently(client: &Client, callers: u64, each: u64) -> u64 {
    let mut tasks = tokio::task::JoinSet::new();
    for caller in 0..callers {
        let client = client.clone();
        tasks.spawn(async move {
            let mut unknown = 0;
            for _ in 0..each {
                unknown += add_until_confirmed(&client, &format!("clicks:{}", caller % 4)).await;
            }
            unknown
        });
    }
    tasks.join_all().await.into_iter().sum()
}

pub async fn total(client: &Client) -> i64 {
    let mut total = 0;
    for counter in 0..4 {
        let value = client.get(format!("clicks:{counter}")).await.unwrap();
        total += value.and_then(|value| value.counter()).unwrap_or_default();
    }
    total
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn counts_are_exact_over_a_faulty_network() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::start(folder.path()).await;
    let proxy = HEAVY.proxy(server.address, 1).await;
    // A deadline so short that some outcomes are unknown.
    let options =
        Options { deadline: Duration::from_millis(300), ..short_timeouts([proxy.address().to_string()]) };
    let client = Client::new(options).unwrap();
    let unknown = add_concurrently(&client, 40, 100).await;
    assert!(unknown > 10, "too few unknown outcomes: {unknown}");
    let direct = Client::connect(Options::to([server.address.to_string()])).await.unwrap();
    assert_eq!(total(&direct).await, 4000);
    assert!(proxy.count_ever() > 50 && proxy.count_replayed() > 5, "the network had too few faults");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn counts_are_exact_with_hedges_over_two_networks() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::start(folder.path()).await;
    let first = HEAVY.proxy(server.address, 2).await;
    let second = HEAVY.proxy(server.address, 3).await;
    let addresses = [first.address().to_string(), second.address().to_string()];
    let options = Options { hedge_after: Some(Duration::from_millis(5)), ..short_timeouts(addresses) };
    let client = Client::new(options).unwrap();
    add_concurrently(&client, 20, 100).await;
    let direct = Client::connect(Options::to([server.address.to_string()])).await.unwrap();
    assert_eq!(total(&direct).await, 2000);
    assert!(first.count_ever() > 10 && second.count_ever() > 10, "the network had too few faults");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn counts_are_exact_while_the_server_restarts() {
    let folder = tempfile::tempdir().unwrap();
    let mut server = Server::start(folder.path()).await;
    let address = server.address;
    let light = Faults { cut: 10, drop_responses: 10, delay: 0, replay: 20, bytes: 20_000 };
    let proxy = light.proxy(address, 4).await;
    let client = Client::new(short_timeouts([proxy.address().to_string()])).unwrap();
    let done = Arc::new(AtomicBool::new(false));
    let adding = tokio::spawn({
        let (client, done) = (client.clone(), done.clone());
        async move {
            let mut added = 0;
            while !done.load(Ordering::Relaxed) {
                add_concurrently(&client, 20, 25).await;
                added += 500;
            }
            added
        }
    });
    for restart in 0..8 {
        // Lets some operations run, so that restarts interrupt them at any point.
        tokio::time::sleep(Duration::from_millis(100)).await;
        server.stop().await;
        if restart % 2 == 0 {
            proxy.cut();
        }
        tokio::time::sleep(Duration::from_millis(30)).await;
        server = Server::start_at(folder.path(), address, Access::open_to_all()).await;
    }
    done.store(true, Ordering::Relaxed);
    let added = adding.await.unwrap();
    let direct = Client::connect(Options::to([address.to_string()])).await.unwrap();
    assert_eq!(total(&direct).await, added);
}
