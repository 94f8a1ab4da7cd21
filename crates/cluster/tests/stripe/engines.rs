//! Engines on registers in memory.

use futures_executor::block_on;
use jeton_cluster::NodeId;
use jeton_core::{Change, Column, IdStatus, Operation, limits};
use jeton_engine::{AppendError, EngineError, OperationOutcome, PartitionLog};
use jeton_register::memory::{Faults, MemoryRegisters};
use jeton_register::{LogId, Registers, Slot};
use jeton_testkit::Rng;
use jeton_wal::Error as LogError;

use super::node::{Node, STRIPE, partitions};

/// A node that owns the stripe, with a table.
fn first(registers: &MemoryRegisters) -> Node<MemoryRegisters> {
    Node::open(registers.clone(), 1).with_table()
}

#[test]
fn the_next_owner_replays_values_and_first_results() {
    let registers = MemoryRegisters::new();
    let first = first(&registers);
    let cells = first.cells(5);
    let operations: Vec<_> = (0..40).map(|n| first.addition(&cells[n as usize % 5], n)).collect();
    let results: Vec<_> = operations.iter().map(|operation| first.apply(operation).unwrap()).collect();
    let second = Node::open(registers, 2);
    assert!(second.log.term() > first.log.term());
    assert_eq!(second.total(&cells), 40);
    for (operation, result) in operations.iter().zip(results) {
        let OperationOutcome::Fresh(result) = result else { panic!("{result:?}") };
        assert_eq!(second.apply(operation), Ok(OperationOutcome::Replayed(result)));
    }
    assert_eq!(second.total(&cells), 40);
}

#[test]
fn a_deposed_engine_acknowledges_nothing() {
    let registers = MemoryRegisters::new();
    let first = first(&registers);
    let second = Node::open(registers, 2);
    let cells = first.cells(1);
    let operation = first.addition(&cells[0], 1);
    assert!(!first.log.is_deposed(), "it has not noticed");
    assert_eq!(first.apply(&operation), Err(EngineError::Closed));
    assert!(first.log.is_deposed());
    assert_eq!(block_on(first.log.prove()), Err(AppendError::Deposed));
    assert_eq!(first.log.reserve(1, 1).map(drop), Err(AppendError::Deposed));
    // The shard has ended, and a checkpoint that waits for it does not hang.
    for _ in 0..3 {
        assert_eq!(first.apply(&operation), Err(EngineError::Closed));
        assert_eq!(block_on(first.engine.stored()), Err(EngineError::Closed));
    }
    first.engine.create_table("other", Default::default()).unwrap_err();
    first.engine.close();
    assert_eq!(second.total(&cells), 0);
    assert!(matches!(second.apply(&operation), Ok(OperationOutcome::Fresh(_))));
    assert_eq!(second.total(&cells), 1);
}

#[test]
fn an_idle_owner_notices_a_new_owner_by_a_proof() {
    let registers = MemoryRegisters::new();
    let first = first(&registers);
    assert_eq!(block_on(first.log.prove()), Ok(()));
    let second = Node::open(registers, 2);
    assert_eq!(block_on(first.log.prove()), Err(AppendError::Deposed));
    let cell = first.cells(1).remove(0);
    assert_eq!(
        first.apply(&first.addition(&cell, 1)),
        Err(EngineError::Moved),
        "refused before it is decided"
    );
    assert_eq!(block_on(second.log.prove()), Ok(()));
}

#[test]
fn an_owner_that_yields_writes_nothing_more() {
    let registers = MemoryRegisters::new();
    let first = first(&registers);
    let cell = first.cells(1).remove(0);
    first.apply(&first.addition(&cell, 1)).unwrap();
    assert_eq!(block_on(first.log.yield_to(NodeId(2))), Ok(()));
    // Until the thread of the log has ended, a proof is dropped with it.
    assert_eq!(block_on(first.log.prove()), Err(AppendError::Deposed));
    assert_eq!(first.apply(&first.addition(&cell, 2)), Err(EngineError::Moved));
    let second = Node::open(registers, 2);
    assert_eq!(second.total(&[cell]), 1);
}

#[test]
fn requests_for_other_stripes_are_refused_as_moved() {
    let node = first(&MemoryRegisters::new());
    let other = (0..).map(|row| node.cell(row)).find(|cell| !partitions().contains(&cell.partition().0));
    let other = other.unwrap();
    let operation = node.addition(&other, 1);
    assert_eq!(node.apply(&operation), Err(EngineError::Moved));
    assert_eq!(block_on(node.engine.get(other.clone())), Err(EngineError::Moved));
    let id = operation.id().unwrap().clone();
    assert_eq!(block_on(node.engine.operation(other, id.clone())), Err(EngineError::Moved));
    assert_eq!(block_on(node.engine.prepared_branches()), Ok(Vec::new()));
    // Its own continue, also in the same batch.
    let own = node.cells(1).remove(0);
    assert_eq!(block_on(node.engine.operation(own.clone(), id)), Ok(IdStatus::No));
    let asks = [&operation, &node.addition(&own, 2)].map(|one| jeton_engine::Ask::Apply(one.clone()));
    let responses = block_on(node.engine.submit_batch(asks.to_vec()));
    let applied: Vec<bool> =
        responses.iter().map(|one| matches!(one, jeton_engine::Response::Applied(Ok(_)))).collect();
    assert_eq!(applied, [false, true]);
}

/// A batch that is too large for a frame would end the process.
#[test]
fn the_largest_operations_fit_into_frames() {
    let registers = MemoryRegisters::new();
    let node = first(&registers);
    let cells = node.cells(1_000);
    let table = node.engine.table("t").unwrap();
    let large = (0..20).map(|number| {
        let changes = (0..15).map(|column| {
            let column = Column::parse(format!("f:{column}").as_bytes()).unwrap();
            let cell = node.engine.cell(&table, &cells[0].row_and_column().0, &column).unwrap();
            (cell, Change::Put(vec![7; limits::CELL_BYTES_MAX].into()))
        });
        Operation::batch(node.addition(&cells[0], number).id().cloned(), changes.collect()).unwrap()
    });
    let small = cells.iter().zip(100..).map(|(cell, number)| node.addition(cell, number));
    // All at once; beyond the limits they are refused as busy.
    let mut waiting: Vec<Operation> = large.chain(small).collect();
    while !waiting.is_empty() {
        let sent: Vec<_> = waiting.iter().map(|one| node.engine.apply(one.clone())).collect();
        let results: Vec<_> = sent.into_iter().map(block_on).collect();
        let mut results = results.into_iter();
        waiting.retain(|_| match results.next() {
            Some(Ok(outcome)) => !matches!(outcome, OperationOutcome::Fresh(_)),
            Some(Err(EngineError::Busy(_))) => true,
            other => panic!("{other:?}"),
        });
    }
    drop(node);
    let second = Node::open(registers.clone(), 2);
    assert_eq!(second.total(&cells), 1_000);
    let mut next = Slot(1);
    while let Some((slot, frame)) = block_on(registers.read(LogId::stripe(STRIPE), next, 1)).unwrap().pop() {
        assert!(frame.len() <= registers.limits().value_bytes_max, "slot {slot}: {} bytes", frame.len());
        next = slot.next();
    }
}

#[test]
fn requests_beyond_the_limits_of_the_log_are_busy() {
    let node = first(&MemoryRegisters::new());
    let operation = node.addition(&node.cells(1)[0], 1);
    let large: Vec<_> = std::iter::from_fn(|| node.log.reserve(1, 1 << 20).ok()).take(100).collect();
    assert_eq!(large.len(), 7, "of 8 MiB with what each entry takes besides");
    drop(large);
    let many: Vec<_> = std::iter::from_fn(|| node.log.reserve(1, 1).ok()).take(10_000).collect();
    assert_eq!(many.len(), 1024);
    assert_eq!(node.apply(&operation), Err(EngineError::Busy("the log lags behind")));
    assert!(matches!(block_on(node.log.prove()), Err(AppendError::Log(LogError::Busy(_)))));
    drop(many);
    assert!(matches!(node.apply(&operation), Ok(OperationOutcome::Fresh(_))));
}

/// Engines take the stripe from one another while requests of the registers are refused, lost and late.
#[test]
fn operations_count_once_over_many_takeovers() {
    for seed in 0..6 {
        let registers = MemoryRegisters::with_faults(seed, Faults::default());
        let mut random = Rng::new(seed);
        let mut owner = first(&registers);
        let cells = owner.cells(4);
        let mut deposed: Vec<Node<MemoryRegisters>> = Vec::new();
        let operations: Vec<_> = (0..120).map(|n| owner.addition(&cells[n as usize % 4], n)).collect();
        registers.set_faults(Faults { refused: 100, lost: 100, late: 100, delayed: 300 });
        for (number, operation) in operations.iter().enumerate() {
            if let Some(old) = deposed.last().filter(|_| random.percent(30)) {
                old.apply(operation).unwrap_err();
            }
            let first = owner.apply(operation).unwrap();
            if random.percent(50) {
                let again = owner.apply(operation).unwrap();
                assert!(matches!((first, again), (_, OperationOutcome::Replayed(_))));
            }
            if random.percent(5) {
                // Late writes of the owner before land meanwhile.
                registers.set_faults(Faults { delayed: 300, ..Faults::default() });
                let next = Node::open(registers.clone(), number as u128 + 2);
                registers.set_faults(Faults { refused: 100, lost: 100, late: 100, delayed: 300 });
                deposed.push(std::mem::replace(&mut owner, next));
            }
        }
        registers.set_faults(Faults::default());
        assert_eq!(owner.total(&cells), 120, "seed {seed}");
        for operation in &operations {
            let again = owner.apply(operation).unwrap();
            assert!(matches!(again, OperationOutcome::Replayed(_)), "{again:?}");
        }
    }
}
