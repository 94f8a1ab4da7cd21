//! Damage is detected, and never changes a result.

use std::sync::Arc;

use jeton_engine::ids::{Error, IdIndex};
use jeton_wal::disk::{Disk, FaultDisk};

use super::common::*;

const NUMBERS: u64 = 66;

/// An index with one run of several buckets; every other number is present.
fn sample() -> (FaultDisk, String, Contents) {
    let disk = FaultDisk::new();
    let (index, _) = open(&disk);
    let entries = entries(0, (0..NUMBERS).step_by(2).chain(NUMBERS..2 * NUMBERS));
    put(&index, &entries, b"note").unwrap();
    let mut contents = Contents::new();
    remember(&mut contents, &entries);
    let run = index.files().unwrap().runs[0].clone();
    (disk, run, contents)
}

fn try_open(disk: &FaultDisk) -> Result<IdIndex<FaultDisk>, Error> {
    IdIndex::open(Arc::new(disk.clone()), FOLDER).map(|(index, _)| index)
}

#[test]
fn no_flipped_bit_of_a_run_changes_an_answer() {
    let (disk, run, contents) = sample();
    let bytes = disk.bytes(&run).unwrap().len() as u64;
    let (mut at_open, mut at_find) = (0, 0);
    for (byte, bit) in (0..bytes).flat_map(|byte| (0..8).map(move |bit| (byte, bit))) {
        assert!(disk.flip_bit(&run, byte, bit));
        match try_open(&disk) {
            Err(Error::Damaged { .. }) => at_open += 1,
            Err(error) => panic!("bit {bit} of byte {byte}: {error}"),
            Ok(index) => {
                // One damaged bit must affect some ids, and no others.
                let mut refused = 0;
                for number in 0..2 * NUMBERS {
                    match index.find(&key(number), [0]) {
                        Ok(found) => assert_eq!(found.as_ref(), contents.get(&(0, key(number)))),
                        Err(Error::Damaged { file, .. }) => {
                            assert_eq!(file, run);
                            refused += 1;
                        }
                        Err(error) => panic!("bit {bit} of byte {byte}: {error}"),
                    }
                }
                assert!(refused > 0 && refused < NUMBERS, "bit {bit} of byte {byte}: {refused} refused");
                assert!(matches!(index.verify(), Err(Error::Damaged { .. })), "bit {bit} of byte {byte}");
                at_find += 1;
            }
        }
        assert!(disk.flip_bit(&run, byte, bit));
    }
    assert_eq!(at_open, 64 * 8, "the header is checked when the index is opened");
    assert!(at_find > 0);
    assert_eq!(difference(&try_open(&disk).unwrap(), &contents, 1, NUMBERS), None);
}

#[test]
fn a_flipped_bit_of_the_manifest_is_detected() {
    let (disk, _, _) = sample();
    let manifest = format!("{FOLDER}/manifest");
    let bytes = disk.bytes(&manifest).unwrap().len() as u64;
    for (byte, bit) in (0..bytes).flat_map(|byte| (0..8).map(move |bit| (byte, bit))) {
        assert!(disk.flip_bit(&manifest, byte, bit));
        assert!(matches!(try_open(&disk), Err(Error::Damaged { .. })), "bit {bit} of byte {byte}");
        assert!(disk.flip_bit(&manifest, byte, bit));
    }
    assert!(try_open(&disk).is_ok());
}

#[test]
fn a_lost_manifest_is_not_taken_for_an_empty_index() {
    let (disk, run, _) = sample();
    disk.remove(&format!("{FOLDER}/manifest")).unwrap();
    assert!(matches!(try_open(&disk), Err(Error::Damaged { .. })));
    assert!(disk.bytes(&run).is_some(), "the runs are not removed");
}

#[test]
fn a_lost_or_exchanged_run_is_noticed() {
    let (disk, run, _) = sample();
    let (index, _) = open(&disk);
    put(&index, &entries(0, 1000..1010), b"").unwrap();
    let other = index.files().unwrap().runs[1].clone();
    drop(index);
    let exchanged = disk.copy();
    exchanged.rename(&other, &run).unwrap();
    assert!(matches!(try_open(&exchanged), Err(Error::Damaged { file, .. }) if file == run));
    disk.remove(&run).unwrap();
    assert!(matches!(try_open(&disk), Err(Error::Damaged { file, .. }) if file == run));
}

#[test]
fn a_run_that_was_cut_or_grew_is_noticed() {
    let (disk, run, _) = sample();
    let bytes = disk.bytes(&run).unwrap();
    for content in [&bytes[..bytes.len() - 1], &[&bytes[..], &[0]].concat(), &bytes[..10], &[]] {
        use jeton_wal::disk::DiskFile;
        disk.create(&run, 0).unwrap().write_at(content, 0).unwrap();
        assert!(matches!(try_open(&disk), Err(Error::Damaged { .. })), "{} bytes", content.len());
    }
}

#[test]
fn a_damaged_run_stops_only_its_own_merge() {
    let disk = FaultDisk::new();
    let (index, _) = open(&disk);
    for number in 0..8 {
        put(&index, &entries(1, [number]), b"").unwrap();
        put(&index, &entries(2, [number]), b"").unwrap();
    }
    let run = index.files().unwrap().runs[3].clone();
    let end = disk.bytes(&run).unwrap().len() as u64 - 1;
    assert!(disk.flip_bit(&run, end, 3));
    assert!(matches!(index.merge(u64::MAX), Err(Error::Damaged { file, .. }) if file == run));
    assert!(!index.merge(u64::MAX).unwrap());
    assert_eq!((index.stats().runs, index.stats().damaged), (8 + 1, 1));
    assert_eq!(index.find(&key(7), [2]).unwrap(), Some(value(7)));
    assert_eq!(index.find(&key(7), [1]).unwrap(), Some(value(7)), "the other runs are readable");
    assert_no_leftovers(&disk, &index);
    // A merge that began before the damage meets it later: these runs are read in several pieces.
    for number in 1..9 {
        put(&index, &entries(3, number * 10_000..number * 10_000 + 6_000), b"").unwrap();
    }
    assert!(index.merge(10).unwrap());
    let run = index.files().unwrap().runs[12].clone();
    let end = disk.bytes(&run).unwrap().len() as u64 - 1;
    assert!(disk.flip_bit(&run, end, 3));
    let error = loop {
        match index.merge(10_000) {
            Ok(more) => assert!(more, "the merge ended without meeting the damage"),
            Err(error) => break error,
        }
    };
    assert!(matches!(error, Error::Damaged { file, .. } if file == run));
    assert!(!index.merge(10).unwrap());
    assert_eq!(index.stats().damaged, 2);
    assert_no_leftovers(&disk, &index);
    index.drop_expired(3).unwrap();
    assert_eq!(index.stats().damaged, 1, "a dropped run does not count");
}
