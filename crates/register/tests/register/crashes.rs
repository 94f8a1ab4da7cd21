//! The power fails during every disk operation of a workload of sessions: written, trimmed, retired and
//! rewritten.

use std::collections::BTreeMap;

use futures_executor::block_on;
use jeton_register::embedded::{EmbeddedRegisters, Options};
use jeton_register::{Error, Extent, LogId, LogKind, Registers, Slot, WriteResult};
use jeton_wal::disk::FaultDisk;

use super::embedded::{SEGMENT_BYTES, Store, retry, segments, write};

/// What a workload tried, and what was acknowledged.
#[derive(Default, Clone)]
struct History {
    tried: BTreeMap<(u128, u64), Vec<u8>>,
    acknowledged: BTreeMap<(u128, u64), Vec<u8>>,
    trim_tried: BTreeMap<u128, u64>,
    trim_acknowledged: BTreeMap<u128, u64>,
    retire_tried: u128,
    retire_acknowledged: u128,
    /// The number of sessions so far.
    sessions: u128,
}

fn rng(seed: u64) -> impl FnMut() -> u64 {
    let mut rng = jeton_testkit::Rng::new(seed);
    move || rng.next_u64()
}

fn open(disk: &FaultDisk) -> Option<Store> {
    let options = Options::small(SEGMENT_BYTES);
    EmbeddedRegisters::open_with(disk.clone(), options, Box::new(|_| {})).ok()
}

/// Ends early when the disk fails.
fn work(store: &Store, history: &mut History, seed: u64, steps: usize) -> Result<(), Error> {
    let mut random = rng(seed);
    for _ in 0..steps {
        match random() % 8 {
            0 => {
                let number = 1 + u128::from(random()) % history.sessions.max(1);
                let through = 1 + random() % 130;
                let tried = history.trim_tried.entry(number).or_default();
                *tried = through.max(*tried);
                retry(|| block_on(store.trim(LogId::transaction(number), Slot(through))))?;
                let acknowledged = history.trim_acknowledged.entry(number).or_default();
                *acknowledged = through.max(*acknowledged);
            }
            1 => {
                // Sessions live long enough to be rewritten.
                let below = history.sessions.saturating_sub(8);
                history.retire_tried = below.max(history.retire_tried);
                retry(|| block_on(store.retire(LogKind::Transaction, below)))?;
                history.retire_acknowledged = below.max(history.retire_acknowledged);
            }
            _ => {
                history.sessions += 1;
                let number = history.sessions.saturating_sub(u128::from(random() % 3)).max(1);
                let slot = 1 + 64 * (random() % 3) + random() % 2;
                let value = vec![random() as u8; (random() % 400) as usize];
                let trimmed = history.trim_tried.get(&number).copied().unwrap_or(0);
                if history.tried.contains_key(&(number, slot))
                    || slot <= trimmed
                    || number < history.retire_tried
                {
                    continue;
                }
                history.tried.insert((number, slot), value.clone());
                assert_eq!(write(store, LogId::transaction(number), slot, &value)?, WriteResult::Fresh);
                history.acknowledged.insert((number, slot), value);
            }
        }
    }
    Ok(())
}

/// What is there must lie between what was acknowledged and what was tried.
fn check(store: &Store, history: &History, context: &str) {
    let mut below = 0;
    for number in 1..=history.sessions + 3 {
        let log = LogId::transaction(number);
        let extent = block_on(store.extent(log)).unwrap();
        if extent == Extent::RETIRED {
            below = number + 1;
            assert_eq!(write(store, log, 500, b"delayed"), Ok(WriteResult::Trimmed), "{context}: {number}");
            continue;
        }
        assert!(number >= history.retire_acknowledged, "{context}: session {number} was retired");
        let acknowledged = history.trim_acknowledged.get(&number).copied().unwrap_or(0);
        let tried = history.trim_tried.get(&number).copied().unwrap_or(0);
        assert!((acknowledged..=tried).contains(&extent.trimmed.0), "{context}: {extent:?}");
        let found = block_on(store.read(log, extent.trimmed.next(), 100)).unwrap();
        let found: BTreeMap<u64, Vec<u8>> =
            found.into_iter().map(|(slot, value)| (slot.0, value.to_vec())).collect();
        for (slot, value) in &found {
            assert_eq!(Some(value), history.tried.get(&(number, *slot)), "{context}: {number}/{slot}");
        }
        for (&(_, slot), value) in history.acknowledged.range((number, extent.trimmed.0 + 1)..(number + 1, 0))
        {
            assert_eq!(found.get(&slot), Some(value), "{context}: {number}/{slot} was acknowledged");
            assert!(extent.last.0 >= slot, "{context}");
        }
    }
    assert!(below <= history.retire_tried, "{context}: {below} retired, tried {}", history.retire_tried);
}

#[test]
fn acknowledged_changes_survive_a_crash_anywhere() {
    const STEPS: usize = 260;
    let disk = FaultDisk::new();
    let store = open(&disk).unwrap();
    let mut history = History::default();
    work(&store, &mut history, 1, STEPS).unwrap();
    check(&store, &history, "without a crash");
    drop(store);
    let operations = disk.operations();
    assert!(history.retire_acknowledged > 30, "the workload retires");
    assert!(disk.bytes("log/0000000003.log").is_none(), "the log is rewritten, and segments are released");
    assert!(segments(&disk) < 8);
    for at in 1..=operations {
        let seed = at % 3;
        let context = format!("power fails at operation {at}");
        let mut random = rng(at * 1000);
        let mut disk = FaultDisk::new();
        disk.die_at(at);
        let mut history = History::default();
        if let Some(store) = open(&disk) {
            let _ = work(&store, &mut history, 1, STEPS);
        }
        for life in 0..3 {
            disk = disk.crash(&mut random);
            // The power fails again soon: during recovery, or a little later.
            if life == 0 {
                disk.die_at(1 + random() % 12);
            }
            let Some(store) = open(&disk) else {
                assert_eq!(life, 0, "{context}: refused");
                continue;
            };
            if life == 0 {
                continue;
            }
            check(&store, &history, &context);
            // Continues above everything that was ever tried.
            history.sessions += 5;
            work(&store, &mut history, seed, 20).unwrap();
        }
    }
}
