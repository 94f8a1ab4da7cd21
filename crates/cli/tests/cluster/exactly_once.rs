//! Counts stay exact while nodes are killed, paused and restarted.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use jeton_client::{Client, Id, Options, StoredValue};
use rustix::process::Signal;
use tokio::runtime::Runtime;

use crate::nodes::Cluster;
use crate::until;

const ROWS: u64 = 40;
const CLIENTS: usize = 4;
const DEADLINE: Duration = Duration::from_secs(30);

/// An operation and its result.
#[derive(Clone)]
struct Done {
    row: u64,
    delta: i64,
    id: Id,
    value: Option<i64>,
}

/// Clients that add through all nodes until they are stopped.
struct Load {
    stop: Arc<AtomicBool>,
    count: Arc<AtomicU64>,
    clients: Vec<JoinHandle<Vec<Done>>>,
}

fn runtime() -> Runtime {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap()
}

fn client(cluster: &Cluster, first: usize) -> Client {
    let attempt_timeout = Duration::from_secs(1);
    Client::new(Options { deadline: DEADLINE, attempt_timeout, ..Options::to(cluster.addresses(first)) })
        .unwrap()
}

impl Load {
    fn start(cluster: &Cluster) -> Self {
        let (stop, count) = (Arc::<AtomicBool>::default(), Arc::<AtomicU64>::default());
        let start = |number: usize| {
            let addresses = cluster.addresses(number % cluster.nodes.len());
            let (stop, count) = (Arc::clone(&stop), Arc::clone(&count));
            std::thread::spawn(move || runtime().block_on(add_until(addresses, number as u64, &stop, &count)))
        };
        let clients = (0..CLIENTS).map(start).collect();
        Self { stop, count, clients }
    }

    /// Waits until this many further operations have their results.
    fn await_progress(&self, operations: u64) {
        let target = self.count.load(Ordering::Relaxed) + operations;
        until("operations have results", || {
            assert!(self.clients.iter().all(|client| !client.is_finished()), "a client failed");
            self.count.load(Ordering::Relaxed) >= target
        });
    }

    fn stop(self) -> Vec<Done> {
        self.stop.store(true, Ordering::Relaxed);
        self.clients.into_iter().flat_map(|client| client.join().unwrap()).collect()
    }
}

/// Adds with a new id each time. Every operation is retried until it has a result.
async fn add_until(addresses: Vec<String>, seed: u64, stop: &AtomicBool, count: &AtomicU64) -> Vec<Done> {
    let attempt_timeout = Duration::from_secs(1);
    let options = Options { deadline: DEADLINE, attempt_timeout, ..Options::to(addresses) };
    let client = Client::new(options).unwrap();
    let mut all = Vec::new();
    let mut number = seed;
    while !stop.load(Ordering::Relaxed) {
        number += CLIENTS as u64;
        let (row, delta, id) = (number * 7 % ROWS, (number % 5) as i64 + 1, client.new_id());
        let outcome = client.add(format!("row{row}"), delta).id(id.clone()).await;
        let outcome = outcome.unwrap_or_else(|error| panic!("row {row} has no result: {error}"));
        assert!(outcome.is_applied(), "{outcome:?}");
        all.push(Done { row, delta, id, value: outcome.value });
        count.fetch_add(1, Ordering::Relaxed);
    }
    all
}

/// Checks that every operation was counted once: sums are equal, results are distinct, and retries change
/// nothing.
fn check(cluster: &Cluster, done: &[Done]) {
    runtime().block_on(async {
        let mut sums = BTreeMap::new();
        for one in done {
            *sums.entry(one.row).or_insert(0) += one.delta;
        }
        // Deltas are positive, so that two operations on a row have different results.
        let mut results: Vec<_> = done.iter().map(|one| (one.row, one.value)).collect();
        results.sort_unstable();
        results.dedup();
        assert_eq!(results.len(), done.len(), "two operations have the same result");
        for number in 0..cluster.nodes.len() {
            let client = client(cluster, number);
            for one in done.iter().skip(number).step_by(done.len() / 50 + 1) {
                let retry =
                    client.add(format!("row{}", one.row), one.delta).id(one.id.clone()).await.unwrap();
                assert!(retry.replayed, "{retry:?}");
                assert_eq!(retry.value, one.value);
            }
            for (row, sum) in &sums {
                let value = client.get(format!("row{row}")).await.unwrap();
                assert_eq!(value, Some(StoredValue::Counter(*sum)), "row{row} at node {number}");
            }
        }
    });
}

#[test]
fn counts_are_exact_when_owners_are_killed_and_paused() {
    let mut cluster = Cluster::start(3);
    cluster.await_spread();
    let load = Load::start(&cluster);
    load.await_progress(200);
    cluster.nodes[0].end(Signal::KILL);
    cluster.await_owners(&[1, 2]);
    load.await_progress(200);
    cluster.launch(0);
    cluster.await_ready(0);
    load.await_progress(100);
    // Longer than the failure timeout: the other nodes take its stripes.
    cluster.nodes[1].signal(Signal::STOP);
    cluster.await_owners(&[2, 0]);
    load.await_progress(100);
    cluster.nodes[1].signal(Signal::CONT);
    load.await_progress(200);
    check(&cluster, &load.stop());
}

#[test]
fn a_rolling_restart_is_invisible_to_retrying_clients() {
    let mut cluster = Cluster::start(3);
    cluster.await_spread();
    let load = Load::start(&cluster);
    for number in 0..3 {
        load.await_progress(100);
        assert_eq!(cluster.nodes[number].end(Signal::TERM), Some(0), "{}", cluster.nodes[number].log());
        assert!(cluster.nodes[number].log().contains("other nodes have taken the stripes"));
        load.await_progress(100);
        cluster.launch(number);
        cluster.await_ready(number);
    }
    check(&cluster, &load.stop());
}
