//! The power fails during every single operation of a workload of sessions: written, trimmed, retired, and carried from segment to segment.

use std::collections::BTreeMap;

use jeton_register::disk::FaultDisk;
use jeton_register::embedded::{Fatal, Journal};
use jeton_register::{Batch, Extent, Failure, Log, Slot, Space, Written};

use super::support::{chance, drive, log, one, options, write};

/// What a workload tried, and what it was told.
#[derive(Default, Clone)]
struct Record {
    tried: BTreeMap<(u128, u64), Vec<u8>>,
    told: BTreeMap<(u128, u64), Vec<u8>>,
    trim_tried: BTreeMap<u128, u64>,
    trim_told: BTreeMap<u128, u64>,
    retire_tried: u128,
    retire_told: u128,
    /// The sessions so far, and the slots of the partition beside them.
    sessions: u128,
    slots: u64,
}

fn unknown(fatal: Fatal) -> Failure {
    Failure::Unknown(fatal.0)
}

/// Ends early when the disk does.
fn work(
    journal: &mut Journal<FaultDisk>,
    record: &mut Record,
    seed: u64,
    steps: usize,
) -> Result<(), Failure> {
    let mut random = chance(seed);
    for _ in 0..steps {
        match random() % 8 {
            0 => {
                let number = 1 + u128::from(random()) % record.sessions.max(1);
                let through = 1 + random() % 130;
                let tried = record.trim_tried.entry(number).or_default();
                *tried = through.max(*tried);
                let staged = journal.trim(Log::transaction(number), Slot(through));
                drive(journal).map_err(unknown)?;
                if staged? <= journal.durable() {
                    let told = record.trim_told.entry(number).or_default();
                    *told = through.max(*told);
                }
            }
            1 => {
                // Sessions live for a while: long enough to be carried.
                let below = record.sessions.saturating_sub(8);
                record.retire_tried = below.max(record.retire_tried);
                let staged = journal.retire(Space::Transaction, below);
                drive(journal).map_err(unknown)?;
                if staged? <= journal.durable() {
                    record.retire_told = below.max(record.retire_told);
                }
            }
            2..=4 => {
                record.sessions += 1;
                let mut batch = Batch::new();
                for _ in 0..1 + random() % 3 {
                    let number = record.sessions.saturating_sub(u128::from(random() % 3)).max(1);
                    let slot = Slot(1 + 64 * (random() % 3) + random() % 2);
                    let value = vec![random() as u8; (random() % 400) as usize];
                    let free = !record.tried.contains_key(&(number, slot.0))
                        && slot.0 > record.trim_tried.get(&number).copied().unwrap_or(0);
                    if free && number >= record.retire_tried {
                        record.tried.insert((number, slot.0), value.clone());
                        batch.push(Log::transaction(number), slot, &value);
                    }
                }
                let written = write(journal, &batch)?;
                assert!(written.iter().all(|written| *written == Written::Fresh), "{written:?}");
                for (log, slot, value) in batch.iter() {
                    record.told.insert((log.id, slot.0), value.to_vec());
                }
            }
            _ => {
                // A partition beside them turns the segments over.
                record.slots += 1;
                write(journal, &one(1, record.slots, &vec![1; 6000]))?;
                let staged = journal.trim(log(1), Slot(record.slots));
                drive(journal).map_err(unknown)?;
                staged?;
            }
        }
    }
    Ok(())
}

/// What is there must lie between what was told and what was tried.
fn check(journal: &mut Journal<FaultDisk>, record: &Record, context: &str) {
    let mut below = 0;
    for number in 1..=record.sessions + 3 {
        let its_log = Log::transaction(number);
        let extent = journal.extent(its_log).unwrap();
        if extent == Extent::RETIRED {
            below = number + 1;
            let written = write(journal, &{
                let mut batch = Batch::new();
                batch.push(its_log, Slot(500), b"sleeper");
                batch
            });
            assert_eq!(written.unwrap(), [Written::Trimmed], "{context}: session {number}");
            continue;
        }
        assert!(number >= record.retire_told, "{context}: session {number} was retired");
        let told = record.trim_told.get(&number).copied().unwrap_or(0);
        let tried = record.trim_tried.get(&number).copied().unwrap_or(0);
        let trimmed = extent.trimmed;
        assert!((told..=tried).contains(&trimmed.0), "{context}: {extent:?}, told {told}, tried {tried}");
        let there = journal.read(its_log, trimmed.next(), 100).unwrap().run().unwrap();
        let there: BTreeMap<u64, Vec<u8>> =
            there.into_iter().map(|(slot, value)| (slot.0, value.to_vec())).collect();
        for (slot, value) in &there {
            let tried = record.tried.get(&(number, *slot));
            assert_eq!(Some(value), tried, "{context}: session {number} slot {slot}");
        }
        for (&(_, slot), value) in record.told.range((number, trimmed.0 + 1)..(number + 1, 0)) {
            assert_eq!(
                there.get(&slot),
                Some(value),
                "{context}: session {number} slot {slot} was acknowledged"
            );
            assert!(extent.last.0 >= slot, "{context}");
        }
    }
    assert!(below <= record.retire_tried, "{context}: {below} are retired, tried {}", record.retire_tried);
}

#[test]
fn whatever_the_power_interrupts_sessions_are_there_or_retired() {
    const STEPS: usize = 220;
    let disk = FaultDisk::new();
    let mut journal = Journal::open(disk.clone(), options()).unwrap();
    let mut record = Record::default();
    work(&mut journal, &mut record, 1, STEPS).unwrap();
    check(&mut journal, &record, "without a crash");
    let operations = disk.operations();
    let first = journal.read(Log::transaction(record.sessions - 7), Slot(1), 1);
    assert!(first.is_ok() && record.retire_told > 30, "the workload retires");
    assert!(disk.bytes("log/0000000008.log").is_none(), "the workload turns segments over");
    drop(journal);
    for at in 1..=operations {
        for seed in 0..2 {
            let context = format!("power fails at operation {at}, seed {seed}");
            let mut random = chance(at * 1000 + seed);
            let disk = FaultDisk::new();
            disk.die_at(at);
            let mut record = Record::default();
            if let Ok(mut journal) = Journal::open(disk.clone(), options()) {
                let ended = work(&mut journal, &mut record, 1, STEPS);
                assert!(ended.is_err() || at >= operations, "{context}");
            }
            let mut disk = disk.crash(&mut random);
            // Dies again soon: while it recovers, or a little later, perhaps while it carries.
            disk.die_at(1 + random() % 12);
            if let Ok(mut journal) = Journal::open(disk.clone(), options()) {
                let _ = drive(&mut journal);
            }
            disk = disk.crash(&mut random);
            for life in 0..2 {
                let mut journal = match Journal::open(disk.clone(), options()) {
                    Ok(journal) => journal,
                    Err(error) => panic!("{context}, life {life}: {error}"),
                };
                check(&mut journal, &record, &context);
                // The next life goes on above everything that was ever tried.
                record.sessions += 5;
                record.slots += 5;
                work(&mut journal, &mut record, seed, 20).unwrap();
                drop(journal);
                disk = disk.crash(&mut random);
            }
        }
    }
}
