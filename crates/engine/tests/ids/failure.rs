//! Every disk operation fails once, without a crash: the caller retries, and nothing is lost or left over.

use std::io::ErrorKind;
use std::sync::Arc;

use jeton_engine::ids::{Error, IdIndex};
use jeton_testkit::Rng;
use jeton_wal::disk::FaultDisk;

use super::common::*;

fn again<T>(failures: &mut usize, mut call: impl FnMut() -> Result<T, Error>) -> T {
    call().unwrap_or_else(|error| {
        assert!(matches!(error, Error::Io { .. }), "{error}");
        *failures += 1;
        call().expect("the retry succeeds")
    })
}

fn work(disk: &FaultDisk) -> (usize, Contents) {
    let failures = &mut 0;
    let mut contents = Contents::new();
    let (index, _) = again(failures, || IdIndex::open(Arc::new(disk.clone()), FOLDER));
    for commit in 0..18u64 {
        let mut all = entries(0, [commit + 150]);
        all.extend(entries(1, commit * 8..commit * 8 + 10));
        remember(&mut contents, &all);
        again(failures, || {
            let mut runs = index.add(&all)?;
            index.commit(&mut runs, &commit.to_le_bytes())?;
            assert!(runs.is_empty());
            Ok(())
        });
        again(failures, || index.merge(300));
        assert_eq!(difference(&index, &contents, 2, 200), None);
    }
    while again(failures, || index.merge(u64::MAX)) {}
    contents.retain(|(generation, _), _| *generation >= 1);
    again(failures, || index.drop_expired(1));
    assert_eq!(difference(&index, &contents, 2, 200), None);
    // Files that could not be removed at first are removed by the next call of any kind.
    index.merge(1).unwrap();
    assert_no_leftovers(disk, &index);
    (*failures, contents)
}

#[test]
fn every_single_failure_is_retried() {
    let disk = FaultDisk::new();
    let (failures, _) = work(&disk);
    assert_eq!(failures, 0);
    let operations = disk.operations();
    let mut met = 0;
    for at in 1..=operations {
        let disk = FaultDisk::new();
        disk.fail_at(at, if at % 2 == 0 { ErrorKind::StorageFull } else { ErrorKind::Other });
        let (failures, contents) = work(&disk);
        assert!(failures <= 1);
        met += failures as u64;
        let (index, note) = open(&disk);
        assert_eq!(note, 17u64.to_le_bytes());
        assert_eq!(difference(&index, &contents, 2, 200), None, "failure at {at}");
    }
    // Only removals fail silently.
    assert!(met * 10 > operations * 9, "{met} failures of {operations} were reported");
}

#[test]
fn failed_syncs_are_never_ignored() {
    let disk = FaultDisk::new();
    let (index, _) = open(&disk);
    put(&index, &entries(0, 0..10), b"first").unwrap();
    let mut runs = index.add(&entries(0, 10..20)).unwrap();
    disk.set_sync_failing(true);
    assert!(index.add(&entries(0, 20..30)).is_err());
    assert!(index.commit(&mut runs, b"second").is_err());
    let mut rng = Rng::new(1);
    let disk = disk.crash(&mut || rng.next_u64());
    let (index, note) = open(&disk);
    assert_eq!(note, b"first");
    let mut contents = Contents::new();
    remember(&mut contents, &entries(0, 0..10));
    assert_eq!(difference(&index, &contents, 1, 40), None);
}

#[test]
fn a_commit_that_may_have_happened_keeps_its_files() {
    // The manifest is renamed, but the name cannot be made durable. The caller gives up.
    for seed in 0..20 {
        let disk = FaultDisk::new();
        let (index, _) = open(&disk);
        put(&index, &entries(0, 0..10), b"first").unwrap();
        let mut runs = index.add(&entries(0, 10..20)).unwrap();
        // Create, write, sync, names, rename: the sixth is the sync of the new name.
        disk.fail_at(6, ErrorKind::Other);
        assert!(index.commit(&mut runs, b"second").is_err());
        drop(runs);
        index.merge(1).unwrap();
        let mut rng = Rng::new(seed);
        let disk = disk.crash(&mut || rng.next_u64());
        let (index, note) = open(&disk);
        let known = if note == b"first" { 0..10 } else { 0..20 };
        let mut contents = Contents::new();
        remember(&mut contents, &entries(0, known));
        assert_eq!(difference(&index, &contents, 1, 30), None, "{note:?}");
    }
}
