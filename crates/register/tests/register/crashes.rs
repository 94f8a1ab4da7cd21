//! The power fails during every single operation of a workload, and what is left is torn in many ways.

use std::collections::BTreeMap;

use bytes::Bytes;
use jeton_register::disk::FaultDisk;
use jeton_register::embedded::{Embedded, Journal};
use jeton_register::{Batch, Failure, Registers, Row, Slot, Written, block_on};

use super::support::{chance, drive, log, one, options, read_all, stage, write};

const LOGS: u16 = 3;

/// What a workload tried, and what it was told.
#[derive(Default, Clone)]
struct Record {
    tried: BTreeMap<(u16, u64), Vec<u8>>,
    told: BTreeMap<(u16, u64), Vec<u8>>,
    trim_tried: BTreeMap<u16, u64>,
    trim_told: BTreeMap<u16, u64>,
    next: BTreeMap<u16, u64>,
}

/// Several rolls of segments, several trims, batches of all sizes. Ends early when the disk does.
fn work(
    journal: &mut Journal<FaultDisk>,
    record: &mut Record,
    seed: u64,
    steps: usize,
) -> Result<(), Failure> {
    let mut random = chance(seed);
    for _ in 0..steps {
        if random().is_multiple_of(5) {
            let number = (random() % u64::from(LOGS)) as u16;
            let next = record.next.get(&number).copied().unwrap_or(1);
            let through = next.saturating_sub(1 + random() % 4);
            let tried = record.trim_tried.entry(number).or_default();
            *tried = through.max(*tried);
            match journal.trim(log(number), Slot(through)) {
                Err(Failure::Busy(_)) => {}
                other => drop(other?),
            }
            drive(journal).map_err(|fatal| Failure::Unknown(fatal.0))?;
            let told = record.trim_told.entry(number).or_default();
            *told = through.max(*told);
            continue;
        }
        let mut batch = Batch::new();
        for _ in 0..1 + random() % 4 {
            let number = (random() % u64::from(LOGS)) as u16;
            let next = record.next.entry(number).or_insert(1);
            let slot = *next + u64::from(random().is_multiple_of(7));
            *next = slot + 1;
            let value = vec![random() as u8; (random() % 1500) as usize];
            batch.push(log(number), Slot(slot), &value);
            record.tried.insert((number, slot), value);
        }
        let written = write(journal, &batch)?;
        assert!(written.iter().all(|written| *written == Written::Fresh), "{written:?}");
        for (its_log, slot, value) in batch.iter() {
            record.told.insert((its_log.id as u16, slot.0), value.to_vec());
        }
    }
    Ok(())
}

/// What is there must lie between what was told and what was tried.
fn check(journal: &mut Journal<FaultDisk>, record: &Record, context: &str) {
    for number in 0..LOGS {
        let extent = journal.extent(log(number)).unwrap();
        let told = record.trim_told.get(&number).copied().unwrap_or(0);
        let tried = record.trim_tried.get(&number).copied().unwrap_or(0);
        assert!(
            (told..=tried).contains(&extent.trimmed.0),
            "{context}: {extent:?}, told {told}, tried {tried}"
        );
        let there: BTreeMap<u64, Bytes> =
            read_all(journal, number).into_iter().map(|(slot, value)| (slot.0, value)).collect();
        for (slot, value) in &there {
            let tried = record.tried.get(&(number, *slot)).map(Vec::as_slice);
            assert_eq!(Some(&value[..]), tried, "{context}: log {number} slot {slot}");
        }
        for (&(_, slot), value) in record.told.range((number, extent.trimmed.0 + 1)..(number + 1, 0)) {
            let got = there.get(&slot).map(|value| &value[..]);
            assert_eq!(got, Some(value.as_slice()), "{context}: log {number} slot {slot} was acknowledged");
            assert!(extent.last.0 >= slot, "{context}");
        }
        for slot in 1..=extent.trimmed.0 {
            let written = write(journal, &one(number, slot, b"sleeper")).unwrap();
            assert_eq!(written, [Written::Trimmed], "{context}: log {number} slot {slot}");
        }
    }
}

fn content(journal: &Journal<FaultDisk>) -> Vec<Vec<(Slot, Bytes)>> {
    (0..LOGS).map(|number| read_all(journal, number)).collect()
}

#[test]
fn whatever_the_power_interrupts_what_was_acknowledged_is_there() {
    const STEPS: usize = 70;
    let disk = FaultDisk::new();
    let mut journal = Journal::open(disk.clone(), options()).unwrap();
    work(&mut journal, &mut Record::default(), 1, STEPS).unwrap();
    let operations = disk.operations();
    assert!(disk.bytes("log/0000000001.log").is_none(), "the workload releases segments");
    drop(journal);
    for at in 1..=operations {
        for seed in 0..4 {
            let context = format!("power fails at operation {at}, seed {seed}");
            let mut random = chance(at * 1000 + seed);
            let disk = FaultDisk::new();
            disk.die_at(at);
            let mut record = Record::default();
            if let Ok(mut journal) = Journal::open(disk.clone(), options()) {
                let ended = work(&mut journal, &mut record, 1, STEPS);
                assert!(ended.is_err() || at == operations, "{context}");
            }
            let disk = disk.crash(&mut random);
            // Dies again soon: while it recovers, or a little later.
            disk.die_at(1 + random() % 12);
            let mut told = None;
            if let Ok(mut journal) = Journal::open(disk.clone(), options()) {
                told = Some(content(&journal));
                let _ = work(&mut journal, &mut record.clone(), seed, 1);
            }
            let disk = disk.crash(&mut random);
            let mut journal = match Journal::open(disk.clone(), options()) {
                Ok(journal) => journal,
                Err(error) => panic!("{context}: {error}"),
            };
            if let Some(told) = told {
                // What the first recovery showed to readers counts as acknowledged.
                for (number, registers) in told.into_iter().enumerate() {
                    for (slot, value) in registers {
                        record.told.insert((number as u16, slot.0), value.to_vec());
                    }
                }
            }
            // The step of the second life is not in the record: give its writes the benefit of the doubt.
            let mut record = with_second_life(record, seed);
            check(&mut journal, &record, &context);
            // The third life goes on where the log ends, above everything that was ever tried.
            for next in record.next.values_mut() {
                *next += 10;
            }
            work(&mut journal, &mut record, seed, 20).unwrap();
            drop(journal);
            let mut journal = Journal::open(disk.crash(&mut random), options()).unwrap();
            check(&mut journal, &record, &context);
        }
    }
}

/// What one step after recovery may have tried.
fn with_second_life(mut record: Record, seed: u64) -> Record {
    let mut journal = Journal::open(FaultDisk::new(), options()).unwrap();
    let mut after = record.clone();
    // On an empty journal the same step does the same, as far as the slots are free: they are above all others.
    let _ = work(&mut journal, &mut after, seed, 1);
    record.tried = after.tried;
    record.trim_tried = after.trim_tried;
    record.next = after.next;
    record
}

#[test]
fn what_a_killed_process_left_in_memory_is_durable_before_it_is_told() {
    let disk = FaultDisk::new();
    let mut journal = Journal::open(disk.clone(), options()).unwrap();
    write(&mut journal, &one(1, 1, b"one")).unwrap();
    stage(&mut journal, &one(1, 2, b"two")).unwrap();
    // The write comes through, the sync does not: killed in between.
    disk.fail_at(2, std::io::ErrorKind::Interrupted);
    let mut staged = journal.take_staged().unwrap();
    staged.persist();
    assert!(journal.settle(staged).is_err());
    drop(journal);
    let journal = Journal::open(disk.clone(), options()).unwrap();
    assert_eq!(read_all(&journal, 1).len(), 2, "the system still has it");
    for seed in 0..20 {
        let after = disk.copy_as_it_is().crash(&mut chance(seed));
        let journal = Journal::open(after, options()).unwrap();
        assert_eq!(read_all(&journal, 1).len(), 2, "seed {seed}: it was told, and is gone");
    }
}

#[test]
fn rows_survive_or_were_never_stored() {
    let put = |store: &Embedded<FaultDisk>, slot: u64| {
        let bytes = Bytes::from(vec![slot as u8; 3000]);
        block_on(store.put_row("row", Row { slot: Slot(slot), bytes }))
    };
    for at in 1..80 {
        for seed in 0..6 {
            let disk = FaultDisk::new();
            disk.die_at(at);
            let mut told = None;
            if let Ok(store) = Embedded::open_with(disk.clone(), options(), Box::new(|_| {})) {
                for slot in 1..=10 {
                    if put(&store, slot) == Ok(true) {
                        told = Some(slot);
                    }
                }
            }
            let store = Embedded::open(disk.crash(&mut chance(seed)), options()).unwrap();
            let row = block_on(store.get_row("row")).unwrap();
            let slot = row.as_ref().map(|row| row.slot.0);
            assert!(
                slot >= told && slot <= told.map_or(Some(1), |told| Some(told + 1)),
                "{slot:?}, told {told:?}"
            );
            if let Some(row) = row {
                assert!(
                    row.bytes.len() == 3000 && row.bytes.iter().all(|&byte| u64::from(byte) == row.slot.0)
                );
            }
        }
    }
}
