//! Tables that several nodes share: changes of one node reach the running engines of all stripes.

use std::sync::Arc;
use std::time::{Duration, Instant};

use futures_executor::block_on;
use jeton_cluster::Follower;
use jeton_core::{Cell, Change, Column, OpId, Operation, TableSettings};
use jeton_engine::{EngineError, OperationOutcome, Options, TableError};
use jeton_register::Registers;
use jeton_register::memory::{Faults, MemoryRegisters};

use super::node::{Node, STRIPE, STRIPES, Standby, identity};

const TIMEOUT: Duration = Duration::from_secs(60);

/// The owner of another stripe.
fn other_stripe<R: Registers>(registers: R, node: u128) -> Node<R> {
    let folder = tempfile::tempdir().unwrap();
    let (deployment, me) = identity(&registers, node);
    let (registers, options) = (Arc::new(registers), Options { shards: 1, ..Options::default() });
    let number = (STRIPE + 1) % STRIPES;
    let follower = Follower::open(registers, deployment, number, me, folder.path(), options).unwrap();
    let (log, engine) = follower.promote(None).unwrap();
    Node { log, engine, folder }
}

fn windows(secs: u64) -> TableSettings {
    let window = Duration::from_secs(secs);
    TableSettings { dated_window: window, opaque_window: window, ..TableSettings::default() }
}

/// An addition to a table that the owner of the stripe may not know.
fn addition(of: &Node<MemoryRegisters>, table: &str, number: u64) -> Operation {
    let table = of.engine.table(table).unwrap();
    let cell = |row: u64| of.engine.cell(&table, &row.to_be_bytes(), &Column::unnamed()).unwrap();
    let cell: Cell =
        (0..).map(cell).find(|cell| super::node::partitions().contains(&cell.partition().0)).unwrap();
    let id = OpId::uuid7_from(of.engine.now().as_nanos() / 1_000_000, number.into());
    Operation::single(Some(id), cell, Change::Add(1)).unwrap()
}

#[test]
fn changes_reach_running_engines() {
    let registers = MemoryRegisters::new();
    let first = Node::open(registers.clone(), 1).with_table();
    let other = other_stripe(registers.clone(), 2);
    assert!(other.engine.table("t").is_ok());
    let mut standby = Standby::open(registers.clone(), 3);
    other.engine.create_table("late", TableSettings::default()).unwrap();
    other.engine.change_table("t", windows(3_600)).unwrap();

    // An owner does not refuse a table that another node has created.
    let operation = addition(&other, "late", 1);
    let started = Instant::now();
    let outcome = loop {
        match first.apply(&operation) {
            Err(EngineError::Busy("the tables are read again")) => {}
            other => break other,
        }
        assert!(started.elapsed() < TIMEOUT, "the tables are not read");
        std::thread::sleep(Duration::from_millis(10));
    };
    assert!(matches!(outcome, Ok(OperationOutcome::Fresh(_))), "{outcome:?}");
    assert_eq!(first.engine.table("t").unwrap().settings(), &windows(3_600));

    // The follower adopts them before it replays that.
    assert!(standby.follower.engine().table("late").is_err());
    standby.follower.catch_up().unwrap();
    assert!(standby.follower.engine().table("late").is_ok());
    let second = standby.promote();
    assert!(matches!(second.apply(&operation), Ok(OperationOutcome::Replayed(_))));
}

#[test]
fn an_engine_that_adopts_a_change_keeps_its_ids() {
    let registers = MemoryRegisters::new();
    let first = Node::open(registers.clone(), 1).with_table();
    let other = other_stripe(registers.clone(), 2);
    let cells = first.cells(3);
    let operations: Vec<_> = (0..30).map(|n| first.addition(&cells[n as usize % 3], n)).collect();
    let (before, between) = operations.split_at(20);
    before.iter().for_each(|one| drop(first.apply(one).unwrap()));
    let version = other.engine.tables_version();
    for hours in [1, 5, 2] {
        other.engine.change_table("t", windows(hours * 3_600)).unwrap();
    }
    // Decided under the earlier version.
    between.iter().for_each(|one| drop(first.apply(one).unwrap()));
    assert_eq!(first.engine.refresh_tables().unwrap(), version + 3);
    assert_eq!(first.engine.table("t").unwrap().eras().count(), 4);
    let replayed = |node: &Node<MemoryRegisters>| {
        for operation in &operations {
            let again = node.apply(operation).unwrap();
            assert!(matches!(again, OperationOutcome::Replayed(_)), "{again:?}");
        }
        assert_eq!(node.total(&cells), 30);
    };
    replayed(&first);
    // A node that knows the latest tables before it replays the entries.
    replayed(&Standby::open(registers, 3).promote());
}

#[test]
fn nodes_that_change_tables_at_once_lose_no_change() {
    for seed in 0..10 {
        let registers = MemoryRegisters::with_faults(seed, Faults::default());
        let nodes = [Node::open(registers.clone(), 1), other_stripe(registers.clone(), 2)];
        registers.set_faults(Faults { lost: 100, late: 100, delayed: 300, ..Faults::default() });
        std::thread::scope(|scope| {
            for (number, node) in nodes.iter().enumerate() {
                scope.spawn(move || {
                    for table in 0..8 {
                        let name = format!("t{number}-{table}");
                        let mut attempts = 0;
                        while let Err(error) = node.engine.create_table(&name, TableSettings::default()) {
                            attempts += 1;
                            assert!(attempts < 100, "{error}");
                            // The outcome of the first attempt was unknown.
                            if matches!(&error, TableError::Settings(why) if why.why.contains("there is")) {
                                break;
                            }
                        }
                    }
                });
            }
        });
        registers.set_faults(Faults::default());
        for node in &nodes {
            node.engine.refresh_tables().unwrap();
            assert_eq!(node.engine.catalog().iter().count(), 16, "seed {seed}");
        }
        let names = |node: &Node<_>| node.engine.catalog().encode();
        assert_eq!(names(&nodes[0]), names(&nodes[1]));
    }
}

#[test]
fn a_table_of_a_cluster_is_not_deleted() {
    let node = Node::open(MemoryRegisters::new(), 1).with_table();
    let cell = node.cells(1).remove(0);
    let error = node.engine.delete_table("t").unwrap_err();
    assert!(error.to_string().contains("cluster"), "{error}");
    node.apply(&node.addition(&cell, 1)).unwrap();
    assert_eq!(block_on(node.engine.get(cell)).unwrap().unwrap().counter(), Some(1));
}

#[test]
fn a_follower_does_not_change_tables() {
    let registers = MemoryRegisters::new();
    let first = Node::open(registers.clone(), 1).with_table();
    let standby = Standby::open(registers, 2);
    standby.follower.engine().create_table("other", TableSettings::default()).unwrap_err();
    assert_eq!(first.engine.refresh_tables().unwrap(), 1);
}
