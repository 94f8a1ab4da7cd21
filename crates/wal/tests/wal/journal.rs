//! The journal: appends, trims, reservations, and what it refuses.

use jeton_wal::disk::FaultDisk;
use jeton_wal::{Batch, Error, Extent, FrameNumber, Journal, Options, Reservation, Slot};

use super::harness::{
    SEGMENT_BYTES, append, drive, flush_one, log, one, options, read_all, reserve, rng, segments, stage,
};

#[test]
fn append_at_another_slot_is_refused() {
    let disk = FaultDisk::new();
    let mut journal = Journal::open(disk.clone(), options()).unwrap();
    append(&mut journal, &one(1, 1, b"first")).unwrap();
    append(&mut journal, &one(1, 2, b"second")).unwrap();
    let mut twice = one(1, 3, b"third");
    twice.push(log(1), Slot(3), b"third again");
    let batches =
        [one(1, 0, b"x"), one(1, 1, b"x"), one(1, 2, b"x"), one(1, 4, b"x"), one(2, 2, b"x"), twice];
    for reopened in [false, true] {
        if reopened {
            drop(journal);
            journal = Journal::open(disk.clone(), options()).unwrap();
        }
        for batch in &batches {
            let refused = stage(&mut journal, batch);
            assert!(matches!(refused, Err(Error::OutOfOrder(_))), "{batch:?}: {refused:?}");
        }
        drive(&mut journal).unwrap();
        assert_eq!(read_all(&journal, 1), [(1, b"first".to_vec()), (2, b"second".to_vec())]);
    }
    append(&mut journal, &one(1, 3, b"third")).unwrap();
}

#[test]
fn readers_see_durable_entries_only() {
    let mut journal = Journal::open(FaultDisk::new(), options()).unwrap();
    let frame = stage(&mut journal, &one(1, 1, b"first")).unwrap();
    let mut flush = journal.take_flush().unwrap();
    let next = stage(&mut journal, &one(1, 2, b"second")).unwrap();
    assert!(next > frame, "a frame that was taken is not extended");
    assert_eq!(journal.extent(log(1)).unwrap(), Extent::default());
    assert_eq!(read_all(&journal, 1), []);
    flush.run();
    assert_eq!(journal.complete(flush), Ok(frame));
    assert_eq!(read_all(&journal, 1), [(1, b"first".to_vec())]);
    assert_eq!(journal.extent(log(1)).unwrap().last, Slot(1));
}

#[test]
fn trim_takes_effect_when_it_is_durable() {
    let mut journal = Journal::open(FaultDisk::new(), options()).unwrap();
    append(&mut journal, &one(1, 1, b"old")).unwrap();
    journal.trim(log(1), Slot(5)).unwrap();
    assert!(matches!(stage(&mut journal, &one(1, 2, b"late")), Err(Error::OutOfOrder(_))));
    assert_eq!(read_all(&journal, 1).len(), 1);
    drive(&mut journal).unwrap();
    assert_eq!(read_all(&journal, 1), []);
    assert_eq!(journal.extent(log(1)).unwrap(), Extent { trimmed: Slot(5), last: Slot(1) });
    for lower in [0, 3, 5] {
        journal.trim(log(1), Slot(lower)).unwrap();
        assert!(!journal.has_flush(), "a lower trim point writes nothing");
    }
    append(&mut journal, &one(1, 6, b"next")).unwrap();
    assert_eq!(read_all(&journal, 1), [(6, b"next".to_vec())]);
}

#[test]
fn a_reader_is_a_snapshot() {
    let disk = FaultDisk::new();
    let mut journal = Journal::open(disk.clone(), options()).unwrap();
    for slot in 1..=60 {
        append(&mut journal, &one(1, slot, &[slot as u8; 3000])).unwrap();
    }
    let reader = journal.reader().unwrap();
    for slot in 61..=200 {
        append(&mut journal, &one(1, slot, &[slot as u8; 3000])).unwrap();
        journal.trim(log(1), Slot(slot)).unwrap();
    }
    drive(&mut journal).unwrap();
    assert!(!segments(&disk).contains(&"log/0000000001.log".to_owned()), "segments were released");
    let mut next = 1;
    let read = reader.for_each(|_, slot, entry| {
        assert_eq!((slot.0, entry), (next, &[next as u8; 3000][..]));
        next += 1;
        Ok::<_, Error>(())
    });
    assert_eq!((read, next), (Ok(()), 61));
}

#[test]
fn segments_are_released_and_reused() {
    let disk = FaultDisk::new();
    let mut journal = Journal::open(disk.clone(), options()).unwrap();
    // About forty segments; what is kept fits into one.
    for slot in 1..=1000 {
        append(&mut journal, &one(1, slot, &[7; 2000])).unwrap();
        if slot % 5 == 0 {
            journal.trim(log(1), Slot(slot - 2)).unwrap();
        }
    }
    drive(&mut journal).unwrap();
    let files = jeton_wal::disk::Disk::list(&disk, "log").unwrap();
    assert!(files.len() <= 5, "segments pile up: {files:?}");
    drop(journal);
    let mut journal = Journal::open(disk, options()).unwrap();
    assert_eq!(journal.extent(log(1)).unwrap(), Extent { trimmed: Slot(998), last: Slot(1000) });
    assert_eq!(read_all(&journal, 1).len(), 2);
    for slot in [3, 998, 1000] {
        assert!(matches!(stage(&mut journal, &one(1, slot, b"late")), Err(Error::OutOfOrder(_))));
    }
}

#[test]
fn an_untrimmed_log_keeps_the_segments_of_all() {
    let disk = FaultDisk::new();
    let mut journal = Journal::open(disk.clone(), options()).unwrap();
    append(&mut journal, &one(2, 1, b"kept")).unwrap();
    for slot in 1..=200 {
        append(&mut journal, &one(1, slot, &[7; 2000])).unwrap();
        journal.trim(log(1), Slot(slot)).unwrap();
    }
    drive(&mut journal).unwrap();
    assert!(segments(&disk).len() > 5);
    journal.trim(log(2), Slot(1)).unwrap();
    drive(&mut journal).unwrap();
    assert!(segments(&disk).len() <= 2, "{:?}", segments(&disk));
}

#[test]
fn a_trimmed_log_keeps_its_last_slot() {
    let disk = FaultDisk::new();
    let mut journal = Journal::open(disk.clone(), options()).unwrap();
    for slot in 1..=7 {
        append(&mut journal, &one(1, slot, b"x")).unwrap();
    }
    journal.trim(log(1), Slot(9)).unwrap();
    // Another log fills segments until only the trim point of the first is left.
    for slot in 1..=200 {
        append(&mut journal, &one(2, slot, &[1; 3000])).unwrap();
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
fn batches_above_the_limits_are_refused() {
    let mut journal = Journal::open(FaultDisk::new(), options()).unwrap();
    let max = options().entry_bytes_max();
    let mut batch = one(1, 1, b"good");
    batch.push(log(1), Slot(2), &vec![0; max + 1]);
    assert!(matches!(append(&mut journal, &batch), Err(Error::TooLarge(_))));
    for (entries, bytes) in [(1, SEGMENT_BYTES as usize), (usize::MAX, usize::MAX)] {
        assert!(matches!(journal.reserve(entries, bytes), Err(Error::TooLarge(_))));
    }
    drive(&mut journal).unwrap();
    assert_eq!(journal.durable(), FrameNumber::ZERO);
    assert_eq!(journal.extent(log(1)).unwrap(), Extent::default());
    append(&mut journal, &one(1, 1, &vec![3; max])).unwrap();
    assert_eq!(read_all(&journal, 1)[0].1.len(), max);
    assert!(matches!(journal.trim(log(1), Slot(u64::MAX)), Err(Error::Invalid(_))));
}

#[test]
fn logs_are_limited() {
    let mut journal = Journal::open(FaultDisk::new(), options()).unwrap();
    let mut number = 0;
    let error = loop {
        if let Err(error) = append(&mut journal, &one(number, 1, b"x")) {
            break error;
        }
        number += 1;
        assert!(number < 10_000);
    };
    assert!(matches!(error, Error::TooLarge(_)), "{error}");
    assert!(matches!(journal.trim(log(number), Slot(1)), Err(Error::TooLarge(_))));
    // The existing logs continue, and all trim points fit into the start of a segment.
    for slot in 2..200 {
        append(&mut journal, &one(0, slot, &[0; 2000])).unwrap();
    }
    assert_eq!(journal.extent(log(number - 1)).unwrap().last, Slot(1));
}

#[test]
fn reserved_space_is_there_on_a_full_disk() {
    let disk = FaultDisk::new();
    let mut journal = Journal::open(disk.clone(), options()).unwrap();
    let mut reservations: Vec<Reservation> = Vec::new();
    let batch = |index: usize| one((index % 5) as u16, index as u64 / 5 + 1, &[index as u8; 700]);
    loop {
        match reserve(&mut journal, &batch(0)) {
            Ok(reservation) => reservations.push(reservation),
            Err(Error::Busy(_)) if journal.has_task() => drive(&mut journal).unwrap(),
            Err(Error::Busy(_)) => break,
            Err(other) => panic!("{other}"),
        }
    }
    assert!(reservations.len() > 10);
    disk.set_free_space(Some(0));
    for (index, reservation) in reservations.into_iter().enumerate() {
        journal.append(&batch(index), reservation).unwrap();
        // Each in a frame of its own, which takes the most space.
        flush_one(&mut journal).unwrap();
    }
}

#[test]
fn reservations_hold_at_the_ends_of_segments() {
    let max = options().entry_bytes_max() as u64;
    for seed in 0..300 {
        let mut random = rng(seed);
        let disk = FaultDisk::new();
        let mut journal = Journal::open(disk.clone(), options()).unwrap();
        // Starts anywhere in a segment, with or without the next one, with few logs or many.
        for number in 0..random() % 60 {
            append(&mut journal, &one(number as u16, 1, &vec![0; (random() % 2000) as usize])).unwrap();
        }
        let mut next_log = 1000;
        let mut reserved = Vec::new();
        let mut refused = 0;
        while refused < 3 {
            // New logs, each of which also takes space at the start of the next segment.
            let len = if random().is_multiple_of(4) { max - random() % 100 } else { random() % 300 };
            let mut batch = Batch::new();
            for _ in 0..1 + random() % 3 {
                batch.push(log(next_log), Slot(1), &vec![1; (len / 3) as usize]);
                next_log += 1;
            }
            batch.push(log(next_log), Slot(1), &vec![1; len as usize % max as usize]);
            next_log += 1;
            match reserve(&mut journal, &batch) {
                Ok(reservation) => reserved.push((batch, reservation)),
                Err(Error::Busy(_) | Error::TooLarge(_)) => {
                    refused += 1;
                    drive(&mut journal).unwrap();
                }
                Err(other) => panic!("{other}"),
            }
        }
        disk.set_free_space(Some(0));
        // Trims take the headroom, and nothing of what is reserved.
        for through in (1..).map(Slot) {
            if journal.trim(log(999), through).is_err() {
                break;
            }
            flush_one(&mut journal).unwrap();
        }
        while !reserved.is_empty() {
            let (batch, reservation) = reserved.swap_remove(random() as usize % reserved.len());
            match journal.append(&batch, reservation) {
                Ok(_) => {}
                // Too many logs, which is not about space.
                Err(Error::TooLarge(text)) if text.contains("logs") => {}
                Err(other) => panic!("seed {seed}: {other}"),
            }
            if random().is_multiple_of(2) && journal.has_flush() {
                flush_one(&mut journal).unwrap();
            }
        }
        while journal.has_flush() {
            flush_one(&mut journal).unwrap();
        }
        drop(journal);
        Journal::open(disk, options()).unwrap();
    }
}

#[test]
fn reservations_hold_if_every_frame_wastes_a_block() {
    // Larger segments: the largest record is larger than the headroom and cannot hide in it.
    let options = Options::small(1 << 20);
    for seed in 0..60 {
        let mut random = rng(seed);
        let disk = FaultDisk::new();
        let mut journal = Journal::open(disk.clone(), options.clone()).unwrap();
        let logs = 1 + (random() % 2000) as usize;
        let mut slots = vec![0; logs];
        let mut batch_of = |number: usize, len: usize| {
            slots[number] += 1;
            one(number as u16, slots[number], &vec![1; len])
        };
        for number in 0..logs {
            stage(&mut journal, &batch_of(number, 10)).unwrap();
        }
        for _ in 0..random() % 256 {
            append(&mut journal, &batch_of(0, 10)).unwrap();
        }
        // One byte more than whole blocks: the header of the frame, and the record besides its entry.
        let wasteful = 31 * 4096 - 40 - (4 + 1 + 1 + 1 + 2 + 3) + 1;
        let mut reserved = Vec::new();
        let mut refused = 0;
        while refused < 2 {
            match journal.reserve(1, wasteful) {
                Ok(reservation) => reserved.push(reservation),
                Err(_) => {
                    refused += 1;
                    drive(&mut journal).unwrap();
                }
            }
        }
        disk.set_free_space(Some(0));
        for through in (1..).map(Slot) {
            if journal.trim(log(3000), through).is_err() {
                break;
            }
            flush_one(&mut journal).unwrap();
        }
        for reservation in reserved {
            journal.append(&batch_of(0, wasteful), reservation).unwrap();
            flush_one(&mut journal).unwrap();
        }
    }
}

#[test]
fn headroom_is_for_trims() {
    let disk = FaultDisk::new();
    let mut journal = Journal::open(disk.clone(), options()).unwrap();
    disk.set_free_space(Some(0));
    let mut slot = 0;
    while let Ok(()) = append(&mut journal, &one(1, slot + 1, &[0; 3000])) {
        slot += 1;
    }
    assert!(journal.reserve(1, 1000).is_err());
    let reservation = journal.reserve_headroom(1, 1000, 0).unwrap();
    journal.append(&one(1, slot + 1, &[0; 1000]), reservation).unwrap();
    journal.trim(log(1), Slot(slot)).unwrap();
    drive(&mut journal).unwrap();
    assert_eq!(read_all(&journal, 1).len(), 1);
}
