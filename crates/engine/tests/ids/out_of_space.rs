//! Without disk space or file handles: a clear error, and everything works again later.

use jeton_engine::ids::{OPEN_FILES_MAX, TIER_RUNS};
use jeton_wal::disk::FaultDisk;

use super::common::*;

#[test]
fn a_full_disk_loses_nothing() {
    let disk = FaultDisk::new();
    let (index, _) = open(&disk);
    let mut contents = Contents::new();
    for run in 0..TIER_RUNS as u64 {
        let entries = entries(0, run * 20..run * 20 + 20);
        put(&index, &entries, b"before").unwrap();
        remember(&mut contents, &entries);
    }
    let more = entries(0, 200..220);
    let run_bytes = index.add(&more).unwrap()[0].bytes();

    for space in (0..run_bytes).step_by(37) {
        disk.set_free_space(Some(space));
        let error = index.add(&more).map(drop).unwrap_err();
        assert!(error.is_out_of_space(), "add with space for {space}: {error}");
        let error = index.merge(u64::MAX).unwrap_err();
        assert!(error.is_out_of_space(), "merge with space for {space}: {error}");
        assert_no_leftovers(&disk, &index);
    }
    disk.set_free_space(None);
    let mut runs = index.add(&more).unwrap();
    for space in 0..100 {
        disk.set_free_space(Some(space));
        let error = index.commit(&mut runs, b"after").unwrap_err();
        assert!(error.is_out_of_space(), "commit with space for {space}: {error}");
        assert_eq!(runs.len(), 1);
        assert_eq!(index.find(&key(205), [0]).unwrap(), None);
    }
    assert_eq!(difference(&index, &contents, 1, 230), None);

    disk.set_free_space(None);
    index.commit(&mut runs, b"after").unwrap();
    remember(&mut contents, &more);
    assert!(!index.merge(u64::MAX).unwrap());
    assert_eq!(index.stats().runs, 2);
    assert_eq!(difference(&index, &contents, 1, 230), None);
    assert_no_leftovers(&disk, &index);
}

#[test]
fn uncommitted_runs_leave_no_file() {
    let disk = FaultDisk::new();
    let (index, _) = open(&disk);
    disk.set_free_space(Some(10_000));
    for number in 0..1000 {
        drop(index.add(&entries(number, 0..50)).unwrap());
    }
    index.merge(1).unwrap();
    assert_no_leftovers(&disk, &index);
}

#[test]
fn a_lookup_without_file_handles_fails_and_recovers() {
    let disk = FaultDisk::new();
    let (index, _) = open(&disk);
    let generations = OPEN_FILES_MAX as u64 + 10;
    for generation in 0..generations {
        put(&index, &entries(generation, [generation]), b"").unwrap();
    }
    assert_eq!(index.stats().open_files, OPEN_FILES_MAX, "the open files are bounded");
    disk.set_out_of_handles(true);
    let find = |generation| index.find(&key(generation), [generation]);
    let refused = (0..generations).filter(|generation| match find(*generation) {
        Ok(found) => {
            assert_eq!(found, Some(value(*generation)));
            false
        }
        Err(error) => {
            assert!(error.is_out_of_space(), "{error}");
            true
        }
    });
    assert_eq!(refused.count(), 10, "what is open can still be read");
    assert!(index.add(&entries(0, [1])).is_err());
    disk.set_out_of_handles(false);
    for generation in 0..generations {
        assert_eq!(find(generation).unwrap(), Some(value(generation)));
    }
    assert_eq!(index.stats().open_files, OPEN_FILES_MAX);
    index.drop_expired(generations).unwrap();
    assert_eq!(index.stats().open_files, 0, "files of removed runs are closed");
    assert_no_leftovers(&disk, &index);
}
