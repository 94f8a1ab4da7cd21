//! A disk that refuses: no space, no permission, no file handles, no fsync.

use std::sync::mpsc;

use futures_executor::block_on;
use jeton_wal::disk::FaultDisk;
use jeton_wal::{Blob, Error, Journal, Slot, Wal};

use super::harness::{append, drive, log, one, options, read_all, reserve};

type Set = fn(&FaultDisk, bool);

const REFUSALS: [(&str, Set); 3] = [
    ("no space", |disk, on| disk.set_free_space(on.then_some(1000))),
    ("read-only", |disk, on| disk.set_read_only(on)),
    ("too many open files", |disk, on| disk.set_out_of_handles(on)),
];

#[test]
fn refusing_disk_stops_appends_only_until_it_recovers() {
    for (name, set) in REFUSALS {
        let disk = FaultDisk::new();
        let mut journal = Journal::open(disk.clone(), options()).unwrap();
        append(&mut journal, &one(1, 1, b"before")).unwrap();
        set(&disk, true);
        let mut last = 1;
        let error = loop {
            assert!(last < 100, "{name}: never refused");
            match append(&mut journal, &one(1, last + 1, &[0; 3000])) {
                Ok(()) => assert_ne!(name, "read-only"),
                // On a read-only disk even reserved space is not writable: the append waits.
                Err(Error::Unknown(_)) if name == "read-only" && last == 1 => {}
                Err(error) => break error,
            }
            last += 1;
        };
        assert!(matches!(&error, Error::Full(text) if !text.is_empty()), "{name}: {error}");
        for _ in 0..3 {
            let error = append(&mut journal, &one(1, last + 1, &[0; 3000])).unwrap_err();
            assert!(matches!(error, Error::Full(_)), "{name}: {error}");
        }
        assert_eq!(read_all(&journal, 1)[0].1, b"before", "{name}");
        assert!(journal.extent(log(1)).unwrap().last >= Slot(1), "{name}");
        assert_eq!(journal.fatal(), None, "{name}");

        set(&disk, false);
        // The first caller is still refused, and triggers the retry.
        let _ = reserve(&mut journal, &one(1, last + 1, b""));
        drive(&mut journal).unwrap();
        append(&mut journal, &one(1, last + 1, b"after")).unwrap();
        drop(journal);
        let journal = Journal::open(disk, options()).unwrap();
        assert_eq!(journal.extent(log(1)).unwrap().last, Slot(last + 1), "{name}");
    }
}

#[test]
fn full_wal_is_usable_again_after_a_trim() {
    let disk = FaultDisk::new();
    let mut journal = Journal::open(disk.clone(), options()).unwrap();
    let mut slot = 0;
    let mut fill = |journal: &mut Journal<FaultDisk>| {
        loop {
            match append(journal, &one(1, slot + 1, &[0; 3000])) {
                Ok(()) => slot += 1,
                Err(Error::Full(_)) => return slot,
                Err(other) => panic!("{other}"),
            }
        }
    };
    disk.set_free_space(Some(200_000));
    for round in 1..=20 {
        let last = fill(&mut journal);
        journal.trim(log(1), Slot(last)).unwrap();
        drive(&mut journal).unwrap();
        append(&mut journal, &one(2, round, b"continues")).unwrap();
        journal.trim(log(2), Slot(round)).unwrap();
    }
}

#[test]
fn failed_sync_ends_the_journal() {
    let disk = FaultDisk::new();
    let mut journal = Journal::open(disk.clone(), options()).unwrap();
    append(&mut journal, &one(1, 1, b"before")).unwrap();
    disk.set_sync_failing(true);
    assert!(matches!(append(&mut journal, &one(1, 2, b"lost?")), Err(Error::Unknown(_))));
    disk.set_sync_failing(false);
    // Reads are refused, too: it is unknown what is durable.
    assert!(journal.fatal().is_some());
    assert!(matches!(append(&mut journal, &one(1, 3, b"x")), Err(Error::Unavailable(_))));
    assert!(journal.reader().is_err());
    assert!(journal.trim(log(1), Slot(1)).is_err());
}

#[test]
fn other_write_errors_end_the_journal() {
    let disk = FaultDisk::new();
    let mut journal = Journal::open(disk.clone(), options()).unwrap();
    disk.fail_at(1, std::io::ErrorKind::Other);
    assert!(matches!(append(&mut journal, &one(1, 1, b"x")), Err(Error::Unknown(_))));
    assert!(journal.fatal().is_some());
}

#[test]
fn fatal_error_fails_all_waiting_callers() {
    let disk = FaultDisk::new();
    let (sender, receiver) = mpsc::channel();
    let on_fatal = Box::new(move |why: &str| sender.send(why.to_owned()).unwrap());
    let wal = Wal::open_with(disk.clone(), options(), on_fatal).unwrap();
    let reservation = wal.reserve(1, 1).unwrap();
    disk.set_sync_failing(true);
    let outcome = block_on(wal.append(&one(1, 1, b"x"), reservation).unwrap());
    assert!(matches!(outcome, Err(Error::Unknown(_))), "{outcome:?}");
    let why = receiver.recv().unwrap();
    assert!(why.contains("log/0000000001.log"), "{why}");
    assert!(matches!(wal.reserve(1, 1), Err(Error::Unavailable(_))));
    let blob = Blob { version: 1, bytes: "x".into() };
    assert!(matches!(wal.put_blob("blob", &blob), Err(Error::Unavailable(_))));
}

#[test]
fn stalled_append_is_retried_without_other_callers() {
    let disk = FaultDisk::new();
    let wal = Wal::open(disk.clone(), options()).unwrap();
    let reservation = wal.reserve(1, 4).unwrap();
    disk.set_read_only(true);
    let before = disk.operations();
    let durable = wal.append(&one(1, 1, b"kept"), reservation).unwrap();
    // The log thread has tried, and found the disk read-only.
    while disk.operations() == before {
        std::thread::yield_now();
    }
    disk.set_read_only(false);
    assert_eq!(block_on(durable), Ok(()));
}
