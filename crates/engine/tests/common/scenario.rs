//! A store in memory, without threads: a test drives its parts by hand, at times of its own.

use std::cell::RefCell;
use std::sync::Arc;
use std::time::Duration;

use futures_executor::block_on;
use jeton_core::{Cell, Change, Column, Format, Formats, OpId, Operation, Secret, TableSettings, Timestamp};
use jeton_engine::ids::IdIndex;
use jeton_engine::internals::Tables;
use jeton_engine::values::MemoryValues;
use jeton_engine::{
    CheckpointPositions, Checkpointer, OperationOutcome, Options, Request, Response, Shard, StoredFilters,
    Stores, find, replay_log,
};
use jeton_wal::Wal;
use jeton_wal::disk::FaultDisk;

pub const SECRET: [u8; 16] = *b"secret of a test";
pub const MINUTE: Duration = Duration::from_secs(60);

/// A time in minutes after the start.
pub fn at(minutes: u32) -> Timestamp {
    Timestamp::from_secs(1_700_000_000).after(minutes * MINUTE)
}

/// A table of opaque ids whose eras expire as soon as possible.
pub fn settings(window: Duration) -> TableSettings {
    TableSettings {
        formats: Formats::only(Format::Opaque),
        dated_window: window,
        opaque_window: window,
        skew: Duration::ZERO,
        ..TableSettings::default()
    }
}

/// A store in memory, without threads.
pub struct Scenario {
    pub log: Arc<Wal<FaultDisk>>,
    pub stores: Stores<MemoryValues, FaultDisk>,
    /// The note of the id index.
    note: RefCell<Vec<u8>>,
}

impl Scenario {
    pub fn new() -> Self {
        let (ids, _) = IdIndex::open(Arc::new(FaultDisk::new()), "ids").unwrap();
        let stores = Stores { values: Arc::new(MemoryValues::default()), ids: Arc::new(ids) };
        let log = Wal::open(FaultDisk::new(), jeton_wal::Options::small(1 << 20)).unwrap();
        Self { log: Arc::new(log), stores, note: RefCell::default() }
    }

    /// Starts as after a crash. Returns the tables, and a shard of all partitions.
    pub fn start(&self) -> (Tables<Wal<FaultDisk>>, Shard<MemoryValues, FaultDisk>) {
        let found = find(&*self.log, &self.stores, &self.note.borrow(), usize::MAX, || SECRET).unwrap();
        let catalog = Arc::new(found.catalog);
        let options = Options { shards: 1, ..Options::default() };
        let known = (found.secret, found.partitions, &found.positions);
        let mut recovered = replay_log(&*self.log, &self.stores, &catalog, known, &options).unwrap();
        let tables = Tables::new(self.log.clone(), catalog, found.catalog_version);
        (tables, recovered.shards.pop().unwrap())
    }

    /// Adds 1 under an id. Returns whether it counted.
    pub fn add(
        &self,
        shard: &mut Shard<MemoryValues, FaultDisk>,
        tables: &Tables<Wal<FaultDisk>>,
        id: &str,
        now: Timestamp,
    ) -> bool {
        let response = self.submit(shard, tables, OpId::opaque(id.as_bytes()).unwrap(), now);
        matches!(response, Response::Applied(Ok(OperationOutcome::Fresh(_))))
    }

    /// Adds 1 under an id, durably.
    pub fn submit(
        &self,
        shard: &mut Shard<MemoryValues, FaultDisk>,
        tables: &Tables<Wal<FaultDisk>>,
        id: OpId,
        now: Timestamp,
    ) -> Response {
        let operation = Operation::single(Some(id), self.cell(tables), Change::Add(1)).unwrap();
        let request = Request::apply(operation, &Secret::new(SECRET), &mut Vec::new());
        let catalog = tables.catalog().load();
        let mut response = None;
        let batch =
            shard.process(&catalog, &[(&request, ())], now, |(), _, decided| response = Some(decided));
        if let Some(batch) = batch {
            let reservation = self.log.reserve(1, batch.entry_bytes()).unwrap();
            block_on(self.log.append(&batch, reservation).unwrap()).unwrap();
            shard.durable(shard.last_batch());
        }
        response.unwrap()
    }

    /// Makes the first checkpoint, so that nothing is left to be replayed.
    pub fn store(
        &self,
        shard: &mut Shard<MemoryValues, FaultDisk>,
        tables: &Tables<Wal<FaultDisk>>,
        now: Timestamp,
    ) {
        let none = (CheckpointPositions::default(), StoredFilters::default());
        let mut checkpointer = Checkpointer::new(self.log.clone(), self.stores.clone(), none, 1 << 20);
        checkpointer.store_ids(&shard.freeze_ids()).unwrap();
        shard.freeze_values(&tables.catalog().load(), now);
        checkpointer.store_values(&mut shard.copy_values(1_000).unwrap()).unwrap();
        let version = checkpointer.write_filters(&tables.catalog().load()).unwrap();
        checkpointer.commit_filters(version, &shard.slots()).unwrap();
        checkpointer.positions().ids.encode(&mut self.note.borrow_mut());
    }

    pub fn cell(&self, tables: &Tables<Wal<FaultDisk>>) -> Cell {
        let table = tables.catalog().load().find("t").unwrap().id;
        Cell::new(&Secret::new(SECRET), table, b"row", &Column::unnamed()).unwrap()
    }

    /// The size of a blob.
    pub fn bytes(&self, blob: &str) -> usize {
        self.log.get_blob(blob).unwrap().unwrap().bytes.len()
    }
}
