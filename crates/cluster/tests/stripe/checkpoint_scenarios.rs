//! What nodes do with checkpoints in the registers, and what must hold then.

use futures_executor::block_on;
use jeton_cluster::CheckpointError;
use jeton_core::{Cell, Operation};
use jeton_engine::{EngineError, OperationOutcome};
use jeton_register::memory::MemoryRegisters;
use jeton_register::{Extent, LogId, Registers, Slot};
use tempfile::TempDir;

use super::node::{Node, STRIPE, small};

/// Operations and their first results.
#[derive(Default)]
pub struct Counted {
    pub cells: Vec<Cell>,
    pub operations: Vec<(Operation, OperationOutcome)>,
}

impl Counted {
    pub fn new<R: Registers>(node: &Node<R>) -> Self {
        Self { cells: node.cells(10), operations: Vec::new() }
    }

    /// Counts at a node.
    pub fn add<R: Registers>(&mut self, node: &Node<R>, count: usize) {
        let first = self.operations.len();
        let mut waiting: Vec<_> = (first..first + count)
            .map(|number| node.addition(&self.cells[number % self.cells.len()], number as u64))
            .collect();
        while !waiting.is_empty() {
            let sent: Vec<_> = waiting.iter().map(|one| node.engine.apply(one.clone())).collect();
            let mut results: Vec<_> = sent.into_iter().map(block_on).collect();
            for (operation, result) in std::mem::take(&mut waiting).into_iter().zip(results.drain(..)) {
                match result {
                    Ok(outcome) => self.operations.push((operation, outcome)),
                    Err(EngineError::Busy(_)) => waiting.push(operation),
                    Err(error) => panic!("{error}"),
                }
            }
        }
    }

    /// The values and the first results are at this node.
    pub fn check<R: Registers>(&self, node: &Node<R>) {
        assert_eq!(node.total(&self.cells), self.operations.len() as i64);
        for (operation, first) in &self.operations {
            let (OperationOutcome::Fresh(first) | OperationOutcome::Replayed(first)) = first else {
                panic!("{first:?}")
            };
            assert_eq!(node.apply(operation), Ok(OperationOutcome::Replayed(first.clone())));
        }
        assert_eq!(node.total(&self.cells), self.operations.len() as i64);
    }
}

pub fn node<R: Registers>(registers: R, number: u128, folder: TempDir) -> Node<R> {
    Node::open_in(folder, registers, number, small)
}

pub fn empty() -> TempDir {
    tempfile::tempdir().unwrap()
}

pub fn extent<R: Registers>(registers: &R, log: LogId) -> Extent {
    loop {
        if let Ok(extent) = block_on(registers.extent(log)) {
            return extent;
        }
    }
}

pub fn objects(registers: &MemoryRegisters) -> Vec<String> {
    block_on(registers.list_objects("stripe-1.", "", usize::MAX)).unwrap()
}

/// Takes the stripe over with an empty directory, after trims.
pub fn take_over_from_checkpoints<R: Registers>(first: R, second: R, third: R) {
    let log = LogId::stripe(STRIPE);
    let first = node(first, 1, empty()).with_table();
    let mut counted = Counted::new(&first);
    let mut checkpoints = first.checkpoints();
    for _ in 0..3 {
        counted.add(&first, 700);
        checkpoints.upload().unwrap();
        checkpoints.clean_up().unwrap();
    }
    counted.add(&first, 50);
    let Extent { trimmed, last } = extent(&second, log);
    assert!(trimmed > Slot::ZERO && trimmed < last, "{trimmed} {last}");
    assert_eq!(extent(&second, LogId::manifest(STRIPE)), Extent { trimmed: Slot(2), last: Slot(3) });

    let second = node(second, 2, empty());
    let replayed = second.engine.stats().replayed_entries;
    assert!((1..=50).contains(&replayed), "{replayed} entries");
    counted.check(&second);
    counted.add(&second, 300);
    let mut next = second.checkpoints();
    next.upload().unwrap();
    next.clean_up().unwrap();
    counted.add(&second, 10);
    let third = node(third, 3, empty());
    counted.check(&third);
}

/// Two owners, of whom the first has not noticed the second, store a checkpoint at the same time.
pub fn race_for_a_manifest() {
    let registers = MemoryRegisters::new();
    let first = node(registers.clone(), 1, empty()).with_table();
    let mut counted = Counted::new(&first);
    let mut early = first.checkpoints();
    counted.add(&first, 500);
    early.upload().unwrap();
    early.clean_up().unwrap();
    counted.add(&first, 500);
    let second = node(registers.clone(), 2, empty());
    let mut late = second.checkpoints();
    counted.add(&second, 500);
    // It has read the first manifest, and uploaded nothing.
    registers.set_space(Some(0));
    let full = late.upload();
    assert!(matches!(full, Err(CheckpointError::Registers(_))), "{full:?}");
    registers.set_space(None);
    early.upload().unwrap();
    if late.upload().is_ok() {
        late.clean_up().unwrap();
    }
    let third = node(registers.clone(), 3, empty());
    counted.check(&third);
    drop(third);
    early.clean_up().unwrap();
    late.upload().unwrap();
    late.clean_up().unwrap();
    // The first owner learns that it is late, and then why.
    let refused = (early.upload(), early.upload());
    assert!(
        matches!(refused, (Err(CheckpointError::Overtaken), Err(CheckpointError::Deposed))),
        "{refused:?}"
    );
    counted.check(&node(registers, 4, empty()));
}
