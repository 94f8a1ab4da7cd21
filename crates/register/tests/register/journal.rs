//! The journal on a disk in memory: what it answers, what it refuses, and how it goes on.

use super::support::{SEGMENT_BYTES, admit, chance, drive, log, one, options, read_all, stage, write};
use jeton_register::disk::FaultDisk;
use jeton_register::embedded::{GAP_SLOTS_MAX, Journal, OpenError, Options, Sequence};
use jeton_register::{Batch, Extent, Failure, Log, Permit, Slot, Space, Written};

#[test]
fn a_register_takes_one_value_for_ever() {
    let disk = FaultDisk::new();
    let mut journal = Journal::open(disk.clone(), options()).unwrap();
    assert_eq!(write(&mut journal, &one(1, 1, b"first")).unwrap(), [Written::Fresh]);
    let taken = [Written::Taken("first".into())];
    assert_eq!(write(&mut journal, &one(1, 1, b"second")).unwrap(), taken);
    drop(journal);
    let mut journal = Journal::open(disk, options()).unwrap();
    assert_eq!(write(&mut journal, &one(1, 1, b"third")).unwrap(), taken);
    assert_eq!(read_all(&journal, 1), [(Slot(1), "first".into())]);
}

#[test]
fn what_is_staged_is_known_to_writers_and_hidden_from_readers() {
    let mut journal = Journal::open(FaultDisk::new(), options()).unwrap();
    let (_, first) = stage(&mut journal, &one(1, 1, b"first")).unwrap();
    let mut flying = journal.take_staged().unwrap();
    // It is on its way: another writer learns the value, but may tell it only together with the first one.
    let (written, second) = stage(&mut journal, &one(1, 1, b"other")).unwrap();
    assert_eq!((written.as_slice(), second), ([Written::Taken("first".into())].as_slice(), first));
    assert_eq!(journal.extent(log(1)).unwrap(), Extent::default());
    assert_eq!(read_all(&journal, 1), []);
    flying.persist();
    assert_eq!(journal.settle(flying), Ok(first));
    assert_eq!(read_all(&journal, 1), [(Slot(1), "first".into())]);
    // Durable now: nothing to wait for.
    assert_eq!(stage(&mut journal, &one(1, 1, b"other")).unwrap().1, Sequence::ZERO);
}

#[test]
fn a_trim_that_is_staged_refuses_writers_and_leaves_readers_alone() {
    let mut journal = Journal::open(FaultDisk::new(), options()).unwrap();
    write(&mut journal, &one(1, 1, b"old")).unwrap();
    let trim = journal.trim(log(1), Slot(5)).unwrap();
    let (written, until) = stage(&mut journal, &one(1, 3, b"late")).unwrap();
    assert_eq!((written.as_slice(), until), ([Written::Trimmed].as_slice(), trim));
    assert_eq!(read_all(&journal, 1), [(Slot(1), "old".into())]);
    drive(&mut journal).unwrap();
    assert_eq!(
        journal.read(log(1), Slot(1), 1).unwrap_err(),
        Failure::Trimmed { log: log(1), through: Slot(5) }
    );
    assert_eq!(journal.extent(log(1)).unwrap(), Extent { trimmed: Slot(5), last: Slot(1) });
}

#[test]
fn segments_are_used_again_and_trimmed_registers_stay_refused() {
    let disk = FaultDisk::new();
    let mut journal = Journal::open(disk.clone(), options()).unwrap();
    let value = vec![7; 2000];
    // Enough for some forty segments; what is kept fits into one.
    for slot in 1..=1000 {
        assert_eq!(write(&mut journal, &one(1, slot, &value)).unwrap(), [Written::Fresh], "slot {slot}");
        if slot % 5 == 0 {
            journal.trim(log(1), Slot(slot - 2)).unwrap();
        }
    }
    drive(&mut journal).unwrap();
    let files = jeton_register::disk::Disk::list(&disk, "log").unwrap();
    assert!(files.len() <= 5, "segments pile up: {files:?}");
    drop(journal);
    let mut journal = Journal::open(disk, options()).unwrap();
    assert_eq!(journal.extent(log(1)).unwrap(), Extent { trimmed: Slot(998), last: Slot(1000) });
    assert_eq!(read_all(&journal, 1).len(), 2);
    assert_eq!(write(&mut journal, &one(1, 3, b"late")).unwrap(), [Written::Trimmed]);
    assert_eq!(write(&mut journal, &one(1, 998, b"late")).unwrap(), [Written::Trimmed]);
}

#[test]
fn a_log_that_is_trimmed_whole_keeps_its_last_slot() {
    let disk = FaultDisk::new();
    let mut journal = Journal::open(disk.clone(), options()).unwrap();
    write(&mut journal, &one(1, 7, b"x")).unwrap();
    journal.trim(log(1), Slot(9)).unwrap();
    // Another log turns the segments over until nothing of the first is left but its trim point.
    for slot in 1..=200 {
        write(&mut journal, &one(2, slot, &[1; 3000])).unwrap();
        journal.trim(log(2), Slot(slot)).unwrap();
    }
    drive(&mut journal).unwrap();
    assert!(disk.bytes("log/0000000001.log").is_none(), "the first segment was released");
    drop(journal);
    let journal = Journal::open(disk, options()).unwrap();
    assert_eq!(journal.extent(log(1)).unwrap(), Extent { trimmed: Slot(9), last: Slot(7) });
    assert_eq!(journal.extent(log(2)).unwrap(), Extent { trimmed: Slot(200), last: Slot(200) });
}

#[test]
fn what_is_beyond_the_limits_is_refused_and_changes_nothing() {
    let mut journal = Journal::open(FaultDisk::new(), options()).unwrap();
    let value_max = options().value_bytes_max();
    let mut batch = one(1, 1, b"good");
    batch.push(log(1), Slot(2), &vec![0; value_max + 1]);
    let too_large = |result: Result<_, Failure>| matches!(result, Err(Failure::TooLarge(_)));
    assert!(too_large(write(&mut journal, &batch)));
    let mut batch = one(1, 1, b"good");
    batch.push(log(1), Slot(GAP_SLOTS_MAX + 3), b"too far");
    assert!(too_large(write(&mut journal, &batch)));
    assert!(too_large(write(&mut journal, &one(9, u64::MAX, b"too far"))));
    assert!(too_large(journal.admit(1, SEGMENT_BYTES as usize).map(|_| Vec::new())));
    assert!(too_large(journal.admit(usize::MAX, usize::MAX).map(|_| Vec::new())));
    drive(&mut journal).unwrap();
    assert_eq!(journal.durable(), Sequence::ZERO);
    assert_eq!(journal.extent(log(1)).unwrap(), Extent::default());

    assert_eq!(write(&mut journal, &one(1, 1, &vec![3; value_max])).unwrap(), [Written::Fresh]);
    assert_eq!(write(&mut journal, &one(1, GAP_SLOTS_MAX + 2, b"just so")).unwrap(), [Written::Fresh]);
    assert_eq!(read_all(&journal, 1)[0].1.len(), value_max);
}

#[test]
fn a_batch_may_lead_far_as_long_as_no_step_in_it_does() {
    let mut journal = Journal::open(FaultDisk::new(), Options::small(16 << 20)).unwrap();
    let mut batch = Batch::new();
    for slot in (1..=10_000).step_by(2) {
        batch.push(log(1), Slot(slot), b"");
    }
    let (written, _) = stage(&mut journal, &batch).unwrap();
    assert!(written.iter().all(|written| *written == Written::Fresh));
}

#[test]
fn logs_are_limited() {
    let mut journal = Journal::open(FaultDisk::new(), options()).unwrap();
    let mut number = 0;
    let failure = loop {
        if let Err(failure) = write(&mut journal, &one(number, 1, b"x")) {
            break failure;
        }
        number += 1;
        assert!(number < 10_000);
    };
    assert!(matches!(failure, Failure::TooLarge(_)), "{failure}");
    // Those that are there go on, and the trim points of all fit into the start of a segment.
    for slot in 2..200 {
        write(&mut journal, &one(0, slot, &[0; 2000])).unwrap();
    }
    assert_eq!(journal.extent(log(number - 1)).unwrap().last, Slot(1));
}

#[test]
fn what_was_promised_is_taken_whatever_others_do() {
    let disk = FaultDisk::new();
    let mut journal = Journal::open(disk.clone(), options()).unwrap();
    // Promise until no more is promised, making no segment beyond the second.
    let mut permits: Vec<Permit> = Vec::new();
    let batch = |index: usize| one((index % 5) as u16, index as u64 / 5 + 1, &[index as u8; 700]);
    loop {
        match admit(&mut journal, &batch(0)) {
            Ok(permit) => permits.push(permit),
            Err(Failure::Busy(_)) if journal.wants_errand() => drive(&mut journal).unwrap(),
            Err(Failure::Busy(_)) => break,
            Err(other) => panic!("{other}"),
        }
    }
    assert!(permits.len() > 10);
    disk.set_room(Some(0));
    for (index, permit) in permits.into_iter().enumerate() {
        let (written, _) = journal.stage(&batch(index), permit).unwrap();
        assert_eq!(written, [Written::Fresh]);
        // Each in a frame of its own, which is what takes most room.
        let mut staged = journal.take_staged().unwrap();
        staged.persist();
        journal.settle(staged).unwrap();
    }
}

#[test]
fn promises_of_all_sizes_are_kept_at_the_ends_of_segments() {
    let value_max = options().value_bytes_max() as u64;
    for seed in 0..300 {
        let mut random = chance(seed);
        let disk = FaultDisk::new();
        let mut journal = Journal::open(disk.clone(), options()).unwrap();
        // Begins anywhere in a segment, with the next one made or not, with few logs or many.
        for number in 0..random() % 60 {
            write(&mut journal, &one(number as u16, 1, &vec![0; (random() % 2000) as usize])).unwrap();
        }
        let mut next_log = 1000;
        let mut promised = Vec::new();
        let mut refused = 0;
        while refused < 3 {
            // New logs all of them, each of which takes room at the start of the next segment as well.
            let len = if random().is_multiple_of(4) { value_max - random() % 100 } else { random() % 300 };
            let mut batch = Batch::new();
            for _ in 0..1 + random() % 3 {
                batch.push(log(next_log), Slot(1), &vec![1; (len / 3) as usize]);
                next_log += 1;
            }
            batch.push(log(next_log), Slot(1), &vec![1; len as usize % value_max as usize]);
            next_log += 1;
            match admit(&mut journal, &batch) {
                Ok(permit) => promised.push((batch, permit)),
                Err(Failure::Busy(_) | Failure::TooLarge(_)) => {
                    refused += 1;
                    drive(&mut journal).unwrap();
                }
                Err(other) => panic!("{other}"),
            }
        }
        disk.set_room(Some(0));
        // Trims take what is kept back for them, and not a byte of what was promised to others.
        for through in (1..).map(Slot) {
            if journal.trim(log(999), through).is_err() {
                break;
            }
            let mut staged = journal.take_staged().unwrap();
            staged.persist();
            journal.settle(staged).unwrap();
        }
        while !promised.is_empty() {
            let index = random() as usize % promised.len();
            let (batch, permit) = promised.swap_remove(index);
            match journal.stage(&batch, permit) {
                Ok((written, _)) => assert!(written.iter().all(|written| *written == Written::Fresh)),
                // That there are too many logs is not about room.
                Err(Failure::TooLarge(text)) if text.contains("logs") => {}
                Err(other) => panic!("seed {seed}: {other}"),
            }
            if random().is_multiple_of(2)
                && let Some(mut staged) = journal.take_staged()
            {
                staged.persist();
                journal.settle(staged).unwrap();
            }
        }
        // All of it can be made durable, and is found again.
        while let Some(mut staged) = journal.take_staged() {
            staged.persist();
            journal.settle(staged).unwrap();
        }
        drop(journal);
        Journal::open(disk, options()).unwrap();
    }
}

#[test]
fn promises_are_kept_when_every_frame_wastes_a_block_and_every_name_is_long() {
    let long = |number: u128| Log { space: Space::Partition, id: u128::MAX - number };
    // Larger segments: the largest record is larger than what is kept back for trims, and cannot hide in it.
    let options = Options::small(1 << 20);
    for seed in 0..60 {
        let mut random = chance(seed);
        let disk = FaultDisk::new();
        let mut journal = Journal::open(disk.clone(), options.clone()).unwrap();
        let logs = 1 + (random() % 2000) as usize;
        let mut slots = vec![0; logs];
        let mut batch_of = |number: usize, len: usize| {
            slots[number] += 1;
            let mut batch = Batch::new();
            batch.push(long(number as u128), Slot(slots[number]), &vec![1; len]);
            batch
        };
        // All logs, and then up to anywhere in a segment.
        for number in 0..logs {
            stage(&mut journal, &batch_of(number, 10)).unwrap();
        }
        for _ in 0..random() % 256 {
            write(&mut journal, &batch_of(0, 10)).unwrap();
        }
        // One byte more than whole blocks: the frame's header, and what the record takes besides its value.
        let wasteful = 32 * 4096 - 40 - (4 + 1 + 1 + 19 + 1 + 3) + 1;
        let mut promised = Vec::new();
        let mut refused = 0;
        while refused < 2 {
            match journal.admit(1, wasteful) {
                Ok(permit) => promised.push(permit),
                Err(_) => {
                    refused += 1;
                    drive(&mut journal).unwrap();
                }
            }
        }
        disk.set_room(Some(0));
        for through in (1..).map(Slot) {
            if journal.trim(long(1000), through).is_err() {
                break;
            }
            let mut staged = journal.take_staged().unwrap();
            staged.persist();
            journal.settle(staged).unwrap();
        }
        for permit in promised {
            journal.stage(&batch_of(0, wasteful), permit).unwrap();
            let mut staged = journal.take_staged().unwrap();
            staged.persist();
            journal.settle(staged).unwrap();
        }
    }
}

#[test]
fn an_old_version_and_a_wrong_length_are_named() {
    let disk = FaultDisk::new();
    drop(Journal::open(disk.clone(), options()).unwrap());
    let old = disk.copy();
    old.flip_bit("log/0000000001.log", 8, 0);
    let error = Journal::open(old, options()).err().unwrap();
    assert!(matches!(error, OpenError::Version { found: 3, expected: 2, .. }), "{error}");
    assert!(error.to_string().contains("log/0000000001.log"), "{error}");
    let mut bad = options();
    bad.segment_bytes = 100_000;
    assert!(matches!(Journal::open(disk, bad), Err(OpenError::Options(_))));
}
