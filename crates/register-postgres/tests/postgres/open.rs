//! Errors of opening, and the settings of sessions.

use futures_executor::block_on;
use jeton_register::{LogId, Registers, WritePermit, WriteResult};
use jeton_register_postgres::{OpenError, Options, PostgresRegisters, SCHEMA_VERSION, create_schema};

use super::support::{Server, batch_of, write};

fn opened(url: &str) -> Result<PostgresRegisters, OpenError> {
    block_on(PostgresRegisters::open(url, Options::default()))
}

#[test]
fn concurrent_creation_of_tables_succeeds() {
    let server = Server::bare(&[]);
    let url = server.postgres.url();
    assert!(matches!(opened(&url), Err(OpenError::NoSchema)));
    std::thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| block_on(create_schema(&url)).unwrap());
        }
    });
    let engine = opened(&url).unwrap();
    let written = block_on(write(&engine, &[(LogId::partition(1), 1, b"kept")]));
    assert_eq!(written, Ok(vec![WriteResult::Fresh]));
    block_on(create_schema(&url)).unwrap();
    assert_eq!(server.client().count("SELECT count(*) FROM jeton_register"), 1, "existing rows are kept");
}

#[test]
fn tables_of_another_version_are_not_changed() {
    let server = Server::new();
    let url = server.postgres.url();
    server.client().execute("UPDATE jeton_schema SET version = version + 1");
    for error in [opened(&url).err(), block_on(create_schema(&url)).err()] {
        let good = matches!(
            error,
            Some(OpenError::Version { found, expected }) if found == SCHEMA_VERSION + 1 && expected == SCHEMA_VERSION
        );
        assert!(good, "{error:?}");
    }
}

#[test]
fn tables_of_version_1_are_upgraded() {
    let server = Server::new();
    let (url, client) = (server.postgres.url(), server.client());
    client.execute(
        "DROP TABLE jeton_object; UPDATE jeton_schema SET version = 1;
        ALTER TABLE jeton_register ALTER COLUMN value SET STORAGE EXTENDED, RESET (autovacuum_vacuum_threshold);
        INSERT INTO jeton_register VALUES (1, '00000000-0000-0000-0000-000000000001', 1, 'kept')",
    );
    assert!(matches!(opened(&url).err(), Some(OpenError::Version { found: 1, .. })));
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| block_on(create_schema(&url)).unwrap());
        }
    });
    let engine = opened(&url).unwrap();
    let written = block_on(write(&engine, &[(LogId::partition(1), 1, b"other")]));
    assert_eq!(written, Ok(vec![WriteResult::Taken("kept".into())]));
    block_on(engine.put_object("o", "bytes".into())).unwrap();
    let external = "SELECT count(*) FROM pg_attribute a JOIN pg_class c ON c.oid = a.attrelid
        WHERE a.attstorage = 'e' AND (c.relname, a.attname) IN (('jeton_register', 'value'), ('jeton_object', 'content'))";
    assert_eq!(client.count(external), 2);
    let vacuumed = "SELECT count(*) FROM pg_class WHERE relname IN ('jeton_register', 'jeton_object')
        AND reloptions::text LIKE '%autovacuum_vacuum_threshold=2000%'";
    assert_eq!(client.count(vacuumed), 2);
}

#[test]
fn server_without_fsync_is_refused() {
    let server = Server::bare(&[("fsync", "off")]);
    block_on(create_schema(&server.postgres.url())).unwrap();
    let error = opened(&server.postgres.url()).err().unwrap();
    assert!(matches!(&error, OpenError::Unfit(why) if why.contains("fsync")), "{error}");
}

#[test]
fn asynchronous_standbys_are_refused_if_the_caller_asks() {
    let server = Server::new();
    let (url, client) = (server.postgres.url(), server.client());
    let strict = || {
        let mut options = Options::default();
        options.refuse_asynchronous_standbys = true;
        block_on(PostgresRegisters::open(&url, options)).map(drop)
    };
    strict().unwrap();
    let folder = tempfile::tempdir().unwrap();
    let standby = format!("{url}?application_name=standby");
    let mut standby = jeton_testbed::postgres_program("pg_receivewal")
        .unwrap()
        .args(["--synchronous", "-d", &standby, "-D"])
        .arg(folder.path())
        .spawn()
        .unwrap();
    client.await_count("SELECT count(*) FROM pg_stat_replication WHERE state = 'streaming'", 1);
    let error = strict().unwrap_err();
    assert!(matches!(&error, OpenError::Unfit(why) if why.contains("asynchronous")), "{error}");
    opened(&url).unwrap();
    client.execute("ALTER SYSTEM SET synchronous_standby_names = 'standby'");
    client.execute("SELECT pg_reload_conf()");
    client.await_count("SELECT count(*) FROM pg_stat_replication WHERE sync_state = 'sync'", 1);
    strict().unwrap();
    standby.kill().unwrap();
    standby.wait().unwrap();
}

#[test]
fn sessions_override_asynchronous_commit() {
    for (setting, expected) in
        [("off", "on"), ("local", "on"), ("remote_write", "on"), ("remote_apply", "remote_apply")]
    {
        let server = Server::bare(&[("synchronous_commit", setting)]);
        block_on(create_schema(&server.postgres.url())).unwrap();
        let client = server.client();
        // A trigger records the setting of the writing session.
        client.execute(
            "CREATE TABLE seen (setting text);
            CREATE FUNCTION see() RETURNS trigger LANGUAGE plpgsql AS
                $$ BEGIN INSERT INTO seen VALUES (current_setting('synchronous_commit')); RETURN NEW; END $$;
            CREATE TRIGGER see AFTER INSERT ON jeton_register FOR EACH ROW EXECUTE FUNCTION see()",
        );
        let engine = opened(&server.postgres.url()).unwrap();
        block_on(write(&engine, &[(LogId::partition(1), 1, b"x")])).unwrap();
        let query = format!("SELECT count(*) FROM seen WHERE setting = '{expected}'");
        assert_eq!(client.count(&query), 1, "the server has {setting}");
    }
}

#[test]
fn connection_errors_are_named() {
    assert!(matches!(opened("nonsense"), Err(OpenError::Url(_))));
    let mut options = Options::default();
    options.connect_timeout = std::time::Duration::from_millis(50);
    let address = jeton_testbed::free_address().unwrap();
    let url = format!("postgresql://nobody@{address}/postgres");
    let error = block_on(PostgresRegisters::open(&url, options)).err().unwrap();
    assert!(matches!(&error, OpenError::Unreachable(why) if why.contains("refused")), "{error}");
}

#[test]
fn queued_writes_are_executed_when_the_engine_is_dropped() {
    let server = Server::new();
    let engine = server.open();
    let waiting: Vec<_> = (1..=200)
        .map(|slot| engine.write(batch_of(&[(LogId::partition(1), slot, b"x")]), WritePermit::unlimited()))
        .collect();
    drop(engine);
    for written in waiting {
        assert_eq!(block_on(written), Ok(vec![WriteResult::Fresh]));
    }
}
