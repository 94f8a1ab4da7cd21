//! Checkpoints in the registers.

use futures_executor::block_on;
use jeton_core::{Cell, Operation};
use jeton_engine::{EngineError, OperationOutcome};
use jeton_register::memory::{Faults, MemoryRegisters};
use jeton_register::{Extent, LogId, Registers, Slot};
use jeton_testkit::Rng;
use tempfile::TempDir;

use super::caches::small;
use super::node::{Node, STRIPE};

/// Operations and their first results.
#[derive(Default)]
pub struct Counted {
    cells: Vec<Cell>,
    operations: Vec<(Operation, OperationOutcome)>,
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

fn node<R: Registers>(registers: R, number: u128, folder: TempDir) -> Node<R> {
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

fn objects(registers: &MemoryRegisters) -> Vec<String> {
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
    counted.add(&second, 10);
    assert_eq!(first.apply(&counted.operations[0].0).map(drop), Ok(()), "it has not noticed");
    let third = node(third, 3, empty());
    counted.check(&third);
}

#[test]
fn an_empty_directory_takes_over_after_a_trim() {
    let registers = MemoryRegisters::new();
    take_over_from_checkpoints(registers.clone(), registers.clone(), registers);
}

#[test]
fn checkpoints_survive_faults_of_the_registers() {
    for seed in 0..5 {
        let registers = MemoryRegisters::with_faults(seed, Faults::default());
        let faults = Faults { refused: 80, lost: 80, late: 80, delayed: 300 };
        let mut random = Rng::new(seed);
        let mut owner = node(registers.clone(), 1, empty()).with_table();
        let mut counted = Counted::new(&owner);
        for number in 2..8 {
            let mut checkpoints = owner.checkpoints();
            registers.set_faults(faults);
            for _ in 0..4 {
                counted.add(&owner, 100 + random.index(200));
                // After an error the next upload tries again.
                drop(checkpoints.upload());
            }
            registers.set_faults(Faults { delayed: 300, ..Faults::default() });
            let next = node(registers.clone(), number, empty());
            // The deposed owner has not noticed.
            if random.percent(50) {
                drop(checkpoints.upload());
            }
            counted.check(&next);
            owner = next;
        }
        registers.set_faults(Faults::default());
        registers.deliver_late();
        assert!(extent(&registers, LogId::stripe(STRIPE)).trimmed > Slot(100), "seed {seed}");
        owner.checkpoints().upload().unwrap();
        counted.check(&node(registers, 9, empty()));
    }
}
