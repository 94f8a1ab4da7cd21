//! Eras that are over: their filters go from memory and from disk, and what was logged in them is replayed all the same.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

use std::sync::Arc;
use std::time::Duration;

use futures_executor::block_on;
use jeton_core::{
    Cell, Change, Column, Format, Formats, Hashes, Moment, OpId, Operation, Secret, TableSettings, Value,
};
use jeton_engine::ids::IdIndex;
use jeton_engine::parts::Tables;
use jeton_engine::values::MemoryValues;
use jeton_engine::{Marks, Options, Outbox, Request, Shard, StoredFilters, Stores, find, share_out};
use jeton_register::Registers;
use jeton_register::disk::FaultDisk;
use jeton_register::memory::Memory;

const SECRET: [u8; 16] = *b"secret of a test";
const MINUTE: Duration = Duration::from_secs(60);

fn at(minutes: u32) -> Moment {
    Moment::from_secs(1_700_000_000).after(minutes * MINUTE)
}

fn settings(window: Duration) -> TableSettings {
    TableSettings {
        formats: Formats::only(Format::Opaque),
        dated_window: window,
        opaque_window: window,
        skew: Duration::ZERO,
        ..TableSettings::default()
    }
}

/// A store in memory, without threads.
struct Scene {
    registers: Arc<Memory>,
    stores: Stores<MemoryValues, FaultDisk>,
}

impl Scene {
    fn new() -> Self {
        let (ids, _) = IdIndex::open(Arc::new(FaultDisk::new()), "ids").unwrap();
        let stores = Stores { values: Arc::new(MemoryValues::default()), ids: Arc::new(ids) };
        Self { registers: Arc::new(Memory::new()), stores }
    }

    /// Starts, as after a crash: tables, and a shard of all partitions.
    fn start(&self, now: Moment) -> (Tables<Memory>, Shard<MemoryValues, FaultDisk>) {
        let found = find(&*self.registers, &self.stores, &[], now, || SECRET).unwrap();
        let catalog = Arc::new(found.catalog);
        let options = Options { shards: 1, ..Options::default() };
        let known = (found.secret, found.partitions, &found.kept);
        let mut recovered = share_out(&*self.registers, &self.stores, &catalog, known, &options).unwrap();
        let tables = Tables::new(self.registers.clone(), catalog, found.catalog_version);
        (tables, recovered.shards.pop().unwrap())
    }

    /// Adds 1 under an id. Whether it counted.
    fn add(
        &self,
        shard: &mut Shard<MemoryValues, FaultDisk>,
        tables: &Tables<Memory>,
        id: &str,
        now: Moment,
    ) -> bool {
        let id = Some(OpId::opaque(id.as_bytes()).unwrap());
        let operation = Operation::single(id, self.cell(tables), Change::Add(1)).unwrap();
        let hashes = Hashes::of(&operation, &Secret::new(SECRET), &mut Vec::new());
        let mut outbox = Outbox::default();
        let mut requests = vec![Some(Request::Apply { operation, hashes, ticket: () })];
        let catalog = tables.catalog().load();
        let Some(batch) = shard.process(&catalog, &mut requests, now, &mut outbox) else { return false };
        let permit = self.registers.admit(1, batch.value_bytes()).unwrap();
        block_on(self.registers.write(batch, permit)).unwrap();
        shard.durable(shard.last_batch());
        true
    }

    fn cell(&self, tables: &Tables<Memory>) -> Cell {
        let table = tables.catalog().load().find("t").unwrap().id;
        Cell::new(&Secret::new(SECRET), table, b"row", &Column::unnamed()).unwrap()
    }

    fn bytes(&self, row: &str) -> usize {
        block_on(self.registers.get_row(row)).unwrap().unwrap().bytes.len()
    }
}

#[test]
fn the_filters_of_an_era_that_is_over_leave_memory_and_disk() {
    let scene = Scene::new();
    let (tables, mut shard) = scene.start(at(0));
    tables.create("t", settings(10 * MINUTE)).unwrap();
    assert!(scene.add(&mut shard, &tables, "of era 1", at(0)));
    let mut filters = StoredFilters::default();
    let mut store = |tables: &Tables<Memory>| {
        let version = filters.write(&*scene.registers, &tables.catalog().load(), 1 << 20).unwrap();
        // They speak up to nowhere, so that everything is replayed.
        filters.commit(&*scene.registers, version, Marks::default()).unwrap();
        filters.rows().collect::<Vec<String>>()
    };
    let of_era_1 = [store(&tables), store(&tables)].concat();
    tables.alter("t", settings(MINUTE), || at(1), at(0)).unwrap();
    assert!(scene.add(&mut shard, &tables, "of era 2", at(1)));
    store(&tables);
    store(&tables);
    assert_eq!(tables.let_go(at(13)).unwrap(), 0, "its last promise is not kept yet");
    assert_eq!(tables.let_go(at(14)).unwrap(), 1);

    // A crash between the steps: the era is gone, its filters are still on disk.
    let (tables, mut shard) = scene.start(at(14));
    assert_eq!(tables.catalog().load().find("t").unwrap().eras().count(), 1);
    assert!(scene.add(&mut shard, &tables, "of era 2 again", at(14)));
    let needed = [store(&tables), store(&tables)].concat();
    let gone: Vec<&String> = of_era_1.iter().filter(|row| !needed.contains(row)).collect();
    assert!(!gone.is_empty() && gone.iter().all(|row| scene.bytes(row) == 0), "{gone:?}");
    assert!(needed.iter().all(|row| scene.bytes(row) > 0));

    // What was logged in it is replayed, and counts.
    let (tables, mut shard) = scene.start(at(14));
    let mut outbox = Outbox::default();
    let mut requests = vec![Some(Request::Read { cell: scene.cell(&tables), ticket: () })];
    shard.process(&tables.catalog().load(), &mut requests, at(14), &mut outbox);
    let expected = jeton_engine::Response::Read(Ok(Some(Value::Counter(3))));
    assert_eq!(outbox.ready, [((), expected)]);
    assert!(!scene.add(&mut shard, &tables, "of era 2 again", at(14)));
}

/// A shard may work with the tables as they were before for a moment longer.
#[test]
fn an_entry_logged_in_an_era_that_was_just_let_go_is_replayed() {
    let scene = Scene::new();
    let (tables, mut shard) = scene.start(at(0));
    tables.create("t", settings(MINUTE)).unwrap();
    let before = Tables::new(Arc::new(Memory::new()), tables.catalog().load_full(), 0);
    tables.alter("t", settings(2 * MINUTE), || at(1), at(0)).unwrap();
    assert!(scene.add(&mut shard, &tables, "known", at(4)));
    assert_eq!(tables.let_go(at(5)).unwrap(), 1);
    assert!(scene.add(&mut shard, &before, "late", at(5)));
    let (tables, mut shard) = scene.start(at(5));
    assert!(!scene.add(&mut shard, &tables, "known", at(5)));
    assert!(scene.add(&mut shard, &tables, "new", at(5)));
}
