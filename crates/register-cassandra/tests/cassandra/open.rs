//! Errors of opening, and settings of nodes that are refused.

use std::time::Duration;

use jeton_register::conformance::block_on;
use jeton_register::{Error, LogId, Registers, WriteResult};
use jeton_register_cassandra::{CassandraRegisters, OpenError, Options, SCHEMA_VERSION, create_schema};

use super::support::{Keyspace, insist, write};

fn opened(url: &str, options: Options) -> Result<CassandraRegisters, OpenError> {
    block_on(CassandraRegisters::open(url, options))
}

#[test]
fn tables_are_created_once_and_must_exist() {
    let Some(keyspace) = Keyspace::bare() else { return };
    let error = opened(&keyspace.url, Options::default()).err().unwrap();
    assert!(matches!(error, OpenError::NoSchema), "{error}");
    block_on(create_schema(&keyspace.url, 3)).unwrap();
    let engine = keyspace.open();
    assert_eq!(insist(&engine, LogId::partition(1), 1, b"kept"), WriteResult::Fresh);
    block_on(create_schema(&keyspace.url, 3)).unwrap();
    assert_eq!(block_on(engine.extent(LogId::partition(1))).unwrap().last.0, 1, "existing rows are kept");
    assert_eq!(SCHEMA_VERSION, 1);
}

#[test]
fn connection_errors_are_named() {
    assert!(matches!(opened("nonsense", Options::default()), Err(OpenError::Url(_))));
    let mut options = Options::default();
    options.connect_timeout = Duration::from_millis(200);
    let address = jeton_testbed::free_address().unwrap();
    let error = opened(&format!("cassandra://{address}/jeton"), options).err().unwrap();
    assert!(matches!(error, OpenError::Unreachable(_)), "{error}");
}

#[test]
fn unsafe_nodes_are_refused_at_opening_and_later() {
    let Some(mut keyspace) = Keyspace::new() else { return };
    let mut options = Options::default();
    options.check_interval = Duration::from_millis(200);
    let engine = keyspace.open_with(options.clone());
    assert_eq!(engine.nodes().unwrap(), Default::default());

    // One node returns with another setting.
    let cluster = keyspace.cluster();
    cluster.set(1, "commitlog_sync", "periodic");
    cluster.set(1, "commitlog_sync_period", "10s");
    cluster.restart(1).unwrap();
    let error = opened(&keyspace.url, options.clone()).err().unwrap().to_string();
    assert!(error.contains("127.0.0.2") && error.contains("commitlog_sync is periodic"), "{error}");
    let error = loop {
        match write(&engine, &[(LogId::partition(1), 1, b"x")]) {
            Err(Error::Unavailable(why)) if why.contains("commitlog_sync") => break why,
            _ => std::thread::yield_now(),
        }
    };
    assert!(error.contains("127.0.0.2"), "{error}");
    options.accept_periodic_sync = true;
    let accepting = keyspace.open_with(options.clone());
    let report = accepting.nodes().unwrap();
    assert_eq!(report.periodic_sync.len(), 1, "{report:?}");
    insist(&accepting, LogId::partition(2), 1, b"x");

    let cluster = keyspace.cluster();
    cluster.unset(1, "commitlog_sync_period");
    cluster.set(1, "commitlog_sync", "batch");
    cluster.set(1, "paxos_variant", "v1");
    cluster.restart(1).unwrap();
    let error = opened(&keyspace.url, options.clone()).err().unwrap().to_string();
    assert!(error.contains("paxos_variant is v1"), "{error}");

    let cluster = keyspace.cluster();
    cluster.set(1, "paxos_variant", "v2");
    cluster.restart(1).unwrap();
    insist(&engine, LogId::partition(1), 2, b"the node is safe again");
}
