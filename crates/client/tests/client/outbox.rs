//! The outbox: stored operations count once, across failures of client, server and network.

use std::path::Path;
use std::time::Duration;

use jeton_client::{Client, Id, Options, Outbox, OutboxError, OutboxLimits};

use crate::chaos::{HEAVY, short_timeouts};
use crate::server::Server;

async fn counter(server: &Server, key: &str) -> i64 {
    let client = Client::connect(Options::to([server.address.to_string()])).await.unwrap();
    client.get(key).await.unwrap().and_then(|value| value.counter()).unwrap_or_default()
}

fn copy(from: &Path, to: &Path) {
    std::fs::create_dir_all(to).unwrap();
    for entry in std::fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        // A file that was just renamed may be missing.
        let _missing = std::fs::copy(entry.path(), to.join(entry.file_name()));
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_next_process_delivers_stored_operations() {
    let (store, folder) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let server = Server::start(store.path()).await;
    let address = server.address;
    server.stop().await;
    let options = Options { deadline: Duration::from_millis(100), ..short_timeouts([address.to_string()]) };
    let client = Client::new(options.clone()).unwrap();
    let outbox = Outbox::open(folder.path(), client.clone()).await.unwrap();
    let receipt = outbox.add("a", 5).store().await.unwrap();
    outbox.add("a", 100).max(50).store().await.unwrap();
    outbox.set("b", 7).store().await.unwrap();
    outbox.add_many([("{x}1", 1), ("{x}2", 2)]).store().await.unwrap();
    assert_eq!(outbox.pending(), 4);
    let locked = Outbox::open(folder.path(), client.clone()).await.map(drop).unwrap_err();
    assert!(matches!(locked, OutboxError::Locked(_)), "{locked}");
    outbox.close().await;

    let server = Server::start_at(store.path(), address, jeton_auth::Access::open_to_all()).await;
    let outbox = Outbox::open(folder.path(), client.clone()).await.unwrap();
    outbox.flush().await;
    assert_eq!(
        (counter(&server, "a").await, counter(&server, "b").await, counter(&server, "{x}2").await),
        (5, 7, 2)
    );
    assert!(outbox.undelivered().is_empty());
    let again = client.add("a", 5).id(receipt.id).await.unwrap();
    assert!(again.replayed, "it was delivered with another id");
    let delivered = outbox.add("a", 1).store().await.unwrap().delivered().await.unwrap().unwrap();
    assert_eq!(delivered.values, [Some(6)]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_crash_at_any_time_keeps_counts_exact() {
    const OPERATIONS: usize = 400;
    let (store, place) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let server = Server::start(store.path()).await;
    let proxy = HEAVY.proxy(server.address, 6).await;
    let client = Client::new(short_timeouts([proxy.address().to_string()])).unwrap();
    let folder = place.path().join("first");
    let outbox = Outbox::open(&folder, client.clone()).await.unwrap();
    let mut crashed = Vec::new();
    for number in 0..OPERATIONS {
        outbox.add("a", 1).store().await.unwrap();
        if number % 40 == 7 {
            // The disk as a crash would leave it now.
            let to = place.path().join(format!("crash-{number}"));
            copy(&folder, &to);
            crashed.push(to);
        }
    }
    outbox.close().await;
    for folder in &crashed {
        let outbox = Outbox::open(folder, client.clone()).await.unwrap();
        outbox.flush().await;
        assert!(outbox.undelivered().is_empty());
    }
    let outbox = Outbox::open(&folder, client.clone()).await.unwrap();
    outbox.flush().await;
    assert_eq!(counter(&server, "a").await, OPERATIONS as i64);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_copy_after_a_crash_contains_all_stored() {
    let (store, place) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    // Without a server nothing is delivered before the copy.
    let unused = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let client = Client::new(short_timeouts([unused.to_string()])).unwrap();
    let outbox = Outbox::open(place.path().join("first"), client).await.unwrap();
    for _ in 0..50 {
        outbox.add("a", 1).store().await.unwrap();
    }
    copy(&place.path().join("first"), &place.path().join("copy"));
    drop(outbox);
    let server = Server::start(store.path()).await;
    let client = Client::new(short_timeouts([server.address.to_string()])).unwrap();
    let outbox = Outbox::open(place.path().join("copy"), client).await.unwrap();
    outbox.flush().await;
    assert_eq!(counter(&server, "a").await, 50);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn undelivered_operations_are_listed_until_forgotten() {
    let (store, folder) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let server = Server::start(store.path()).await;
    let client = Client::new(short_timeouts([server.address.to_string()])).unwrap();
    let outbox = Outbox::open(folder.path(), client.clone()).await.unwrap();
    let old = Id::new("018bcfe5-6800-7000-8000-000000000000").unwrap();
    let receipt = outbox.add("a", 1).id(old.clone()).store().await.unwrap();
    let error = receipt.delivered().await.unwrap().unwrap_err();
    assert!(error.expired, "{error}");
    let used = client.add("a", 1).await.unwrap().id;
    outbox.add("a", 2).id(used.clone()).store().await.unwrap();
    outbox.flush().await;
    outbox.close().await;

    let outbox = Outbox::open(folder.path(), client.clone()).await.unwrap();
    let list = outbox.undelivered();
    assert_eq!(list.iter().map(|one| &one.id).collect::<Vec<_>>(), [&old, &used]);
    assert_eq!(list.iter().map(|one| one.expired).collect::<Vec<_>>(), [true, false]);
    assert_eq!(list[0].operation, "add 1 to a");
    assert!(list[0].reason.contains("older than the window"), "{}", list[0].reason);
    assert!(outbox.forget(&old).await && !outbox.forget(&old).await);
    assert_eq!(outbox.undelivered().len(), 1);
    assert_eq!(counter(&server, "a").await, 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn undated_ids_and_full_outboxes_are_rejected() {
    let folder = tempfile::tempdir().unwrap();
    let unused = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let client = Client::new(short_timeouts([unused.to_string()])).unwrap();
    let limits = OutboxLimits { operations: 3, ..OutboxLimits::default() };
    let outbox = Outbox::open_with(folder.path(), client, limits).await.unwrap();
    let undated = outbox.add("a", 1).id(Id::new("order-7").unwrap()).store().await.unwrap_err();
    assert!(matches!(undated, OutboxError::Invalid(_)), "{undated}");
    assert!(matches!(outbox.add("", 1).store().await, Err(OutboxError::Invalid(_))));
    for _ in 0..3 {
        outbox.add("a", 1).store().await.unwrap();
    }
    assert!(matches!(outbox.add("a", 1).store().await, Err(OutboxError::Full(_))));
    assert_eq!(outbox.pending(), 3);
}
