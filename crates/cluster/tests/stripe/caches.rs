//! The directory of a node: a cache of the stripe.

use jeton_cluster::{OpenError, StripeLog};
use jeton_engine::{OperationOutcome, Options, RecoveryError};
use jeton_register::memory::MemoryRegisters;
use tempfile::TempDir;

use super::node::{Node, STRIPE, open_log, partitions};

/// Checkpoints after few operations.
fn small(options: &mut Options) {
    *options = Options { recent_ids: 64, log_bytes: 1 << 12, ..options.clone() };
}

/// A node that has counted to 1,000 with checkpoints.
fn counted(registers: &MemoryRegisters) -> Node<MemoryRegisters> {
    let folder = tempfile::tempdir().unwrap();
    let node = Node::open_in(folder, registers.clone(), 1, small).with_table();
    let cells = node.cells(10);
    for number in 0..1_000 {
        node.apply(&node.addition(&cells[number as usize % 10], number)).unwrap();
    }
    futures_executor::block_on(node.engine.stored()).unwrap();
    node
}

/// Closes the node, and keeps its directory.
fn close(node: Node<MemoryRegisters>) -> TempDir {
    node.engine.close();
    node.folder
}

#[test]
fn a_restart_replays_what_the_directory_lacks() {
    let registers = MemoryRegisters::new();
    let node = counted(&registers);
    let (cells, operation) = (node.cells(10), node.addition(&node.cells(1)[0], 5_000));
    let first = node.apply(&operation).unwrap();
    let OperationOutcome::Fresh(first) = first else { panic!("{first:?}") };
    let folder = close(node);
    let empty = Node::open(registers.clone(), 2);
    let (from_empty, total) = (empty.engine.stats().replayed_entries, empty.total(&cells));
    assert_eq!(total, 1_001);
    // Meanwhile another node was the owner.
    empty.apply(&empty.addition(&cells[0], 6_000)).unwrap();
    let node = Node::open_in(folder, registers, 1, small);
    let replayed = node.engine.stats().replayed_entries;
    assert!(replayed < from_empty, "{replayed} of {from_empty} entries");
    assert_eq!(node.total(&cells), 1_002);
    assert_eq!(node.apply(&operation), Ok(OperationOutcome::Replayed(first)));
}

#[test]
fn a_directory_of_another_stripe_or_deployment_is_refused() {
    let registers = MemoryRegisters::new();
    let folder = close(counted(&registers));
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
    let folder = close(counted(&registers));
    let older = super::node::prefix(&registers, 500);
    let log = open_log(older, 1, folder.path()).unwrap();
    let options = Options { shards: 1, partitions: partitions(), ..Options::default() };
    let opened = jeton_engine::Engine::open_on(log, folder.path(), options);
    let error = opened.map(drop).unwrap_err();
    let ahead = matches!(&error, jeton_engine::OpenError::Recovery(RecoveryError::Ahead { .. }));
    assert!(ahead, "stripe {STRIPE}: {error}");
}
