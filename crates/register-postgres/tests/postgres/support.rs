//! What the tests share: a server with the tables in it, and hands to reach it past the engine.

use std::future::Future;
use std::pin::Pin;

use jeton_register::{Batch, Failure, Log, Permit, Registers, Slot, Written, block_on};
use jeton_register_postgres::{Options, PostgresRegisters, create_schema};
use jeton_testbed::Postgres;
use tempfile::TempDir;
use tokio::runtime::{Builder, Runtime};
use tokio_postgres::{Client, NoTls};

/// A server, in a folder that goes with it.
pub struct Place {
    pub postgres: Postgres,
    _folder: TempDir,
}

impl Place {
    /// With the tables in it.
    pub fn new() -> Self {
        let place = Self::bare(&[]);
        block_on(create_schema(&place.postgres.url())).unwrap();
        place
    }

    pub fn bare(settings: &[(&str, &str)]) -> Self {
        let folder = jeton_testbed::folder().unwrap();
        let postgres = Postgres::start(folder.path(), settings).unwrap();
        Self { postgres, _folder: folder }
    }

    pub fn open(&self) -> PostgresRegisters {
        block_on(PostgresRegisters::open(&self.postgres.url(), Options::default())).unwrap()
    }

    /// A connection that has nothing to do with the engine, and the runtime that moves its bytes.
    pub fn client(&self) -> Hand {
        let runtime = Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
        let (client, connection) =
            runtime.block_on(tokio_postgres::connect(&self.postgres.url(), NoTls)).unwrap();
        runtime.spawn(connection);
        Hand { client, runtime }
    }
}

/// Somebody at the database.
pub struct Hand {
    pub client: Client,
    pub runtime: Runtime,
}

impl Hand {
    pub fn say(&self, text: &str) {
        self.runtime.block_on(self.client.batch_execute(text)).unwrap();
    }

    /// The one number that a query returns.
    pub fn count(&self, query: &str) -> i64 {
        self.runtime.block_on(self.client.query_one(query, &[])).unwrap().get(0)
    }

    /// Waits until a query returns this number.
    pub fn await_count(&self, query: &str, wanted: i64) {
        while self.count(query) != wanted {
            std::thread::yield_now();
        }
    }
}

pub fn batch_of(writes: &[(Log, u64, &[u8])]) -> Batch {
    let mut batch = Batch::new();
    for (log, slot, value) in writes {
        batch.push(*log, Slot(*slot), value);
    }
    batch
}

/// What a batch came to, when it is known.
pub type Writing = Pin<Box<dyn Future<Output = Result<Vec<Written>, Failure>> + Send>>;

pub fn write(engine: &PostgresRegisters, writes: &[(Log, u64, &[u8])]) -> Writing {
    Box::pin(engine.write(batch_of(writes), Permit::unlimited()))
}

pub fn taken(value: &'static [u8]) -> Written {
    Written::Taken(value.into())
}
