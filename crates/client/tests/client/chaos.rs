//! Exact counts over a network as bad as one likes.

use std::time::Duration;

use jeton_auth::Access;
use jeton_client::{Backoff, Client, Error, Options};

use crate::proxy::{Proxy, Weather};
use crate::server::Server;

pub const STORM: Weather = Weather { cut: 40, swallow: 30, delay: 20, repeat: 30, bytes: 3000 };

pub fn impatient(addresses: impl IntoIterator<Item = String>) -> Options {
    Options {
        attempt_timeout: Duration::from_millis(250),
        deadline: Duration::from_secs(5),
        backoff: Backoff { base: Duration::from_millis(2), cap: Duration::from_millis(50) },
        ..Options::to(addresses)
    }
}

/// Adds 1, as often as it takes to be certain that it was counted: with the same id after an unknown outcome, and with another only
/// where it is certain that nothing changed. How often it was not known.
pub async fn add_surely(client: &Client, key: &str) -> u64 {
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

/// This many callers make this many additions each, to a few counters. How many outcomes were not known at first.
pub async fn crowd(client: &Client, callers: u64, each: u64) -> u64 {
    let mut tasks = tokio::task::JoinSet::new();
    for caller in 0..callers {
        let client = client.clone();
        tasks.spawn(async move {
            let mut unknown = 0;
            for _ in 0..each {
                unknown += add_surely(&client, &format!("clicks:{}", caller % 4)).await;
            }
            unknown
        });
    }
    tasks.join_all().await.into_iter().sum()
}

pub async fn total(client: &Client) -> i64 {
    let mut total = 0;
    for counter in 0..4 {
        let held = client.get(format!("clicks:{counter}")).await.unwrap();
        total += held.and_then(|held| held.counter()).unwrap_or_default();
    }
    total
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn counts_are_exact_in_a_storm() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::start(folder.path()).await;
    let proxy = Proxy::start(server.address, STORM, 1).await;
    // So impatient that it gives up now and then, and the outcome is not known.
    let options = Options { deadline: Duration::from_millis(300), ..impatient([proxy.address.to_string()]) };
    let client = Client::new(options).unwrap();
    let unknown = crowd(&client, 40, 100).await;
    assert!(unknown > 10, "there was nothing to be unsure of: {unknown}");
    let direct = Client::connect(Options::to([server.address.to_string()])).await.unwrap();
    assert_eq!(total(&direct).await, 4000);
    assert!(proxy.connections() > 50 && proxy.repeated() > 5, "there was no storm");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn counts_are_exact_with_hedges_over_two_bad_networks() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::start(folder.path()).await;
    let first = Proxy::start(server.address, STORM, 2).await;
    let second = Proxy::start(server.address, STORM, 3).await;
    let addresses = [first.address.to_string(), second.address.to_string()];
    let options = Options { hedge_after: Some(Duration::from_millis(5)), ..impatient(addresses) };
    let client = Client::new(options).unwrap();
    crowd(&client, 20, 100).await;
    let direct = Client::connect(Options::to([server.address.to_string()])).await.unwrap();
    assert_eq!(total(&direct).await, 2000);
    assert!(first.connections() > 10 && second.connections() > 10, "there was no storm");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn counts_are_exact_while_the_server_is_started_again_and_again() {
    let folder = tempfile::tempdir().unwrap();
    let mut server = Server::start(folder.path()).await;
    let address = server.address;
    let mild = Weather { cut: 10, swallow: 10, delay: 0, repeat: 20, bytes: 20_000 };
    let proxy = Proxy::start(address, mild, 4).await;
    let client = Client::new(impatient([proxy.address.to_string()])).unwrap();
    let counting = tokio::spawn({
        let client = client.clone();
        async move { crowd(&client, 20, 150).await }
    });
    let mut restarts = 0;
    while !counting.is_finished() {
        // Some work between the restarts, so that they meet it at any point.
        tokio::time::sleep(Duration::from_millis(100)).await;
        server.stop().await;
        proxy.set_down(restarts % 2 == 0);
        tokio::time::sleep(Duration::from_millis(30)).await;
        server = Server::start_at(folder.path(), address, Access::open_to_all()).await;
        proxy.set_down(false);
        restarts += 1;
    }
    counting.await.unwrap();
    let direct = Client::connect(Options::to([address.to_string()])).await.unwrap();
    assert_eq!(total(&direct).await, 3000);
    assert!(restarts > 3, "{restarts} restarts");
}
