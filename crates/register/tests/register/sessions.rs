//! Dated logs on a disk in memory: retired, carried from the oldest segment to the newest, and how much they hold.

use super::support::{chance, drive, log, one, options, read_all, stage, write};
use jeton_register::disk::{Disk, FaultDisk};
use jeton_register::embedded::{Journal, Options};
use jeton_register::{Batch, Extent, Failure, Log, Slot, Space, Written};

fn session(number: u128, slot: u64, value: &[u8]) -> Batch {
    let mut batch = Batch::new();
    batch.push(Log::transaction(number), Slot(slot), value);
    batch
}

fn segments(disk: &FaultDisk) -> usize {
    disk.list("log").unwrap().iter().filter(|name| name.ends_with(".log")).count()
}

fn value_of(journal: &Journal<FaultDisk>, number: u128, slot: u64) -> Option<Vec<u8>> {
    let read = journal.read(Log::transaction(number), Slot(slot), 1).unwrap().run().unwrap();
    read.into_iter().find(|(its, _)| its.0 == slot).map(|(_, value)| value.to_vec())
}

#[test]
fn a_retirement_that_is_staged_refuses_writers_and_leaves_readers_alone() {
    let disk = FaultDisk::new();
    let mut journal = Journal::open(disk.clone(), options()).unwrap();
    write(&mut journal, &session(5, 1, b"old")).unwrap();
    let retired = journal.retire(Space::Transaction, 6).unwrap();
    let (written, until) = stage(&mut journal, &session(5, 2, b"late")).unwrap();
    assert_eq!((written.as_slice(), until), ([Written::Trimmed].as_slice(), retired));
    assert_eq!(journal.trim(Log::transaction(5), Slot(1)), Ok(retired), "a trim of it says no more");
    assert_eq!(journal.retire(Space::Transaction, 3), Ok(retired), "a lower mark waits for the higher");
    assert_eq!(value_of(&journal, 5, 1).as_deref(), Some(b"old".as_slice()));
    drive(&mut journal).unwrap();
    let gone = Failure::Trimmed { log: Log::transaction(5), through: Slot::MAX };
    assert_eq!(journal.read(Log::transaction(5), Slot(1), 1).unwrap_err(), gone);
    assert_eq!(journal.extent(Log::transaction(5)).unwrap(), Extent::RETIRED);
    assert!(matches!(journal.retire(Space::Partition, 6), Err(Failure::Invalid(_))));
}

#[test]
fn retired_sessions_let_their_segments_go_and_stay_retired() {
    let disk = FaultDisk::new();
    let mut journal = Journal::open(disk.clone(), options()).unwrap();
    for number in 1..=500 {
        write(&mut journal, &session(number, 1, &[1; 1000])).unwrap();
        journal.trim(Log::transaction(number), Slot(number as u64 % 3)).unwrap();
    }
    drive(&mut journal).unwrap();
    assert!(segments(&disk) > 3, "a third of them is needed");
    journal.retire(Space::Transaction, 501).unwrap();
    drive(&mut journal).unwrap();
    assert!(segments(&disk) <= 2, "{} segments", segments(&disk));
    // Nothing but the mark at the start of the segments says that they were ever there.
    for slot in 1..=400 {
        write(&mut journal, &one(1, slot, &[1; 1000])).unwrap();
        journal.trim(log(1), Slot(slot)).unwrap();
    }
    drive(&mut journal).unwrap();
    drop(journal);
    let mut journal = Journal::open(disk, options()).unwrap();
    for number in [1, 77, 500] {
        assert_eq!(write(&mut journal, &session(number, 9, b"late")).unwrap(), [Written::Trimmed]);
        assert_eq!(journal.extent(Log::transaction(number)).unwrap(), Extent::RETIRED);
    }
    assert_eq!(write(&mut journal, &session(501, 9, b"new")).unwrap(), [Written::Fresh]);
}

#[test]
fn sessions_do_not_hold_the_segments_of_others() {
    let disk = FaultDisk::new();
    let mut journal = Journal::open(disk.clone(), options()).unwrap();
    // A few sessions that live on, one of them with nothing but its trim point.
    for number in 1..=20 {
        write(&mut journal, &session(number, 65, &[number as u8; 300])).unwrap();
    }
    write(&mut journal, &session(21, 1, b"x")).unwrap();
    journal.trim(Log::transaction(21), Slot(64)).unwrap();
    let mut most = 0;
    for slot in 1..=2000 {
        assert_eq!(write(&mut journal, &one(1, slot, &[7; 1500])).unwrap(), [Written::Fresh]);
        if slot % 10 == 0 {
            journal.trim(log(1), Slot(slot - 5)).unwrap();
            drive(&mut journal).unwrap();
        }
        most = most.max(segments(&disk));
    }
    // Three megabytes went through; what is needed fits into one segment.
    assert!(most <= 7, "{most} segments of {} bytes", options().segment_bytes);
    for reopened in [false, true] {
        if reopened {
            drop(journal);
            journal = Journal::open(disk.clone(), options()).unwrap();
        }
        for number in 1..=20 {
            let expected = vec![number as u8; 300];
            assert_eq!(value_of(&journal, number, 65), Some(expected.clone()), "session {number}");
            let written = write(&mut journal, &session(number, 65, b"late")).unwrap();
            assert_eq!(written, [Written::Taken(expected.into())]);
        }
        let extent = Extent { trimmed: Slot(64), last: Slot(1) };
        assert_eq!(journal.extent(Log::transaction(21)).unwrap(), extent);
        assert_eq!(write(&mut journal, &session(21, 64, b"late")).unwrap(), [Written::Trimmed]);
        assert_eq!(read_all(&journal, 1).len(), 5);
    }
}

#[test]
fn what_is_carried_is_seen_all_the_while_and_goes_when_it_is_trimmed_on_the_way() {
    for seed in 0..30 {
        let mut random = chance(seed);
        let disk = FaultDisk::new();
        let mut journal = Journal::open(disk.clone(), options()).unwrap();
        for number in 1..=40 {
            write(&mut journal, &session(number, 1, &[number as u8; 100])).unwrap();
        }
        let mut retired = 0;
        let mut trimmed = Vec::new();
        for slot in 1..=400 {
            stage(&mut journal, &one(1, slot, &[7; 1500])).unwrap();
            let _ = journal.trim(log(1), Slot(slot));
            // One step of any kind, and in between a session is trimmed or retired.
            for _ in 0..4 {
                match random() % 4 {
                    0 | 1 => {
                        if let Some(mut staged) = journal.take_staged() {
                            staged.persist();
                            journal.settle(staged).unwrap();
                        }
                    }
                    2 => {
                        if let Some(mut errand) = journal.take_errand() {
                            errand.run();
                            journal.end_errand(errand).unwrap();
                        }
                    }
                    _ if slot > 100 && random().is_multiple_of(40) => {
                        let number = 1 + u128::from(random() % 40);
                        if random().is_multiple_of(4) {
                            let below = (retired + 1).min(number);
                            if journal.retire(Space::Transaction, below + 1).is_ok() {
                                retired = retired.max(below);
                            }
                        } else if journal.trim(Log::transaction(number), Slot(1)).is_ok() {
                            trimmed.push(number);
                        }
                    }
                    _ => {}
                }
            }
            for number in retired + 1..=40 {
                if !trimmed.contains(&number) {
                    let there = value_of(&journal, number, 1);
                    assert_eq!(there, Some(vec![number as u8; 100]), "seed {seed}, session {number}");
                }
            }
        }
        drive(&mut journal).unwrap();
        assert!(segments(&disk) <= 7, "seed {seed}: {} segments", segments(&disk));
        drop(journal);
        let mut journal = Journal::open(disk, options()).unwrap();
        for number in 1..=40 {
            let written = write(&mut journal, &session(number, 1, b"late")).unwrap().remove(0);
            if number <= retired || trimmed.contains(&number) {
                assert_eq!(written, Written::Trimmed, "seed {seed}, session {number}");
            } else {
                let value = vec![number as u8; 100];
                assert_eq!(written, Written::Taken(value.into()), "seed {seed}, session {number}");
            }
        }
    }
}

#[test]
fn a_value_from_a_time_of_larger_segments_stays_where_it_is() {
    let disk = FaultDisk::new();
    let large = Options::small(1 << 20);
    let mut journal = Journal::open(disk.clone(), large.clone()).unwrap();
    let value = vec![5; large.value_bytes_max()];
    write(&mut journal, &session(1, 1, &value)).unwrap();
    drop(journal);
    let mut journal = Journal::open(disk.clone(), options()).unwrap();
    for slot in 1..=2000 {
        write(&mut journal, &one(1, slot, &[7; 1500])).unwrap();
        journal.trim(log(1), Slot(slot)).unwrap();
    }
    drive(&mut journal).unwrap();
    assert_eq!(value_of(&journal, 1, 1), Some(value));
    journal.retire(Space::Transaction, 2).unwrap();
    drive(&mut journal).unwrap();
    assert!(segments(&disk) <= 2, "{} segments", segments(&disk));
}

#[test]
fn what_is_forgotten_while_it_is_looked_for_is_not_carried() {
    for retiring in [false, true] {
        let disk = FaultDisk::new();
        let mut journal = Journal::open(disk.clone(), options()).unwrap();
        let mut batch = Batch::new();
        for number in 1..=40 {
            batch.push(Log::transaction(number), Slot(1), &[number as u8; 100]);
        }
        write(&mut journal, &batch).unwrap();
        let mut forgotten = 0;
        for slot in 1..=400 {
            stage(&mut journal, &one(1, slot, &[7; 1500])).unwrap();
            journal.trim(log(1), Slot(slot)).unwrap();
            while let Some(mut staged) = journal.take_staged() {
                staged.persist();
                journal.settle(staged).unwrap();
            }
            // Between the look at a segment and what follows from it, one more session is on its way to be forgotten.
            while let Some(mut errand) = journal.take_errand() {
                errand.run();
                if slot > 100 && forgotten < 39 {
                    forgotten += 1;
                    if retiring {
                        journal.retire(Space::Transaction, forgotten + 1).unwrap();
                    } else {
                        journal.trim(Log::transaction(forgotten), Slot(1)).unwrap();
                    }
                }
                journal.end_errand(errand).unwrap();
                while let Some(mut staged) = journal.take_staged() {
                    staged.persist();
                    journal.settle(staged).unwrap();
                }
                // Nothing follows in the log on what forgets it: otherwise the log would not open, for as long as both are in it.
                Journal::open(disk.copy(), options()).unwrap();
            }
        }
        drive(&mut journal).unwrap();
        assert!(forgotten > 10 && segments(&disk) <= 7, "{forgotten}, {} segments", segments(&disk));
        drop(journal);
        let mut journal = Journal::open(disk, options()).unwrap();
        for number in 1..=40 {
            let written = write(&mut journal, &session(number, 1, b"late")).unwrap().remove(0);
            let is_taken = matches!(&written, Written::Taken(value) if **value == [number as u8; 100]);
            assert!(
                if number > forgotten { is_taken } else { written == Written::Trimmed },
                "{number}: {written:?}"
            );
        }
    }
}
