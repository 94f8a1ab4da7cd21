//! A disk that refuses: no room, no right, no handles, no syncs.

use std::sync::mpsc;

use jeton_register::disk::FaultDisk;
use jeton_register::embedded::{Embedded, Journal};
use jeton_register::{Failure, Registers, Row, Slot, Written, block_on};

use super::support::{admit, drive, log, one, options, read_all, write};

type Set = fn(&FaultDisk, bool);

const REFUSALS: [(&str, Set); 3] = [
    ("no room", |disk, on| disk.set_room(on.then_some(1000))),
    ("read-only", |disk, on| disk.set_read_only(on)),
    ("too many open files", |disk, on| disk.set_out_of_handles(on)),
];

#[test]
fn a_disk_that_refuses_stops_writes_and_not_reads_and_all_goes_on_when_it_is_over() {
    for (name, set) in REFUSALS {
        let disk = FaultDisk::new();
        let mut journal = Journal::open(disk.clone(), options()).unwrap();
        write(&mut journal, &one(1, 1, b"before")).unwrap();
        set(&disk, true);
        let mut slot = 1;
        let failure = loop {
            slot += 1;
            assert!(slot < 100, "{name}: never refused");
            match write(&mut journal, &one(1, slot, &[0; 3000])) {
                Ok(written) => assert!(written == [Written::Fresh] && name != "read-only", "{name}"),
                // A disk that became read-only takes not even what was promised: that waits.
                Err(Failure::Unknown(_)) if name == "read-only" && slot == 2 => {}
                Err(failure) => break failure,
            }
        };
        assert!(matches!(&failure, Failure::Full(text) if !text.is_empty()), "{name}: {failure}");
        for _ in 0..3 {
            let failure = write(&mut journal, &one(1, slot + 1, &[0; 3000])).unwrap_err();
            assert!(matches!(failure, Failure::Full(_)), "{name}: {failure}");
        }
        assert_eq!(read_all(&journal, 1)[0].1, "before", "{name}");
        assert!(journal.extent(log(1)).unwrap().last >= Slot(1), "{name}");
        assert_eq!(journal.fatal(), None, "{name}");

        set(&disk, false);
        // The first to ask is still refused, and sees to it that it is tried again.
        let _ = admit(&mut journal, &one(1, slot, b""));
        drive(&mut journal).unwrap();
        let after = write(&mut journal, &one(1, slot + 1, b"after")).unwrap();
        assert_eq!(after, [Written::Fresh], "{name}");
        drop(journal);
        let journal = Journal::open(disk, options()).unwrap();
        assert_eq!(journal.extent(log(1)).unwrap().last, Slot(slot + 1), "{name}");
    }
}

#[test]
fn a_full_store_is_made_usable_by_trimming() {
    let disk = FaultDisk::new();
    let mut journal = Journal::open(disk.clone(), options()).unwrap();
    let mut slot = 0;
    let mut fill = |journal: &mut Journal<FaultDisk>| {
        loop {
            match write(journal, &one(1, slot + 1, &[0; 3000])) {
                Ok(_) => slot += 1,
                Err(Failure::Full(_)) => return slot,
                Err(other) => panic!("{other}"),
            }
        }
    };
    disk.set_room(Some(200_000));
    for _ in 0..20 {
        let last = fill(&mut journal);
        journal.trim(log(1), Slot(last)).unwrap();
        drive(&mut journal).unwrap();
        let written = write(&mut journal, &one(2, last, b"on it goes")).unwrap();
        assert_eq!(written, [Written::Fresh]);
        journal.trim(log(2), Slot(last)).unwrap();
    }
}

#[test]
fn a_sync_that_fails_is_the_end() {
    let disk = FaultDisk::new();
    let mut journal = Journal::open(disk.clone(), options()).unwrap();
    write(&mut journal, &one(1, 1, b"before")).unwrap();
    disk.set_sync_failing(true);
    assert!(matches!(write(&mut journal, &one(1, 2, b"lost?")), Err(Failure::Unknown(_))));
    disk.set_sync_failing(false);
    // Not even reads: nobody knows what they would tell.
    assert!(journal.fatal().is_some());
    assert!(matches!(write(&mut journal, &one(1, 3, b"x")), Err(Failure::Unavailable(_))));
    assert!(journal.read(log(1), Slot(1), 1).is_err());
    assert!(journal.trim(log(1), Slot(1)).is_err());
}

#[test]
fn a_write_error_other_than_want_of_room_is_the_end() {
    let disk = FaultDisk::new();
    let mut journal = Journal::open(disk.clone(), options()).unwrap();
    disk.fail_at(1, std::io::ErrorKind::Other);
    assert!(matches!(write(&mut journal, &one(1, 1, b"x")), Err(Failure::Unknown(_))));
    assert!(journal.fatal().is_some());
}

#[test]
fn the_engine_calls_for_the_end_and_leaves_nobody_waiting() {
    let disk = FaultDisk::new();
    let (sender, receiver) = mpsc::channel();
    let on_fatal = Box::new(move |why: &str| sender.send(why.to_owned()).unwrap());
    let store = Embedded::open_with(disk.clone(), options(), on_fatal).unwrap();
    let permit = store.admit(1, 1).unwrap();
    disk.set_sync_failing(true);
    let answer = block_on(store.write(one(1, 1, b"x"), permit));
    assert!(matches!(answer, Err(Failure::Unknown(_))), "{answer:?}");
    let why = receiver.recv().unwrap();
    assert!(why.contains("log/0000000001.log"), "{why}");
    assert!(matches!(store.admit(1, 1), Err(Failure::Unavailable(_))));
    let row = Row { slot: Slot(1), bytes: "x".into() };
    assert!(matches!(block_on(store.put_row("row", row)), Err(Failure::Unavailable(_))));
}

#[test]
fn a_row_without_room_is_refused_and_leaves_the_old_one() {
    let disk = FaultDisk::new();
    let store = Embedded::open(disk.clone(), options()).unwrap();
    let row = |slot, bytes: usize| Row { slot: Slot(slot), bytes: vec![1; bytes].into() };
    block_on(store.put_row("row", row(1, 100))).unwrap();
    disk.set_room(Some(1000));
    let refused = block_on(store.put_row("row", row(2, 5000)));
    assert!(matches!(refused, Err(Failure::Full(_))), "{refused:?}");
    assert_eq!(block_on(store.get_row("row")).unwrap(), Some(row(1, 100)));
    assert!(block_on(store.put_row("row", row(2, 500))).unwrap(), "what was refused holds no room");
    for bad in ["", "..", "a/b", "Upper", "~x", &"x".repeat(65)] {
        let refused = |failure| matches!(failure, Failure::Invalid(_) | Failure::TooLarge(_));
        assert!(block_on(store.put_row(bad, row(1, 1))).is_err_and(refused), "{bad:?}");
        assert!(block_on(store.get_row(bad)).is_err_and(refused), "{bad:?}");
    }
}
