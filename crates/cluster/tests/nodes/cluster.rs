//! A cluster in one process: each node has a directory and a port of its own.

use std::sync::Arc;
use std::time::{Duration, Instant};

use futures_executor::block_on;
use jeton_cluster::{ClusterNode, ClusterStatus, NodeOptions, Timing, rank};
use jeton_core::{Cell, Change, Column, OpId, Operation, TableSettings};
use jeton_engine::{EngineError, OperationOutcome};
use jeton_register::Registers;
use tempfile::TempDir;
use tokio::runtime::Runtime;

/// Upper bound of any wait, however busy the machine is.
pub const TIMEOUT: Duration = Duration::from_secs(120);

pub const STRIPES: u16 = 6;

pub struct Cluster<R: Registers> {
    pub runtime: Runtime,
    pub nodes: Vec<Option<Arc<ClusterNode<R>>>>,
    folders: Vec<TempDir>,
    open: Box<dyn Fn(usize) -> Arc<R> + Send + Sync>,
}

impl<R: Registers> Cluster<R> {
    /// Starts nodes at once. `open` opens the registers for a node.
    pub fn start(nodes: usize, open: impl Fn(usize) -> Arc<R> + Send + Sync + 'static) -> Self {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build();
        let mut cluster =
            Self { runtime: runtime.unwrap(), nodes: Vec::new(), folders: Vec::new(), open: Box::new(open) };
        for _ in 0..nodes {
            cluster.add();
        }
        cluster
    }

    /// Starts one more node.
    pub fn add(&mut self) {
        self.nodes.push(None);
        self.folders.push(tempfile::tempdir().unwrap());
        self.restart(self.nodes.len() - 1);
    }

    /// Starts a node with the directory that it had.
    pub fn restart(&mut self, number: usize) {
        let timing = Timing {
            heartbeat: Duration::from_millis(100),
            failure_timeout: Duration::from_secs(1),
            absence: Duration::from_secs(5),
            request_timeout: Duration::from_secs(30),
        };
        let options = NodeOptions {
            stripes: STRIPES,
            timing,
            ..NodeOptions::new(self.folders[number].path().into(), "127.0.0.1:0".parse().unwrap())
        };
        let node = ClusterNode::open((self.open)(number), options, self.runtime.handle().clone());
        self.nodes[number] = Some(node.unwrap());
    }

    /// Ends a node without yielding its stripes.
    pub fn stop(&mut self, number: usize) {
        self.nodes[number].take().unwrap().close();
    }

    pub fn node(&self, number: usize) -> &Arc<ClusterNode<R>> {
        self.nodes[number].as_ref().unwrap()
    }

    pub fn running(&self) -> impl Iterator<Item = &Arc<ClusterNode<R>>> {
        self.nodes.iter().flatten()
    }

    /// Waits until the statuses of all running nodes meet a condition.
    pub fn await_all(&self, what: &str, condition: impl Fn(&ClusterStatus) -> bool) {
        let begin = Instant::now();
        while !self.running().all(|node| condition(&node.status())) {
            let statuses: Vec<_> = self.running().map(|node| node.status()).collect();
            assert!(begin.elapsed() < TIMEOUT, "{what}: {statuses:#?}");
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    /// Waits until running nodes own all stripes.
    pub fn await_owned(&self) {
        let ids: Vec<_> = self.running().map(|node| node.id()).collect();
        self.await_all("running nodes own all stripes", |status| {
            status.stripes.iter().all(|stripe| stripe.owner.is_some_and(|owner| ids.contains(&owner)))
        });
    }

    /// Waits until each stripe has the owner that it prefers of the running nodes.
    pub fn await_placed(&self) {
        let ids: Vec<_> = self.running().map(|node| node.id()).collect();
        self.await_all("each stripe has its preferred owner", |status| {
            status
                .stripes
                .iter()
                .all(|stripe| stripe.owner == rank(stripe.number, ids.clone()).first().copied())
        });
    }

    pub fn with_table(self) -> Self {
        self.node(0).create_table("t", TableSettings::default()).unwrap();
        self.await_table("t");
        self
    }

    /// Waits until all nodes know a table.
    pub fn await_table(&self, name: &str) {
        let begin = Instant::now();
        while !self.running().all(|node| node.table(name).is_ok()) {
            assert!(begin.elapsed() < TIMEOUT, "{name}");
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    pub fn cell(&self, row: usize) -> Cell {
        let node = self.running().next().unwrap();
        let table = node.table("t").unwrap();
        node.cell(&table, format!("row {row}").as_bytes(), &Column::unnamed()).unwrap()
    }

    pub fn cells(&self, count: usize) -> Vec<Cell> {
        (0..count).map(|row| self.cell(row)).collect()
    }

    /// The sum of cells as a node reads them.
    pub fn total(&self, number: usize, cells: &[Cell]) -> i64 {
        let value = |cell: &Cell| block_on(self.node(number).get(cell.clone())).unwrap();
        cells.iter().filter_map(|cell| value(cell)?.counter()).sum()
    }
}

/// An addition of 1 with an id of its own.
pub fn addition<R: Registers>(node: &ClusterNode<R>, cell: &Cell, number: usize) -> Operation {
    let id = OpId::uuid7_from(node.now().as_nanos() / 1_000_000, number as u128);
    Operation::single(Some(id), cell.clone(), Change::Add(1)).unwrap()
}

/// Applies an operation, as a client that retries.
pub fn apply<R: Registers>(node: &ClusterNode<R>, operation: &Operation) -> OperationOutcome {
    let begin = Instant::now();
    loop {
        match block_on(node.apply(operation.clone())) {
            Ok(outcome) => return outcome,
            Err(EngineError::Busy(_) | EngineError::Closed | EngineError::Moved) => {}
            Err(error) => panic!("{error}"),
        }
        assert!(begin.elapsed() < TIMEOUT);
        std::thread::sleep(Duration::from_millis(10));
    }
}
