//! The cost of deciding: a shard without threads, log and disk.

use std::hint::black_box;
use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use jeton_core::{
    Catalog, Cell, Change, Column, Operation, Partition, PartitionId, Secret, TableSettings, Timestamp,
};
use jeton_engine::ids::IdIndex;
use jeton_engine::values::MemoryValues;
use jeton_engine::{Request, Response, Shard, Stores};
use jeton_wal::disk::RealDisk;

use crate::callers::{COUNTERS, scatter};
use crate::jeton::{Memory, uuid7};
use crate::report::{load, spread};

/// Requests per batch, about as many as wait under load.
const BATCH: u64 = 100;

const BATCHES: u64 = 20_000;

/// Batches between two freezes of ids, as in the engine.
const FREEZE: u64 = 65_536 / BATCH;

pub fn run(folder: &Path) {
    println!("\n## Deciding alone, {BATCH} at a time, {COUNTERS} counters\n\nBefore: {}.\n", load());
    println!("| memory | ns per addition, median of batches (quartiles) |\n|---|---|");
    for (name, memory) in
        [("without ids", Memory::Nothing), ("exact", Memory::Exact), ("probabilistic", Memory::Probabilistic)]
    {
        println!("| {name} | {} |", spread(decide(&folder.join(format!("decide-{name}")), memory)));
    }
}

fn decide(folder: &Path, memory: Memory) -> Vec<f64> {
    let disk = Arc::new(RealDisk::new(folder).expect("a folder"));
    let (ids, _) = IdIndex::open(disk, "ids").expect("an index");
    let stores = Stores { values: Arc::new(MemoryValues::default()), ids: Arc::new(ids) };
    let secret = Secret::new([7; 16]);
    let partitions = PartitionId::all().map(Partition::new).collect();
    let mut shard = Shard::new(secret, partitions, stores, 128 << 20, 1 << 20);
    let settings = TableSettings { expected_ids: 200_000_000, ..TableSettings::default() };
    let catalog =
        Catalog::default().create("bench", memory.settings(settings), Timestamp::ZERO).expect("a table");
    let table = catalog.find("bench").expect("it was made").id;
    let cell = |counter: u64| {
        let row = format!("counter-{counter:08}");
        Cell::new(&secret, table, row.as_bytes(), &Column::unnamed()).expect("a cell")
    };
    let cells: Vec<Cell> = (0..COUNTERS).map(cell).collect();
    let (mut requests, mut scratch) = (Vec::new(), Vec::new());
    let mut times = Vec::new();
    for batch in 0..BATCHES {
        let millis = 1_700_000_000_000 + batch;
        for number in batch * BATCH..(batch + 1) * BATCH {
            let id = (memory != Memory::Nothing).then(|| uuid7(millis, number));
            let cell = cells[(scatter(number) % COUNTERS) as usize].clone();
            let operation = Operation::single(id, cell, Change::Add(1)).expect("an operation");
            requests.push(Request::apply(operation, &secret, &mut scratch));
        }
        let started = Instant::now();
        let numbered: Vec<(&Request, usize)> = requests.iter().zip(0..).collect();
        let mut responses: Vec<Option<Response>> = vec![None; numbered.len()];
        let entries =
            shard.process(&catalog, &numbered, Timestamp::from_millis(millis), |at, _, response| {
                responses[at] = Some(response);
            });
        let took = started.elapsed();
        assert!(entries.is_some(), "all are new");
        shard.durable(shard.last_batch());
        black_box(responses);
        requests.clear();
        if batch % FREEZE == 0 {
            let freeze = shard.freeze_ids().freeze;
            shard.ids_stored(freeze);
        }
        // The first batches fill the cache.
        if batch > BATCHES / 4 {
            times.push(took.as_nanos() as f64 / BATCH as f64);
        }
    }
    times
}
