//! A server with the tables, and clients of it beside the engine.

use std::future::Future;
use std::pin::Pin;

use futures_executor::block_on;
use jeton_register::{Batch, Error, LogId, Registers, Slot, WritePermit, WriteResult};
use jeton_register_postgres::{Options, PostgresRegisters, create_schema};
use jeton_testbed::Postgres;
use tempfile::TempDir;
use tokio::runtime::{Builder, Runtime};
use tokio_postgres::{Client, NoTls};

/// A server in a temporary directory.
pub struct Server {
    pub postgres: Postgres,
    _folder: TempDir,
}

impl Server {
    /// With the tables.
    pub fn new() -> Self {
        let server = Self::bare(&[]);
        block_on(create_schema(&server.postgres.url())).unwrap();
        server
    }

    pub fn bare(settings: &[(&str, &str)]) -> Self {
        let folder = jeton_testbed::folder().unwrap();
        let postgres = Postgres::start(folder.path(), settings).unwrap();
        Self { postgres, _folder: folder }
    }

    pub fn open(&self) -> PostgresRegisters {
        block_on(PostgresRegisters::open(&self.postgres.url(), Options::default())).unwrap()
    }

    /// A connection beside the engine.
    pub fn client(&self) -> SqlClient {
        let runtime = Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
        let (client, connection) =
            runtime.block_on(tokio_postgres::connect(&self.postgres.url(), NoTls)).unwrap();
        runtime.spawn(connection);
        SqlClient { client, runtime }
    }
}

/// A connection, and the runtime that drives it.
pub struct SqlClient {
    pub client: Client,
    pub runtime: Runtime,
}

impl SqlClient {
    pub fn execute(&self, text: &str) {
        self.runtime.block_on(self.client.batch_execute(text)).unwrap();
    }

    /// The one number that a query returns.
    pub fn count(&self, query: &str) -> i64 {
        self.runtime.block_on(self.client.query_one(query, &[])).unwrap().get(0)
    }

    /// Waits until a query returns this number.
    pub fn await_count(&self, query: &str, expected: i64) {
        while self.count(query) != expected {
            std::thread::yield_now();
        }
    }
}

pub fn batch_of(writes: &[(LogId, u64, &[u8])]) -> Batch {
    let mut batch = Batch::new();
    for (log, slot, value) in writes {
        batch.push(*log, Slot(*slot), value);
    }
    batch
}

/// The future of a write.
pub type Writing = Pin<Box<dyn Future<Output = Result<Vec<WriteResult>, Error>> + Send>>;

pub fn write(engine: &PostgresRegisters, writes: &[(LogId, u64, &[u8])]) -> Writing {
    Box::pin(engine.write(batch_of(writes), WritePermit::unlimited()))
}

pub fn taken(value: &'static [u8]) -> WriteResult {
    WriteResult::Taken(value.into())
}

/// The number of sessions that wait for a lock.
pub const WAITING: &str = "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock'";

/// Writes a register without a commit: other writes of it wait.
pub fn hold(server: &Server, log: LogId, slot: u64) -> SqlClient {
    let client = server.client();
    let (space, id) = (log.kind as i16, log.id);
    let id = format!(
        "{:08x}-{:04x}-{:04x}-{:04x}-{:012x}",
        id >> 96,
        id >> 80 & 0xffff,
        id >> 64 & 0xffff,
        id >> 48 & 0xffff,
        id & 0xffff_ffff_ffff
    );
    client.execute(&format!("BEGIN; INSERT INTO jeton_register VALUES ({space}, '{id}', {slot}, 'held')"));
    client
}
