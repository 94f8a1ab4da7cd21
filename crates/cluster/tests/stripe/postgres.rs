//! Two nodes over PostgreSQL. The connections of the first one are cut off while it writes; the second one,
//! which follows it, takes the stripe over.

use futures_executor::block_on;
use jeton_engine::{EngineError, OperationOutcome};
use jeton_register::{LogId, Registers};
use jeton_register_postgres::{Options, PostgresRegisters, create_schema};
use jeton_testbed::{Postgres, Proxy};

use super::node::{Node, STRIPE, Standby};

/// What the first node's last frame meets.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Cut {
    /// It reaches the database only after the takeover.
    Requests,
    /// It is in the log, and its owner does not know.
    Responses,
}

#[test]
fn retries_at_the_next_owner_count_once() {
    let folder = jeton_testbed::folder().unwrap();
    let postgres = Postgres::start(folder.path(), &[]).unwrap();
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    for (number, cut) in [Cut::Requests, Cut::Responses].into_iter().enumerate() {
        let database = format!("stripe_{number}");
        runtime.block_on(create_database(&postgres, &database));
        let url = |address| {
            let url = Postgres::url_by(address);
            format!("{}/{database}", url.strip_suffix("/postgres").unwrap())
        };
        block_on(create_schema(&url(postgres.address()))).unwrap();
        let proxy = runtime.block_on(Proxy::start(postgres.address())).unwrap();
        let open = |address| block_on(PostgresRegisters::open(&url(address), Options::default())).unwrap();
        take_over(cut, &proxy, open(proxy.address()), || open(postgres.address()));
    }
}

async fn create_database(postgres: &Postgres, name: &str) {
    let (client, connection) = tokio_postgres::connect(&postgres.url(), tokio_postgres::NoTls).await.unwrap();
    let connection = tokio::spawn(connection);
    client.batch_execute(&format!("CREATE DATABASE {name}")).await.unwrap();
    drop(client);
    connection.await.unwrap().unwrap();
}

fn take_over(cut: Cut, proxy: &Proxy, registers: PostgresRegisters, open: impl Fn() -> PostgresRegisters) {
    let first = Node::open(registers, 1).with_table();
    let cells = first.cells(10);
    let operations: Vec<_> = (0..60).map(|n| first.addition(&cells[n as usize % 10], n)).collect();
    let (before, during) = operations.split_at(50);
    let waiting: Vec<_> = before.iter().map(|one| first.engine.apply(one.clone())).collect();
    let mut results: Vec<_> = waiting.into_iter().map(|one| block_on(one).unwrap()).collect();
    assert_eq!(block_on(first.log.prove()), Ok(()));
    let mut standby = Standby::open(open(), 2);
    let mut pushed = first.log.subscribe();
    let one_more = first.addition(&cells[0], 60);
    first.apply(&one_more).unwrap();
    let (slot, frame) = pushed.blocking_recv().unwrap();
    assert!(standby.follower.accept(slot, &frame).unwrap());

    // The first node is cut off; its next batches are in flight.
    let watcher = open();
    let last = || block_on(watcher.extent(LogId::stripe(STRIPE))).unwrap().last;
    let acknowledged = last();
    match cut {
        Cut::Requests => proxy.hold(),
        Cut::Responses => proxy.hold_responses(),
    }
    let in_flight: Vec<_> = during.iter().map(|one| first.engine.apply(one.clone())).collect();
    while cut == Cut::Responses && last() == acknowledged {
        std::thread::yield_now();
    }

    let second = standby.promote();
    assert_eq!(second.log.term(), last());
    assert!(matches!(second.apply(&one_more), Ok(OperationOutcome::Replayed(_))));
    for (operation, result) in operations.iter().zip(&results) {
        let OperationOutcome::Fresh(result) = result else { panic!("{result:?}") };
        assert_eq!(second.apply(operation), Ok(OperationOutcome::Replayed(result.clone())));
    }
    for operation in during {
        match second.apply(operation).unwrap() {
            OperationOutcome::Fresh(result) => results.push(OperationOutcome::Fresh(result)),
            OperationOutcome::Replayed(result) => results.push(OperationOutcome::Replayed(result)),
            other => panic!("{other:?}"),
        }
    }
    let replayed = results.iter().any(|result| matches!(result, OperationOutcome::Replayed(_)));
    assert_eq!(replayed, cut == Cut::Responses, "the frame was in the log");
    assert_eq!(second.total(&cells), 61);

    // The first node is back: what it acknowledges now was counted by its own frame.
    proxy.release();
    for (result, outcome) in results[50..].iter().zip(in_flight) {
        match (block_on(outcome), result) {
            (Ok(OperationOutcome::Fresh(mine)), OperationOutcome::Replayed(theirs)) => {
                assert_eq!(&mine, theirs)
            }
            (Err(EngineError::Closed), _) => {}
            other => panic!("{cut:?}: {other:?}"),
        }
    }
    let late = first.addition(&cells[0], 1_000);
    let refused = first.apply(&late);
    assert!(matches!(refused, Err(EngineError::Closed | EngineError::Moved)), "{refused:?}");
    assert!(first.log.is_deposed());
    drop(first);
    assert_eq!(second.total(&cells), 61);
    assert_eq!(block_on(second.log.prove()), Ok(()));
    let third = Node::open(open(), 3);
    assert_eq!(third.total(&cells), 61);
    for operation in &operations {
        let again = third.apply(operation).unwrap();
        assert!(matches!(again, OperationOutcome::Replayed(_)), "{again:?}");
    }
}
