//! Requests to any node while owners come and go.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use futures_executor::block_on;
use jeton_cluster::ClusterNode;
use jeton_core::{Cell, Operation};
use jeton_engine::OperationOutcome;
use jeton_register::Registers;
use jeton_register::memory::MemoryRegisters;

use crate::cluster::{Cluster, addition, apply};

pub fn memory(nodes: usize) -> Cluster<MemoryRegisters> {
    let registers = Arc::new(MemoryRegisters::new());
    Cluster::start(nodes, move |_| Arc::clone(&registers))
}

/// Clients that apply operations at random nodes until they are stopped, and each operation a second time
/// at another node.
pub struct Load {
    stop: Arc<AtomicBool>,
    done: Arc<AtomicUsize>,
    threads: Vec<std::thread::JoinHandle<Vec<Operation>>>,
}

impl Load {
    pub fn begin<R: Registers>(nodes: Vec<Arc<ClusterNode<R>>>, cells: Vec<Cell>) -> Self {
        let (stop, done) = (Arc::<AtomicBool>::default(), Arc::<AtomicUsize>::default());
        let client = |client: usize| {
            let (nodes, cells) = (nodes.clone(), cells.clone());
            let (stop, done) = (Arc::clone(&stop), Arc::clone(&done));
            std::thread::spawn(move || {
                let mut operations = Vec::new();
                while !stop.load(Ordering::Relaxed) {
                    let number = client << 32 | operations.len();
                    let at = client + operations.len();
                    let operation = addition(&nodes[0], &cells[at % cells.len()], number);
                    apply(&nodes[at % nodes.len()], &operation);
                    let again = apply(&nodes[(at + 1) % nodes.len()], &operation);
                    assert!(matches!(again, OperationOutcome::Replayed(_)), "{again:?}");
                    operations.push(operation);
                    done.fetch_add(1, Ordering::Relaxed);
                }
                operations
            })
        };
        let threads = (0..4).map(client).collect();
        Self { stop, done, threads }
    }

    /// Waits until more operations are applied.
    pub fn await_more(&self, count: usize) {
        let begin = std::time::Instant::now();
        let before = self.done.load(Ordering::Relaxed);
        while self.done.load(Ordering::Relaxed) < before + count {
            assert!(begin.elapsed() < crate::cluster::TIMEOUT, "no operation is applied");
            std::thread::yield_now();
        }
    }

    pub fn stop(self) -> Vec<Operation> {
        self.stop.store(true, Ordering::Relaxed);
        self.threads.into_iter().flat_map(|thread| thread.join().unwrap()).collect()
    }
}

#[test]
fn any_node_takes_any_request() {
    let cluster = memory(3).with_table();
    cluster.await_placed();
    let cells = cluster.cells(30);
    for number in 0..90 {
        let operation = addition(cluster.node(0), &cells[number % 30], number);
        let fresh = apply(cluster.node(number % 3), &operation);
        let again = apply(cluster.node((number + 1) % 3), &operation);
        match (fresh, again) {
            (OperationOutcome::Fresh(first), OperationOutcome::Replayed(again)) => assert_eq!(first, again),
            other => panic!("{other:?}"),
        }
        assert_eq!(cluster.total(number % 3, &cells), number as i64 + 1);
    }
}

/// The owner of some stripes is stopped under load, and started again; then the next one.
pub fn owners_are_replaced<R: Registers>(mut cluster: Cluster<R>) {
    cluster.await_placed();
    let cells = cluster.cells(20);
    let mut expected = 0;
    for stopped in [0, 1, 2] {
        let others = (0..3).filter(|node| *node != stopped);
        let load = Load::begin(others.map(|node| Arc::clone(cluster.node(node))).collect(), cells.clone());
        load.await_more(50);
        cluster.stop(stopped);
        cluster.await_owned();
        load.await_more(50);
        cluster.restart(stopped);
        cluster.await_placed();
        load.await_more(50);
        let operations = load.stop();
        expected += operations.len() as i64;
        for node in 0..3 {
            assert_eq!(cluster.total(node, &cells), expected, "at node {node}");
        }
        for operation in operations.iter().step_by(7) {
            let again = apply(cluster.node(stopped), operation);
            assert!(matches!(again, OperationOutcome::Replayed(_)), "{again:?}");
        }
    }
}

#[test]
fn no_count_is_lost_if_owners_stop() {
    owners_are_replaced(memory(3).with_table());
}

#[test]
fn a_drain_moves_all_stripes_without_an_error() {
    let cluster = memory(3).with_table();
    cluster.await_placed();
    let cells = cluster.cells(20);
    let load = Load::begin(cluster.running().cloned().collect(), cells.clone());
    load.await_more(50);
    let drained = cluster.node(1).id();
    cluster.runtime.block_on(cluster.node(1).drain());
    cluster.await_all("the other nodes own all", |status| {
        status.stripes.iter().all(|stripe| stripe.owner.is_some_and(|owner| owner != drained))
    });
    load.await_more(50);
    let expected = load.stop().len() as i64;
    assert_eq!(cluster.total(1, &cells), expected);
    assert_eq!(block_on(cluster.node(1).prepared_branches()), Ok(Vec::new()));
}
