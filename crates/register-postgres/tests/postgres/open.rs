//! What is refused before anything is written, and told clearly.

use futures_executor::block_on;
use jeton_register::{LogId, Registers, WritePermit, WriteResult};
use jeton_register_postgres::{OpenError, Options, PostgresRegisters, SCHEMA_VERSION, create_schema};

use super::support::{Place, batch_of, write};

fn opened(url: &str) -> Result<PostgresRegisters, OpenError> {
    block_on(PostgresRegisters::open(url, Options::default()))
}

#[test]
fn tables_are_made_once_by_however_many() {
    let place = Place::bare(&[]);
    let url = place.postgres.url();
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
    assert_eq!(place.client().count("SELECT count(*) FROM jeton_register"), 1, "what is there stays");
}

#[test]
fn tables_of_another_version_are_left_alone() {
    let place = Place::new();
    let url = place.postgres.url();
    place.client().say("UPDATE jeton_schema SET version = version + 1");
    for error in [opened(&url).err(), block_on(create_schema(&url)).err()] {
        let good = matches!(
            error,
            Some(OpenError::Version { found, expected }) if found == SCHEMA_VERSION + 1 && expected == SCHEMA_VERSION
        );
        assert!(good, "{error:?}");
    }
}

#[test]
fn a_server_that_loses_what_it_acknowledges_is_refused() {
    let place = Place::bare(&[("fsync", "off")]);
    block_on(create_schema(&place.postgres.url())).unwrap();
    let error = opened(&place.postgres.url()).err().unwrap();
    assert!(matches!(&error, OpenError::Unfit(why) if why.contains("fsync")), "{error}");
}

#[test]
fn sessions_commit_synchronously_whatever_the_server_would_do() {
    for (server, expected) in
        [("off", "on"), ("local", "on"), ("remote_write", "on"), ("remote_apply", "remote_apply")]
    {
        let place = Place::bare(&[("synchronous_commit", server)]);
        block_on(create_schema(&place.postgres.url())).unwrap();
        let hand = place.client();
        // The first writer says with which setting it commits.
        hand.say(
            "CREATE TABLE said (setting text);
            CREATE FUNCTION say() RETURNS trigger LANGUAGE plpgsql AS
                $$ BEGIN INSERT INTO said VALUES (current_setting('synchronous_commit')); RETURN NEW; END $$;
            CREATE TRIGGER say AFTER INSERT ON jeton_register FOR EACH ROW EXECUTE FUNCTION say()",
        );
        let engine = opened(&place.postgres.url()).unwrap();
        block_on(write(&engine, &[(LogId::partition(1), 1, b"x")])).unwrap();
        let query = format!("SELECT count(*) FROM said WHERE setting = '{expected}'");
        assert_eq!(hand.count(&query), 1, "the server has {server}");
    }
}

#[test]
fn what_cannot_be_connected_to_is_named() {
    assert!(matches!(opened("nonsense"), Err(OpenError::Url(_))));
    let mut options = Options::default();
    options.connect_patience = std::time::Duration::from_millis(50);
    let address = jeton_testbed::free_address().unwrap();
    let url = format!("postgresql://nobody@{address}/postgres");
    let error = block_on(PostgresRegisters::open(&url, options)).err().unwrap();
    assert!(matches!(&error, OpenError::Unreachable(why) if why.contains("refused")), "{error}");
}

#[test]
fn what_is_queued_when_the_engine_goes_is_written() {
    let place = Place::new();
    let engine = place.open();
    let waiting: Vec<_> = (1..=200)
        .map(|slot| engine.write(batch_of(&[(LogId::partition(1), slot, b"x")]), WritePermit::unlimited()))
        .collect();
    drop(engine);
    for written in waiting {
        assert_eq!(block_on(written), Ok(vec![WriteResult::Fresh]));
    }
}
