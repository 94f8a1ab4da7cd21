//! A server that does not answer: what is told, and how it goes on.

use std::time::Duration;

use futures_executor::block_on;
use jeton_register::{Blob, Error, LogId, Registers, Slot, WritePermit, WriteResult};
use jeton_register_postgres::{Options, PostgresRegisters};
use jeton_testbed::{Postgres, Proxy};

use super::support::{Place, WAITING, batch_of, hold, taken, write};

fn impatient() -> Options {
    let mut options = Options::default();
    options.connect_patience = Duration::from_millis(200);
    options.answer_patience = Duration::from_millis(500);
    options
}

#[test]
fn an_answer_that_does_not_come_is_doubt_and_what_waits_behind_it_is_refused() {
    let place = Place::new();
    let engine = block_on(PostgresRegisters::open(&place.postgres.url(), impatient())).unwrap();
    let log = LogId::partition(1);
    let one = |slot: u64| write(&engine, &[(log, slot, b"mine")]);
    block_on(one(1)).unwrap();
    // The first is on its way before the others come, which make a group behind it.
    let (holder, watcher) = (hold(&place, log, 2), place.client());
    let first = one(2);
    watcher.await_count(WAITING, 1);
    let behind: Vec<_> = (3..10).map(one).collect();
    place.postgres.pause();
    let failure = block_on(first).unwrap_err();
    assert!(matches!(failure, Error::Unknown(_)), "{failure}");
    for waiting in behind {
        let failure = block_on(waiting).unwrap_err();
        assert!(matches!(failure, Error::Unavailable(_)), "{failure}");
    }
    // Nobody is there: what is asked now does not happen.
    let failure = block_on(one(20)).unwrap_err();
    assert!(matches!(failure, Error::Unavailable(_)), "{failure}");
    let failure = block_on(engine.read(log, Slot(1), 1)).unwrap_err();
    assert!(matches!(failure, Error::Unavailable(_)), "{failure}");
    let row = Blob { version: 1, bytes: "row".into() };
    let failure = block_on(engine.put_blob("row", row)).unwrap_err();
    assert!(matches!(failure, Error::Unknown(_) | Error::Unavailable(_)), "{failure}");
    place.postgres.resume();
    holder.say("ROLLBACK");
    // The doubt is resolved by writing again.
    let written = loop {
        match block_on(one(2)) {
            Ok(mut written) => break written.remove(0),
            Err(Error::Unavailable(_) | Error::Unknown(_)) => {}
            Err(other) => panic!("{other}"),
        }
    };
    assert!(written == WriteResult::Fresh || written == taken(b"mine"), "{written:?}");
    assert_eq!(block_on(write(&engine, &[(log, 2, b"yours")])), Ok(vec![taken(b"mine")]));
    assert_eq!(block_on(one(3)), Ok(vec![WriteResult::Fresh]), "what was refused did not happen");
}

#[test]
fn what_waits_behind_a_loss_is_refused_though_the_server_is_well() {
    let place = Place::new();
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    let proxy = runtime.block_on(Proxy::start(place.postgres.address())).unwrap();
    let url = Postgres::url_by(proxy.address());
    let engine = block_on(PostgresRegisters::open(&url, Options::default())).unwrap();
    let one = |slot: u64| write(&engine, &[(LogId::partition(1), slot, b"mine")]);
    block_on(one(1)).unwrap();
    let (_holder, watcher) = (hold(&place, LogId::partition(1), 2), place.client());
    let first = one(2);
    watcher.await_count(WAITING, 1);
    let behind = one(3);
    proxy.cut();
    let failure = block_on(first).unwrap_err();
    assert!(matches!(failure, Error::Unknown(_)), "{failure}");
    let failure = block_on(behind).unwrap_err();
    assert!(matches!(failure, Error::Unavailable(_)), "slot 3 would be there without slot 2: {failure}");
    assert_eq!(block_on(one(3)), Ok(vec![WriteResult::Fresh]));
}

#[test]
fn a_queue_that_is_full_is_busy_and_what_was_admitted_is_taken() {
    let place = Place::new();
    let mut options = Options::default();
    options.waiting_writes_max = 10;
    let engine = block_on(PostgresRegisters::open(&place.postgres.url(), options)).unwrap();
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
    assert!(engine.admit(10, 1).is_ok(), "room is given back");
}

#[test]
fn what_is_beyond_the_limits_is_refused() {
    let place = Place::new();
    let engine = place.open();
    let log = LogId::partition(1);
    let limits = engine.limits();
    let large = vec![1; limits.value_bytes_max + 1];
    assert!(matches!(block_on(write(&engine, &[(log, 1, &large)])), Err(Error::TooLarge(_))));
    assert!(matches!(engine.admit(limits.batch_writes_max + 1, 0), Err(Error::TooLarge(_))));
    assert!(matches!(engine.admit(1, limits.batch_bytes_max + 1), Err(Error::TooLarge(_))));
    assert!(matches!(block_on(write(&engine, &[(log, 1 << 63, b"x")])), Err(Error::Invalid(_))));
    assert!(matches!(block_on(engine.get_blob("../row")), Err(Error::Invalid(_))));
    // As large as may be, all at once.
    let value = vec![1; limits.value_bytes_max];
    let writes: Vec<_> = (1..=8).map(|slot| (log, slot, value.as_slice())).collect();
    assert_eq!(block_on(write(&engine, &writes)), Ok(vec![WriteResult::Fresh; 8]));
    // A read stops where it becomes large.
    assert_eq!(block_on(engine.read(log, Slot(1), 100)).unwrap().len(), 4);
    let many: Vec<_> = (1..=limits.batch_writes_max as u64)
        .map(|slot| (LogId::partition(2), slot, b"x".as_slice()))
        .collect();
    assert_eq!(block_on(write(&engine, &many)).unwrap().len(), many.len());
    assert_eq!(block_on(engine.read(LogId::partition(2), Slot(1), usize::MAX)).unwrap().len(), many.len());
}
