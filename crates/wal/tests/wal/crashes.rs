//! The power fails during every disk operation of a workload, and what is left is torn in many ways.

use std::collections::BTreeMap;

use jeton_wal::disk::FaultDisk;
use jeton_wal::{Batch, Error, Journal, Slot};

use super::harness::{append, drive, flush_one, log, one, options, read_all, rng, stage};

const LOGS: u16 = 3;

/// What a workload tried, and what was acknowledged.
#[derive(Default, Clone)]
struct History {
    tried: BTreeMap<(u16, u64), Vec<u8>>,
    acknowledged: BTreeMap<(u16, u64), Vec<u8>>,
    trim_tried: BTreeMap<u16, u64>,
    trim_acknowledged: BTreeMap<u16, u64>,
}

/// Batches of all sizes, trims, and several segments. Ends early when the disk fails.
fn work(
    journal: &mut Journal<FaultDisk>,
    history: &mut History,
    seed: u64,
    steps: usize,
) -> Result<(), Error> {
    let mut random = rng(seed);
    for _ in 0..steps {
        if random().is_multiple_of(5) {
            let number = (random() % u64::from(LOGS)) as u16;
            let through = journal.extent(log(number))?.end().0.saturating_sub(random() % 4);
            let tried = history.trim_tried.entry(number).or_default();
            *tried = through.max(*tried);
            let frame = match journal.trim(log(number), Slot(through)) {
                Err(Error::Busy(_)) => None,
                other => Some(other?),
            };
            drive(journal).map_err(|fatal| Error::Unknown(fatal.0))?;
            if frame.is_some_and(|frame| frame <= journal.durable()) {
                let acknowledged = history.trim_acknowledged.entry(number).or_default();
                *acknowledged = through.max(*acknowledged);
            }
            continue;
        }
        let mut batch = Batch::new();
        let mut next: BTreeMap<u16, u64> = BTreeMap::new();
        for _ in 0..1 + random() % 4 {
            let number = (random() % u64::from(LOGS)) as u16;
            let end = journal.extent(log(number))?.end().0;
            let slot = next.entry(number).or_insert(end);
            *slot += 1;
            let entry = vec![random() as u8; (random() % 1500) as usize];
            batch.push(log(number), Slot(*slot), &entry);
            history.tried.insert((number, *slot), entry);
        }
        append(journal, &batch)?;
        for (its_log, slot, entry) in batch.iter() {
            history.acknowledged.insert((its_log.0, slot.0), entry.to_vec());
        }
    }
    Ok(())
}

/// What is there must lie between what was acknowledged and what was tried.
fn check(journal: &mut Journal<FaultDisk>, history: &History, context: &str) {
    for number in 0..LOGS {
        let extent = journal.extent(log(number)).unwrap();
        let acknowledged = history.trim_acknowledged.get(&number).copied().unwrap_or(0);
        let tried = history.trim_tried.get(&number).copied().unwrap_or(0);
        assert!((acknowledged..=tried).contains(&extent.trimmed.0), "{context}: {extent:?}");
        let found = read_all(journal, number);
        let slots: Vec<u64> = found.iter().map(|(slot, _)| *slot).collect();
        let expected: Vec<u64> = (extent.trimmed.0 + 1..=extent.last.0).collect();
        assert_eq!(slots, expected, "{context}: log {number}");
        let found: BTreeMap<u64, Vec<u8>> = found.into_iter().collect();
        for (slot, entry) in &found {
            assert_eq!(
                Some(entry),
                history.tried.get(&(number, *slot)),
                "{context}: log {number} slot {slot}"
            );
        }
        for (&(_, slot), entry) in history.acknowledged.range((number, extent.trimmed.0 + 1)..(number + 1, 0))
        {
            assert_eq!(found.get(&slot), Some(entry), "{context}: log {number} slot {slot} was acknowledged");
        }
        for slot in [extent.trimmed.0, extent.last.0] {
            let refused = stage(journal, &one(number, slot, b"delayed"));
            assert!(matches!(refused, Err(Error::OutOfOrder(_))), "{context}: log {number} slot {slot}");
        }
    }
}

/// Takes over what a recovery has found: it counts as acknowledged, and what was cut was never there.
fn adopt(journal: &Journal<FaultDisk>, history: &mut History) {
    for number in 0..LOGS {
        let end = journal.extent(log(number)).unwrap().end().0;
        history.tried.retain(|&(its, slot), _| its != number || slot <= end);
        for (slot, entry) in read_all(journal, number) {
            history.acknowledged.insert((number, slot), entry);
        }
    }
}

#[test]
fn acknowledged_appends_survive_a_crash_anywhere() {
    const STEPS: usize = 70;
    let disk = FaultDisk::new();
    let mut journal = Journal::open(disk.clone(), options()).unwrap();
    work(&mut journal, &mut History::default(), 1, STEPS).unwrap();
    let operations = disk.operations();
    assert!(disk.bytes("log/0000000001.log").is_none(), "the workload releases segments");
    drop(journal);
    for at in 1..=operations {
        for seed in 0..4 {
            let context = format!("power fails at operation {at}, seed {seed}");
            let mut random = rng(at * 1000 + seed);
            let mut disk = FaultDisk::new();
            disk.die_at(at);
            let mut history = History::default();
            if let Ok(mut journal) = Journal::open(disk.clone(), options()) {
                let ended = work(&mut journal, &mut history, 1, STEPS);
                assert!(ended.is_err() || at == operations, "{context}");
            }
            // The power fails again soon: during recovery, or a little later.
            for round in 0..3 {
                disk = disk.crash(&mut random);
                let last = round == 2;
                if !last {
                    disk.die_at(1 + random() % 12);
                }
                match Journal::open(disk.clone(), options()) {
                    Ok(mut journal) => {
                        check(&mut journal, &history, &context);
                        adopt(&journal, &mut history);
                        let worked = work(&mut journal, &mut history, seed, if last { 20 } else { 1 });
                        assert!(worked.is_ok() || !last, "{context}: {worked:?}");
                    }
                    Err(error) => assert!(!last, "{context}: {error}"),
                }
            }
            let mut journal = Journal::open(disk.crash(&mut random), options()).unwrap();
            check(&mut journal, &history, &context);
        }
    }
}

#[test]
fn a_frame_in_the_page_cache_is_synced_before_it_is_read() {
    let disk = FaultDisk::new();
    let mut journal = Journal::open(disk.clone(), options()).unwrap();
    append(&mut journal, &one(1, 1, b"one")).unwrap();
    stage(&mut journal, &one(1, 2, b"two")).unwrap();
    // The write succeeds, the sync does not: killed in between.
    disk.fail_at(2, std::io::ErrorKind::Interrupted);
    assert!(flush_one(&mut journal).is_err());
    drop(journal);
    let journal = Journal::open(disk.clone(), options()).unwrap();
    assert_eq!(read_all(&journal, 1).len(), 2, "the page cache has it");
    for seed in 0..20 {
        let after = disk.copy_unsynced().crash(&mut rng(seed));
        let journal = Journal::open(after, options()).unwrap();
        assert_eq!(read_all(&journal, 1).len(), 2, "seed {seed}: it was read, and is gone");
    }
}
