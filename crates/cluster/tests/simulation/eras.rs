//! A stripe whose tables are changed by nodes with other clocks: it adopts the changes late, and is taken
//! over by nodes that know them before they replay its log. No id counts twice.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use jeton_core::{
    Catalog, Cell, Change, Column, Mode, OpId, Operation, Partition, PartitionId, Secret, TableId,
    TableSettings, Timestamp,
};
use jeton_engine::ids::IdIndex;
use jeton_engine::values::MemoryValues;
use jeton_engine::{EntryLocation, OperationOutcome, Request, Response, Shard, Stores};
use jeton_testkit::Rng;
use jeton_wal::disk::FaultDisk;
use jeton_wal::{Batch, Slot};

use super::Violation;

const STEPS: usize = 150;
const MINUTE: u64 = 60_000;
const HOUR: u64 = 60 * MINUTE;
const START: u64 = 1_700_000_000_000;

const SECRET: [u8; 16] = [7; 16];

struct Stripe {
    /// What all nodes share, and what the owner has adopted.
    shared: Vec<u8>,
    catalog: Catalog,
    shard: Shard<MemoryValues, FaultDisk>,
    log: Vec<(PartitionId, Slot, Vec<u8>)>,
    millis: u64,
    /// How often each operation was counted.
    sent: Vec<(Operation, u32)>,
}

fn cell() -> Cell {
    Cell::new(&Secret::new(SECRET), TableId(1), b"row", &Column::unnamed()).unwrap()
}

fn empty_shard() -> Shard<MemoryValues, FaultDisk> {
    let (ids, _) = IdIndex::open(Arc::new(FaultDisk::new()), "ids").unwrap();
    let stores = Stores { values: Arc::default(), ids: Arc::new(ids) };
    let partition = Partition::new(cell().partition());
    Shard::new(Secret::new(SECRET), vec![partition], stores, 1 << 20, 1 << 20)
}

fn settings(random: &mut Rng) -> TableSettings {
    let window = Duration::from_millis(HOUR * [1, 3, 8, 24][random.index(4)]);
    let mode = if random.percent(50) { Mode::Exact } else { Mode::Probabilistic { target: 1e-6 } };
    let skew = Duration::from_millis(MINUTE);
    TableSettings { dated_window: window, opaque_window: window, skew, mode, ..TableSettings::default() }
}

impl Stripe {
    fn now(&self) -> Timestamp {
        Timestamp::from_millis(self.millis)
    }

    fn send(&mut self, at: usize) -> Option<Violation> {
        let request = Request::apply(self.sent[at].0.clone(), &Secret::new(SECRET), &mut Vec::new());
        let (now, mut fresh) = (self.now(), false);
        let batch: Option<Batch> =
            self.shard.process(&self.catalog, &[(&request, ())], now, |(), _, response| {
                fresh = matches!(response, Response::Applied(Ok(OperationOutcome::Fresh(_))));
            });
        for (log, slot, bytes) in batch.iter().flat_map(Batch::iter) {
            self.log.push((PartitionId(log.0), slot, bytes.to_vec()));
            self.shard.durable(self.shard.last_batch());
        }
        let (operation, counted) = &mut self.sent[at];
        *counted += u32::from(fresh);
        (*counted > 1)
            .then(|| Violation { rule: "twice", what: format!("{:?} is counted twice", operation.id()) })
    }

    /// Another node changes the settings, by its own clock.
    fn change(&mut self, random: &mut Rng) {
        let shared = Catalog::default().adopt(&self.shared, Timestamp::ZERO).unwrap();
        let clock = Timestamp::from_millis(self.millis + random.below(8 * HOUR) - 4 * HOUR);
        if let Ok(changed) = shared.get(TableId(1)).unwrap().change(settings(random), clock) {
            self.shared = shared.replaced(changed).encode();
        }
    }

    /// A node with an empty directory takes over.
    fn take_over(&mut self) {
        let catalog = Catalog::default().adopt(&self.shared, Timestamp::ZERO).unwrap();
        let mut shard = empty_shard();
        for (partition, slot, bytes) in &self.log {
            let place = (EntryLocation::Register(*slot), *partition, slot.0);
            shard.replay(&catalog, place, bytes, false).unwrap();
        }
        shard.finish_replay(&catalog).unwrap();
        self.catalog = catalog.taken_over_at(shard.time());
        self.shard = shard;
    }
}

/// Runs a seed until the first violation.
pub fn run(seed: u64) -> Option<Violation> {
    let mut random = Rng::named(seed, "eras");
    let catalog =
        Catalog::default().create("t", settings(&mut random), Timestamp::from_millis(START)).unwrap();
    let mut stripe = Stripe {
        shared: catalog.encode(),
        catalog,
        shard: empty_shard(),
        log: Vec::new(),
        millis: START,
        sent: Vec::new(),
    };
    let mut opaque = BTreeMap::new();
    for _ in 0..STEPS {
        stripe.millis += random.below(20 * MINUTE);
        match random.below(100) {
            0..6 => stripe.change(&mut random),
            6..12 => {
                let now = stripe.now();
                stripe.catalog = stripe.catalog.adopt(&stripe.shared, now).unwrap();
            }
            12..18 => stripe.take_over(),
            18..50 => {
                let number = stripe.sent.len() as u64;
                let id = if random.percent(50) {
                    let date = stripe.millis - random.below(3 * HOUR);
                    OpId::uuid7_from(date, number.into())
                } else {
                    opaque.insert(number as usize, stripe.millis);
                    OpId::opaque(format!("order-{number}").as_bytes()).unwrap()
                };
                let operation = Operation::single(Some(id), cell(), Change::Add(1)).unwrap();
                stripe.sent.push((operation, 0));
                if let Some(found) = stripe.send(number as usize) {
                    return Some(found);
                }
            }
            _ if stripe.sent.is_empty() => {}
            _ => {
                let at = random.index(stripe.sent.len());
                // An opaque id is forgotten after the shortest window.
                if opaque.get(&at).is_some_and(|sent| stripe.millis - sent > HOUR) {
                    continue;
                }
                if let Some(found) = stripe.send(at) {
                    return Some(found);
                }
            }
        }
    }
    None
}
