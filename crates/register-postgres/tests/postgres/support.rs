//! What the tests share: a server with the tables in it, and hands to reach it past the engine.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use bytes::Bytes;
use futures_executor::block_on;
use jeton_register::{Batch, Blob, Error, Extent, LogId, LogKind, Registers, Slot, WritePermit, WriteResult};
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

pub fn batch_of(writes: &[(LogId, u64, &[u8])]) -> Batch {
    let mut batch = Batch::new();
    for (log, slot, value) in writes {
        batch.push(*log, Slot(*slot), value);
    }
    batch
}

/// What a batch came to, when it is known.
pub type Writing = Pin<Box<dyn Future<Output = Result<Vec<WriteResult>, Error>> + Send>>;

pub fn write(engine: &PostgresRegisters, writes: &[(LogId, u64, &[u8])]) -> Writing {
    Box::pin(engine.write(batch_of(writes), WritePermit::unlimited()))
}

pub fn taken(value: &'static [u8]) -> WriteResult {
    WriteResult::Taken(value.into())
}

/// An engine whose answers are counted, so that others can wait until it got somewhere.
pub struct Counted {
    pub engine: PostgresRegisters,
    pub answers: Arc<AtomicU64>,
}

impl Counted {
    async fn count<T>(
        answers: Arc<AtomicU64>,
        answer: impl Future<Output = Result<T, Error>>,
    ) -> Result<T, Error> {
        let answer = answer.await;
        answers.fetch_add(u64::from(answer.is_ok()), Ordering::Relaxed);
        answer
    }
}

impl Registers for Counted {
    fn admit(&self, writes: usize, value_bytes: usize) -> Result<WritePermit, Error> {
        self.engine.admit(writes, value_bytes)
    }

    fn write(
        &self,
        batch: Batch,
        permit: WritePermit,
    ) -> impl Future<Output = Result<Vec<WriteResult>, Error>> + Send + 'static {
        Self::count(Arc::clone(&self.answers), self.engine.write(batch, permit))
    }

    async fn read(&self, log: LogId, from: Slot, limit: usize) -> Result<Vec<(Slot, Bytes)>, Error> {
        Self::count(Arc::clone(&self.answers), self.engine.read(log, from, limit)).await
    }

    async fn extent(&self, log: LogId) -> Result<Extent, Error> {
        Self::count(Arc::clone(&self.answers), self.engine.extent(log)).await
    }

    async fn trim(&self, log: LogId, through: Slot) -> Result<(), Error> {
        Self::count(Arc::clone(&self.answers), self.engine.trim(log, through)).await
    }

    async fn retire(&self, space: LogKind, below: u128) -> Result<(), Error> {
        Self::count(Arc::clone(&self.answers), self.engine.retire(space, below)).await
    }

    async fn put_blob(&self, name: &str, row: Blob) -> Result<bool, Error> {
        Self::count(Arc::clone(&self.answers), self.engine.put_blob(name, row)).await
    }

    async fn get_blob(&self, name: &str) -> Result<Option<Blob>, Error> {
        Self::count(Arc::clone(&self.answers), self.engine.get_blob(name)).await
    }
}

/// How many sessions wait for another one.
pub const WAITING: &str = "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock'";

/// Somebody who writes a register and does not commit: whoever writes the same one waits.
pub fn hold(place: &Place, log: LogId, slot: u64) -> Hand {
    let hand = place.client();
    let (space, id) = (log.kind as i16, log.id);
    let id = format!(
        "{:08x}-{:04x}-{:04x}-{:04x}-{:012x}",
        id >> 96,
        id >> 80 & 0xffff,
        id >> 64 & 0xffff,
        id >> 48 & 0xffff,
        id & 0xffff_ffff_ffff
    );
    hand.say(&format!("BEGIN; INSERT INTO jeton_register VALUES ({space}, '{id}', {slot}, 'held')"));
    hand
}
