//! A server that does not respond, and limits.

use std::time::Duration;

use futures_executor::block_on;
use jeton_register::{Blob, Error, LogId, Registers, Slot, WritePermit, WriteResult};
use jeton_register_postgres::{Options, PostgresRegisters};
use jeton_testbed::{Postgres, Proxy};

use super::support::{Server, WAITING, batch_of, hold, taken, write};

fn short_timeouts() -> Options {
    let mut options = Options::default();
    options.connect_timeout = Duration::from_millis(200);
    options.statement_timeout = Duration::from_millis(500);
    options
}

#[test]
fn timed_out_write_is_unknown_and_later_ones_are_refused() {
    let server = Server::new();
    let engine = block_on(PostgresRegisters::open(&server.postgres.url(), short_timeouts())).unwrap();
    let log = LogId::partition(1);
    let one = |slot: u64| write(&engine, &[(log, slot, b"mine")]);
    block_on(one(1)).unwrap();
    // The first is in flight when the others are submitted, which form the next group.
    let (holder, watcher) = (hold(&server, log, 2), server.client());
    let first = one(2);
    watcher.await_count(WAITING, 1);
    let behind: Vec<_> = (3..10).map(one).collect();
    server.postgres.pause();
    let error = block_on(first).unwrap_err();
    assert!(matches!(error, Error::Unknown(_)), "{error}");
    for waiting in behind {
        let error = block_on(waiting).unwrap_err();
        assert!(matches!(error, Error::Unavailable(_)), "{error}");
    }
    // Without a server, requests are not executed.
    let error = block_on(one(20)).unwrap_err();
    assert!(matches!(error, Error::Unavailable(_)), "{error}");
    let error = block_on(engine.read(log, Slot(1), 1)).unwrap_err();
    assert!(matches!(error, Error::Unavailable(_)), "{error}");
    let row = Blob { version: 1, bytes: "row".into() };
    let error = block_on(engine.put_blob("row", row)).unwrap_err();
    assert!(matches!(error, Error::Unknown(_) | Error::Unavailable(_)), "{error}");
    server.postgres.resume();
    holder.execute("ROLLBACK");
    // A repeated write resolves the unknown outcome.
    let written = loop {
        match block_on(one(2)) {
            Ok(mut written) => break written.remove(0),
            Err(Error::Unavailable(_) | Error::Unknown(_)) => {}
            Err(other) => panic!("{other}"),
        }
    };
    assert!(written == WriteResult::Fresh || written == taken(b"mine"), "{written:?}");
    assert_eq!(block_on(write(&engine, &[(log, 2, b"yours")])), Ok(vec![taken(b"mine")]));
    assert_eq!(block_on(one(3)), Ok(vec![WriteResult::Fresh]), "it was refused before");
}

#[test]
fn writes_behind_a_lost_connection_are_refused() {
    let server = Server::new();
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    let proxy = runtime.block_on(Proxy::start(server.postgres.address())).unwrap();
    let url = Postgres::url_by(proxy.address());
    let engine = block_on(PostgresRegisters::open(&url, Options::default())).unwrap();
    let one = |slot: u64| write(&engine, &[(LogId::partition(1), slot, b"mine")]);
    block_on(one(1)).unwrap();
    let (_holder, watcher) = (hold(&server, LogId::partition(1), 2), server.client());
    let first = one(2);
    watcher.await_count(WAITING, 1);
    let behind = one(3);
    proxy.cut();
    let error = block_on(first).unwrap_err();
    assert!(matches!(error, Error::Unknown(_)), "{error}");
    let error = block_on(behind).unwrap_err();
    assert!(matches!(error, Error::Unavailable(_)), "slot 3 must not be written without slot 2: {error}");
    assert_eq!(block_on(one(3)), Ok(vec![WriteResult::Fresh]));
}

#[test]
fn full_queue_is_busy_and_admitted_writes_are_executed() {
    let server = Server::new();
    let mut options = Options::default();
    options.in_flight_writes_max = 10;
    let engine = block_on(PostgresRegisters::open(&server.postgres.url(), options)).unwrap();
    let log = LogId::partition(1);
    let permits: Vec<WritePermit> = (0..10).map(|_| engine.admit(1, 1).unwrap()).collect();
    assert!(matches!(engine.admit(1, 1), Err(Error::Busy(_))));
    assert!(matches!(block_on(write(&engine, &[(log, 99, b"x")])), Err(Error::Busy(_))));
    let slots = 1..=10;
    let waiting: Vec<_> = permits
        .into_iter()
        .zip(slots)
        .map(|(permit, slot)| engine.write(batch_of(&[(log, slot, b"x")]), permit))
        .collect();
    for written in waiting {
        assert_eq!(block_on(written), Ok(vec![WriteResult::Fresh]));
    }
    assert!(engine.admit(10, 1).is_ok(), "space is released");
}

#[test]
fn requests_above_the_limits_are_refused() {
    let server = Server::new();
    let engine = server.open();
    let log = LogId::partition(1);
    let limits = engine.limits();
    let large = vec![1; limits.value_bytes_max + 1];
    assert!(matches!(block_on(write(&engine, &[(log, 1, &large)])), Err(Error::TooLarge(_))));
    assert!(matches!(engine.admit(limits.batch_writes_max + 1, 0), Err(Error::TooLarge(_))));
    assert!(matches!(engine.admit(1, limits.batch_bytes_max + 1), Err(Error::TooLarge(_))));
    assert!(matches!(block_on(write(&engine, &[(log, 1 << 63, b"x")])), Err(Error::Invalid(_))));
    assert!(matches!(block_on(engine.get_blob("../row")), Err(Error::Invalid(_))));
    // The largest batch.
    let value = vec![1; limits.value_bytes_max];
    let writes: Vec<_> = (1..=8).map(|slot| (log, slot, value.as_slice())).collect();
    assert_eq!(block_on(write(&engine, &writes)), Ok(vec![WriteResult::Fresh; 8]));
    // A read is limited by bytes.
    assert_eq!(block_on(engine.read(log, Slot(1), 100)).unwrap().len(), 4);
    let many: Vec<_> = (1..=limits.batch_writes_max as u64)
        .map(|slot| (LogId::partition(2), slot, b"x".as_slice()))
        .collect();
    assert_eq!(block_on(write(&engine, &many)).unwrap().len(), many.len());
    assert_eq!(block_on(engine.read(LogId::partition(2), Slot(1), usize::MAX)).unwrap().len(), many.len());
}
