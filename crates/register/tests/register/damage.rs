//! A disk that does not keep what was written: damage is named, never stepped over.

use jeton_register::disk::{Disk, FaultDisk};
use jeton_register::embedded::{Embedded, Journal, OpenError};
use jeton_register::{Failure, Registers, Row, Slot, block_on};

use super::support::{log, one, options, read_all, write};

/// A log of several segments. Its last frame holds slot 40 alone.
fn filled() -> FaultDisk {
    let disk = FaultDisk::new();
    let mut journal = Journal::open(disk.clone(), options()).unwrap();
    for slot in 1..=40 {
        write(&mut journal, &one(1, slot, &[slot as u8; 5000])).unwrap();
    }
    drop(journal);
    disk
}

fn segments(disk: &FaultDisk) -> Vec<String> {
    let names = disk.list("log").unwrap();
    names.into_iter().filter(|name| name.ends_with(".log")).map(|name| format!("log/{name}")).collect()
}

#[test]
fn a_bit_that_turns_over_is_named_or_does_not_matter() {
    let disk = filled();
    let expected = read_all(&Journal::open(disk.clone(), options()).unwrap(), 1);
    let (mut named, mut cut) = (0, 0);
    for name in segments(&disk) {
        for offset in (0..u64::from(options().segment_bytes)).step_by(97) {
            let disk = disk.copy();
            assert!(disk.flip_bit(&name, offset, (offset % 8) as u8));
            match Journal::open(disk, options()) {
                Ok(journal) => {
                    let there = read_all(&journal, 1);
                    // The last frame alone may be gone: it looks like one that was being written.
                    cut += usize::from(there.len() == expected.len() - 1);
                    assert!(
                        there == expected || there == expected[..39],
                        "{name} byte {offset}: silently wrong"
                    );
                }
                Err(error @ (OpenError::Damaged { .. } | OpenError::Version { .. })) => {
                    assert!(error.to_string().contains(&name), "{name} byte {offset}: {error}");
                    named += 1;
                }
                Err(error) => panic!("{name} byte {offset}: {error}"),
            }
        }
    }
    // Nearly all of the frames is values: 40 of 5000 bytes, one of which is in the last frame.
    assert!(named > 39 * 5000 / 97, "{named}");
    assert!((1..=8192 / 97 + 1).contains(&cut), "{cut}");
}

#[test]
fn damage_is_named_with_file_and_offset() {
    let disk = filled();
    disk.flip_bit("log/0000000001.log", 4096 + 100, 0);
    let error = Journal::open(disk, options()).err().unwrap();
    assert_eq!(
        error.to_string(),
        "damaged: log/0000000001.log at byte 4096: the frame does not match its hash; a later frame is whole, so this is not \
         the end of the log"
    );
}

#[test]
fn a_missing_segment_is_named() {
    let disk = filled();
    let names = segments(&disk);
    assert!(names.len() >= 4, "{names:?}");
    for missing in &names[..names.len() - 2] {
        let disk = disk.copy();
        disk.remove(missing).unwrap();
        let error = Journal::open(disk, options()).err().unwrap();
        assert!(matches!(&error, OpenError::Damaged { file, .. } if file == missing), "{missing}: {error}");
    }
}

#[test]
fn a_segment_in_anothers_place_is_named() {
    let disk = filled();
    disk.rename("log/0000000003.log", "log/0000000002.log").unwrap();
    let error = Journal::open(disk, options()).err().unwrap();
    assert!(error.to_string().contains("log/000000000"), "{error}");
}

#[test]
fn a_reader_notices_a_register_that_went_bad_since_the_start() {
    let disk = filled();
    let journal = Journal::open(disk.clone(), options()).unwrap();
    disk.flip_bit("log/0000000001.log", 4096 + 1000, 3);
    let failure = journal.read(log(1), Slot(1), 10).unwrap().run().unwrap_err();
    assert!(matches!(&failure, Failure::Damaged(text) if text.contains("log/0000000001.log")), "{failure}");
}

#[test]
fn a_damaged_row_is_named_and_not_replaced() {
    let disk = FaultDisk::new();
    let store = Embedded::open(disk.clone(), options()).unwrap();
    let row = |slot| Row { slot: Slot(slot), bytes: "content".into() };
    block_on(store.put_row("state", row(5))).unwrap();
    for offset in 0..disk.bytes("rows/state").unwrap().len() as u64 {
        disk.flip_bit("rows/state", offset, 2);
        let failure = block_on(store.get_row("state")).unwrap_err();
        assert!(
            matches!(&failure, Failure::Damaged(text) if text.contains("rows/state")),
            "{offset}: {failure}"
        );
        disk.flip_bit("rows/state", offset, 2);
    }
    disk.flip_bit("rows/state", 17, 2);
    assert!(matches!(block_on(store.put_row("state", row(4))), Err(Failure::Damaged(_))));
}

#[test]
fn frames_of_an_earlier_life_of_a_file_stay_dead() {
    // Segments are used again many times; then the log is cut off at every one of its last frames.
    let disk = FaultDisk::new();
    let mut journal = Journal::open(disk.clone(), options()).unwrap();
    for slot in 1..=300 {
        write(&mut journal, &one(1, slot, &[slot as u8; 3000])).unwrap();
        journal.trim(log(1), Slot(slot.saturating_sub(3))).unwrap();
    }
    write(&mut journal, &one(1, 301, b"last")).unwrap();
    drop(journal);
    let journal = Journal::open(disk.clone(), options()).unwrap();
    let slots: Vec<u64> = read_all(&journal, 1).into_iter().map(|(slot, _)| slot.0).collect();
    assert_eq!(slots, [298, 299, 300, 301]);
    drop(journal);
    // The place behind the last frame holds whole frames of the file's earlier life.
    let name = segments(&disk).into_iter().rev().find(|name| {
        let bytes = disk.bytes(name).unwrap();
        bytes.windows(4).filter(|window| *window == b"JFRM").count() > 1
    });
    assert!(name.is_some(), "no file was used again");
}
