//! The value store on a real full disk: a failed checkpoint or compaction leaves no files behind.
//!
//! Without arguments it is the test; with a folder it is the process that has a small file system of its own
//! there.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

#[path = "../common/mounts.rs"]
mod mounts;
mod small_disk;

use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

use jeton_engine::values::{LsmOptions, LsmValues, Rows, Values};
use small_disk::SmallDisk;

/// Checkpoints that can be compacted, and the rows of each.
const CHECKPOINTS: u64 = 6;
const ROWS: u64 = 200;

fn main() {
    if let Some([folder]) = mounts::own_arguments() {
        return run(folder.as_ref());
    }
    let folder = tempfile::tempdir().unwrap();
    mounts::run_with_own_mounts(&[folder.path().as_ref()]);
    println!("leaks: none");
}

fn run(folder: &Path) {
    let disk = SmallDisk::mount(folder);
    let options = LsmOptions { open_files_max: 16, ..LsmOptions::default() };
    let values = LsmValues::open(&folder.join("values"), &options).unwrap();
    for checkpoint in 0..CHECKPOINTS {
        values.replace(&rows(checkpoint)).unwrap();
    }
    checkpoints_that_fail_leave_nothing(&disk, &values);
    merges_that_fail_leave_nothing(&disk, &values);
    both_at_once_lose_nothing(&disk, &values);

    // With space again everything continues.
    disk.leave(None);
    values.replace(&rows(CHECKPOINTS)).unwrap();
    while values.compact(0).unwrap() {}
    check(&values, CHECKPOINTS + 1);
    drop(values);
    let values = LsmValues::open(&folder.join("values"), &options).unwrap();
    check(&values, CHECKPOINTS + 1);
    assert_only_live_files(folder, &values);
}

/// Amounts of free space: none for a table, some, enough for a table but not for the list of tables, enough.
fn spaces(disk: &SmallDisk, pages: u64) -> impl Iterator<Item = u64> {
    let page = disk.page_bytes();
    (0..pages).map(move |pages| pages * page)
}

fn checkpoints_that_fail_leave_nothing(disk: &SmallDisk, values: &LsmValues) {
    let mut failures = 0;
    for space in spaces(disk, 20) {
        disk.leave(Some(space));
        for _ in 0..3 {
            // The same rows: a success changes nothing.
            if values.replace(&rows(0)).is_err() {
                failures += 1;
                assert_eq!(disk.free(), space, "a failed checkpoint takes no space");
            } else {
                disk.leave(Some(space));
            }
        }
        assert_only_live_files(disk.folder(), values);
    }
    assert!(failures > 10, "{failures} checkpoints failed");
    check(values, CHECKPOINTS);
}

fn merges_that_fail_leave_nothing(disk: &SmallDisk, values: &LsmValues) {
    let mut failures = 0;
    for space in spaces(disk, 40) {
        disk.leave(Some(space));
        if values.compact(0).is_ok() {
            break;
        }
        failures += 1;
        assert_eq!(disk.free(), space, "a failed compaction takes no space");
        assert_only_live_files(disk.folder(), values);
    }
    assert!(failures > 5, "{failures} merges failed");
    check(values, CHECKPOINTS);
}

/// No file of a running edit is taken for a leftover of another, and no table that is being read is removed.
fn both_at_once_lose_nothing(disk: &SmallDisk, values: &LsmValues) {
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let merging = scope.spawn(|| {
            let mut merges = [0, 0];
            while !done.load(Ordering::Relaxed) {
                merges[usize::from(values.compact(0).is_ok())] += 1;
            }
            merges
        });
        scope.spawn(|| {
            while !done.load(Ordering::Relaxed) {
                check(values, CHECKPOINTS);
            }
        });
        let mut checkpoints = [0, 0];
        for space in spaces(disk, 20).chain((0..30).map(|number| number * 64 * disk.page_bytes() % (4 << 20)))
        {
            disk.leave(Some(space));
            checkpoints[usize::from(values.replace(&rows(0)).is_ok())] += 1;
        }
        done.store(true, Ordering::Relaxed);
        let merges = merging.join().unwrap();
        println!("  checkpoints failed and made: {checkpoints:?}, merges: {merges:?}");
        assert!(checkpoints[0] > 0 && checkpoints[1] > 0 && merges[1] > 0, "some failed, some were made");
    });
    check(values, CHECKPOINTS);
}

/// The rows of a checkpoint; those of different checkpoints interleave, so that a compaction cannot just move
/// tables.
fn rows(checkpoint: u64) -> Rows {
    let mut rows = Rows::default();
    for number in (0..ROWS).map(|number| number * 100 + checkpoint) {
        rows.push_bytes(&key(number), Some(&value(number)));
    }
    rows
}

fn key(number: u64) -> Vec<u8> {
    [&[1], number.to_be_bytes().as_slice()].concat()
}

fn value(number: u64) -> Vec<u8> {
    // Spread, so that it does not compress.
    (0..32u64).flat_map(|word| (number + word).wrapping_mul(0x9e37_79b9_7f4a_7c15).to_le_bytes()).collect()
}

/// Every row of the first `checkpoints` checkpoints is there.
fn check(values: &LsmValues, checkpoints: u64) {
    for checkpoint in 0..checkpoints {
        for number in (0..ROWS).step_by(37).map(|number| number * 100 + checkpoint) {
            assert_eq!(values.get(&key(number)).unwrap(), Some(value(number)), "row {number}");
        }
    }
}

fn assert_only_live_files(folder: &Path, values: &LsmValues) {
    let mut live: Vec<String> = values.files().unwrap().tables().collect();
    let tables = std::fs::read_dir(folder.join("values/tables")).unwrap();
    let mut there: Vec<String> =
        tables.map(|file| format!("tables/{}", file.unwrap().file_name().display())).collect();
    live.sort();
    there.sort();
    assert_eq!(there, live, "the tables on the disk are the live ones");
}
