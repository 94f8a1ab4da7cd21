//! The directory of a node: a cache of the stripe.

use std::future::Future;
use std::task::{Context, Waker};

use futures_executor::block_on;
use jeton_cluster::{OpenError, StripeLog};
use jeton_engine::{Ask, BlobStore, EngineError, OperationOutcome, Options, Response};
use jeton_register::memory::MemoryRegisters;

use super::node::{Node, close, open_log, small};

/// A node that has counted until all of its stores have checkpoints, and what it has counted.
fn counted(registers: &MemoryRegisters) -> (Node<MemoryRegisters>, i64) {
    let folder = tempfile::tempdir().unwrap();
    let node = Node::open_in(folder, registers.clone(), 1, small).with_table();
    let cells = node.cells(10);
    let (mut number, mut count) = (0, 0);
    while node.log.get_blob("filters").unwrap().is_none() {
        let asks = (number..number + 500).map(|n| Ask::Apply(node.addition(&cells[n as usize % 10], n)));
        for response in block_on(node.engine.submit_batch(asks.collect())) {
            match response {
                Response::Applied(Ok(_)) => count += 1,
                Response::Applied(Err(EngineError::Busy(_))) => {}
                other => panic!("{other:?}"),
            }
        }
        number += 500;
    }
    block_on(node.engine.stored()).unwrap();
    (node, count)
}

#[test]
fn a_restart_replays_what_the_directory_lacks() {
    let registers = MemoryRegisters::new();
    let (node, count) = counted(&registers);
    let (cells, operation) = (node.cells(10), node.addition(&node.cells(1)[0], 1 << 40));
    let first = node.apply(&operation).unwrap();
    let OperationOutcome::Fresh(first) = first else { panic!("{first:?}") };
    let folder = close(node);
    let empty = Node::open(registers.clone(), 2);
    let (from_empty, total) = (empty.engine.stats().replayed_entries, empty.total(&cells));
    assert_eq!(total, count + 1);
    // Meanwhile another node was the owner.
    empty.apply(&empty.addition(&cells[0], 1 << 41)).unwrap();
    let node = Node::open_in(folder, registers, 1, small);
    let replayed = node.engine.stats().replayed_entries;
    assert!(replayed < from_empty, "{replayed} of {from_empty} entries");
    assert_eq!(node.total(&cells), count + 2);
    assert_eq!(node.apply(&operation), Ok(OperationOutcome::Replayed(first)));
}

#[test]
fn a_directory_of_another_stripe_or_deployment_is_refused() {
    let registers = MemoryRegisters::new();
    let folder = close(counted(&registers).0);
    let opened = open_log(MemoryRegisters::new(), 9, folder.path()).map(drop);
    assert!(matches!(opened, Err(OpenError::Foreign(_))), "{opened:?}");
    let log: std::sync::Arc<StripeLog<_>> = open_log(registers.clone(), 1, folder.path()).unwrap();
    let again = open_log(registers, 1, folder.path()).map(drop);
    assert!(matches!(again, Err(OpenError::Locked(_))), "{again:?}");
    drop(log);
}

/// A standby of the database was promoted without the latest transactions.
#[test]
fn a_log_that_lost_its_end_is_not_opened() {
    let registers = MemoryRegisters::new();
    let folder = close(counted(&registers).0);
    let older = super::node::first_half(&registers);
    let error = open_log(older, 1, folder.path()).map(drop).unwrap_err();
    assert!(matches!(&error, OpenError::OtherHistory { .. }), "{error}");
    assert!(error.to_string().contains("lost frames"), "{error}");
}

/// A checkpoint is frozen after the batch, and before the node learns that it is deposed.
#[test]
fn a_deposed_batch_is_in_no_checkpoint() {
    let registers = MemoryRegisters::new();
    let set = |options: &mut Options| options.recent_ids = 64;
    let first = Node::open_in(tempfile::tempdir().unwrap(), registers.clone(), 1, set).with_table();
    let (cells, second) = (first.cells(2), Node::open(registers.clone(), 2));
    // Entries in the places of the lost ones.
    let counted: Vec<_> = (0..100).map(|number| second.addition(&cells[0], number)).collect();
    counted.iter().for_each(|operation| drop(second.apply(operation).unwrap()));

    registers.hold();
    let lost: Vec<_> = (100..200).map(|number| first.addition(&cells[0], number)).collect();
    let outcomes = first.engine.submit_batch(lost.iter().cloned().map(Ask::Apply).collect());
    let mut stored = Box::pin(first.engine.stored());
    assert!(stored.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending());
    // The shard has begun the checkpoints.
    for _ in 0..10 {
        assert_eq!(block_on(first.engine.get(cells[1].clone())), Ok(None));
    }
    registers.release_all();
    let closed = Response::Applied(Err(EngineError::Closed));
    assert_eq!(block_on(outcomes), vec![closed; 100]);
    assert_eq!(block_on(stored), Err(EngineError::Closed));
    let again = Node::open_in(close(first), registers, 1, set);
    assert_eq!(again.total(&cells), 100);
    for (lost, counted) in lost.iter().zip(&counted) {
        let outcomes = (again.apply(counted).unwrap(), again.apply(lost).unwrap());
        let right = matches!(outcomes, (OperationOutcome::Replayed(_), OperationOutcome::Fresh(_)));
        assert!(right, "{outcomes:?}");
    }
}
