//! Damaged files: damage is reported with its place, never skipped.

use jeton_wal::disk::{Disk, FaultDisk};
use jeton_wal::{Error, Journal, OpenError, Slot};

use super::harness::{append, log, one, options, read_all, segments};

/// A log of several segments. Its last frame contains slot 40 only.
fn filled() -> FaultDisk {
    let disk = FaultDisk::new();
    let mut journal = Journal::open(disk.clone(), options()).unwrap();
    for slot in 1..=40 {
        append(&mut journal, &one(1, slot, &[slot as u8; 5000])).unwrap();
    }
    drop(journal);
    disk
}

#[test]
fn flipped_bit_is_reported_or_harmless() {
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
                    // Only the last frame may be missing: it looks like a torn write.
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
    // Nearly all of a frame is its entry: 40 of 5000 bytes, one of them in the last frame.
    assert!(named > 39 * 5000 / 97, "{named}");
    assert!((1..=8192 / 97 + 1).contains(&cut), "{cut}");
}

#[test]
fn damage_is_reported_with_file_and_offset() {
    let disk = filled();
    disk.flip_bit("log/0000000001.log", 4096 + 100, 0);
    let error = Journal::open(disk, options()).err().unwrap();
    assert_eq!(
        error.to_string(),
        "damaged: log/0000000001.log at byte 4096: the frame does not match its hash; a later frame is valid, so this is not \
         the end of the log"
    );
}

#[test]
fn missing_segment_is_reported() {
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
fn misplaced_segment_is_reported() {
    let disk = filled();
    disk.rename("log/0000000003.log", "log/0000000002.log").unwrap();
    let error = Journal::open(disk, options()).err().unwrap();
    assert!(error.to_string().contains("log/000000000"), "{error}");
}

#[test]
fn reader_reports_damage_since_the_start() {
    let disk = filled();
    let journal = Journal::open(disk.clone(), options()).unwrap();
    disk.flip_bit("log/0000000001.log", 4096 + 1000, 3);
    let error = journal.reader().unwrap().for_each(|_, _, _| Ok::<_, Error>(())).unwrap_err();
    assert!(matches!(&error, Error::Damaged(text) if text.contains("log/0000000001.log")), "{error}");
}

#[test]
fn frames_of_earlier_uses_of_a_file_are_ignored() {
    let disk = FaultDisk::new();
    let mut journal = Journal::open(disk.clone(), options()).unwrap();
    for slot in 1..=300 {
        append(&mut journal, &one(1, slot, &[slot as u8; 3000])).unwrap();
        journal.trim(log(1), Slot(slot.saturating_sub(3))).unwrap();
    }
    append(&mut journal, &one(1, 301, b"last")).unwrap();
    drop(journal);
    let journal = Journal::open(disk.clone(), options()).unwrap();
    let slots: Vec<u64> = read_all(&journal, 1).into_iter().map(|(slot, _)| slot).collect();
    assert_eq!(slots, [298, 299, 300, 301]);
    drop(journal);
    // After the last frame there are valid frames of an earlier use of the file.
    let name = segments(&disk).into_iter().rev().find(|name| {
        let bytes = disk.bytes(name).unwrap();
        bytes.windows(4).filter(|window| *window == b"JFRM").count() > 1
    });
    assert!(name.is_some(), "no file was reused");
}
