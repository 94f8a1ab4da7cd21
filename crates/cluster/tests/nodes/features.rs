//! What an engine does, at the owners of several stripes.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use futures_executor::block_on;
use jeton_cluster::{ClusterNode, Freshness, NodeId, Owner, StripeLog};
use jeton_core::{Addition, BranchName, BranchOutcome, Change, IdStatus, Operation, Value};
use jeton_engine::{
    Ask, CreationQuota, EngineError, FinishResult, OperationOutcome, PrepareResult, Response,
};
use jeton_register::memory::MemoryRegisters;
use jeton_register::{LogId, Registers};

use crate::cluster::{Cluster, STRIPES, addition, apply};
use crate::requests::{Load, memory};

#[test]
fn nodes_that_start_at_once_found_one_deployment() {
    let registers = Arc::new(MemoryRegisters::new());
    let cluster = Cluster::start(3, move |_| Arc::clone(&registers)).with_table();
    let deployments: Vec<_> = cluster.running().map(|node| node.deployment()).collect();
    assert!(deployments.iter().all(|one| *one == deployments[0]));
    cluster.await_placed();
    let again: Vec<_> = cluster.running().map(|node| node.create_table("t", Default::default())).collect();
    assert!(again.iter().all(Result::is_err), "it exists");
    let node = cluster.node(2);
    node.create_table("second", Default::default()).unwrap();
    cluster.await_table("second");
}

/// Another claimant takes stripes from owners that are alive.
#[test]
fn a_wrong_suspicion_costs_no_count() {
    let registers = Arc::new(MemoryRegisters::new());
    let shared = Arc::clone(&registers);
    let cluster = Cluster::start(3, move |_| Arc::clone(&shared)).with_table();
    cluster.await_placed();
    let cells = cluster.cells(20);
    let load = Load::begin(cluster.running().cloned().collect(), cells.clone());
    let deployment = cluster.node(0).deployment();
    for incarnation in 0..30 {
        let folder = tempfile::tempdir().unwrap();
        let me = Owner { node: NodeId(77), incarnation };
        let stripe = incarnation as u16 % STRIPES;
        // It gives up if the owner writes meanwhile.
        drop(StripeLog::open(Arc::clone(&registers), deployment, stripe, me, folder.path()));
        load.await_more(5);
    }
    let expected = load.stop().len() as i64;
    for node in 0..3 {
        assert_eq!(cluster.total(node, &cells), expected, "at node {node}");
    }
}

/// The owner does not know that another node has taken the stripe over.
#[test]
fn a_deposed_owner_answers_no_read() {
    let registers = Arc::new(MemoryRegisters::new());
    let shared = Arc::clone(&registers);
    let cluster = Cluster::start(1, move |_| Arc::clone(&shared)).with_table();
    cluster.await_placed();
    let cell = cluster.cell(1);
    let node = cluster.node(0);
    apply(node, &addition(node, &cell, 1));
    let stripe = cell.partition().0 * STRIPES / 256;
    let term = || node.status().stripes[usize::from(stripe)].term;
    let before = term();
    let folder = tempfile::tempdir().unwrap();
    let rogue = Owner { node: NodeId(77), incarnation: 1 };
    let claimed = StripeLog::open(Arc::clone(&registers), node.deployment(), stripe, rogue, folder.path());
    let claimed = claimed.unwrap().term();
    let read = |freshness| {
        let request = node.to_request(Ask::Read(cell.clone()));
        let response = block_on(node.submit_with(vec![request], freshness)).pop();
        assert_eq!(response, Some(Response::Read(Ok(Some(Value::from_text(b"1"))))));
    };
    // From memory.
    let last = || block_on(registers.extent(LogId::stripe(stripe))).unwrap().last;
    read(Freshness::MaxStaleness(Duration::from_secs(3600)));
    assert_eq!((term(), last()), (before, claimed), "no proof is needed");
    // By the next owner, which is the same node.
    read(Freshness::Linearizable);
    assert!(term() > claimed);
}

#[test]
fn lists_and_ids_are_found_at_all_owners() {
    let cluster = memory(2).with_table();
    cluster.await_placed();
    let mut cells = cluster.cells(100);
    let operations: Vec<Operation> =
        cells.iter().zip(0..).map(|(cell, n)| addition(cluster.node(0), cell, n)).collect();
    for operation in &operations {
        apply(cluster.node(0), operation);
    }
    cells.sort();
    for number in 0..2 {
        let node = cluster.node(number);
        block_on(node.stored()).unwrap();
        let table = node.table("t").unwrap();
        let mut listed = node.list(&table, b"row", None, 40).unwrap();
        assert_eq!(listed.len(), 40);
        listed.extend(node.list(&table, b"row", listed.last(), 1000).unwrap());
        assert_eq!(listed, cells);
        assert_eq!(node.list(&table, b"row 7", None, 1000).unwrap().len(), 11);
        for (operation, cell) in operations.iter().zip(operations.iter().map(Operation::first_cell)) {
            let status = block_on(node.operation(cell.clone(), operation.id().unwrap().clone()));
            assert!(matches!(status, Ok(IdStatus::Yes(_))), "{status:?}");
        }
    }
}

#[test]
fn branches_are_prepared_and_finished_at_all_owners() {
    let cluster = memory(3).with_table();
    cluster.await_placed();
    let cells = cluster.cells(12);
    for (number, outcome) in [BranchOutcome::Commit, BranchOutcome::Abort].into_iter().enumerate() {
        let name = BranchName::new(&[number as u8]).unwrap();
        let part = |cell: &jeton_core::Cell| Addition { cell: cell.clone(), delta: 5, min: None, max: None };
        let additions: Vec<_> = cells.iter().map(part).collect();
        let prepared = block_on(cluster.node(0).prepare_branch(&name, additions, None));
        assert_eq!(prepared, Ok(PrepareResult::Prepared { fresh: true }));
        let found = block_on(cluster.node(1).prepared_branches()).unwrap();
        assert_eq!(found.iter().map(|one| one.additions.len()).collect::<Vec<_>>(), [12]);
        let finished = block_on(cluster.node(2).finish_branch(&name, outcome, None)).unwrap();
        assert!(matches!(finished, FinishResult::Done { fresh: true, .. }), "{finished:?}");
        assert_eq!(cluster.total(number, &cells), 60);
    }
}

#[derive(Debug)]
struct Quota(AtomicU64);

impl CreationQuota for Quota {
    fn take(&self, cells: u64) -> Result<(), String> {
        let take = |left: u64| left.checked_sub(cells);
        let taken = self.0.fetch_update(Ordering::Relaxed, Ordering::Relaxed, take);
        taken.map(drop).map_err(|_| "no counter is left".into())
    }

    fn give_back(&self, cells: u64) {
        self.0.fetch_add(cells, Ordering::Relaxed);
    }
}

#[test]
fn a_quota_is_charged_for_cells_of_other_nodes() {
    let cluster = memory(2).with_table();
    cluster.await_placed();
    let cells = cluster.cells(20);
    let quota = Arc::new(Quota(AtomicU64::new(10)));
    let charged: Arc<dyn CreationQuota> = quota.clone();
    let node = cluster.node(0);
    let send = |number: usize, cell: &jeton_core::Cell| {
        let request = node.to_request(Ask::Apply(addition(node, cell, number)));
        block_on(node.submit_prehashed(vec![request.with_quota(&charged)])).pop().unwrap()
    };
    for (number, cell) in cells.iter().enumerate().take(10) {
        let response = send(number, cell);
        assert!(matches!(response, Response::Applied(Ok(OperationOutcome::Fresh(_)))), "{response:?}");
        assert_eq!(quota.0.load(Ordering::Relaxed), 9 - number as u64);
    }
    for (number, cell) in cells.iter().enumerate() {
        match send(100 + number, cell) {
            Response::Applied(Ok(OperationOutcome::Fresh(_))) => assert!(number < 10),
            Response::Applied(Err(EngineError::Withheld(why))) => {
                assert!(number >= 10);
                assert_eq!(why, "no counter is left");
            }
            other => panic!("{other:?}"),
        }
    }
    assert_eq!(quota.0.load(Ordering::Relaxed), 0);
}

/// The number of owners is checked too: all operations go to a node that owns none of their stripes.
#[test]
fn operations_without_an_id_are_sent_once() {
    let cluster = memory(3).with_table();
    cluster.await_placed();
    let cells = cluster.cells(10);
    let operation = |cell| Operation::single(None, cell, Change::Add(1));
    let settings = jeton_core::TableSettings {
        without_id: jeton_core::MissingIdPolicy::AtMostOnce,
        ..Default::default()
    };
    cluster.node(0).change_table("t", settings).unwrap();
    let apply_all = |node: &ClusterNode<MemoryRegisters>| -> usize {
        let sent = cells.iter().map(|cell| block_on(node.apply(operation(cell.clone()).unwrap())));
        sent.filter(|outcome| matches!(outcome, Ok(OperationOutcome::Fresh(_)))).count()
    };
    let applied: usize = (0..3).map(|number| apply_all(cluster.node(number))).sum();
    // The version of the catalogue comes with the requests of the node that changed it.
    assert!(applied >= 10, "{applied}");
    assert_eq!(cluster.total(1, &cells), applied as i64);
}
