//! Backups to another file system, where files cannot be linked, under load: each backup is of one instant.
//! `backup.rs` tests that requests do not wait for a backup, which does not depend on the speed of the
//! machine there.
//!
//! Without arguments it is the test; with a folder it is the process that has another file system mounted
//! there.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

#[path = "../common/mod.rs"]
mod common;
#[path = "../common/mounts.rs"]
mod mounts;

use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::process::Command;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use common::{add, apply_all, uuid_at};
use futures_executor::block_on;
use jeton_core::{Cell, Change, Column, Operation, TableSettings, Value};
use jeton_engine::{Engine, EngineError, OperationOutcome};

const ROWS: u64 = 50;
const COPIES: u64 = 3;
/// Cells that only make the backup large.
const BALLAST: u64 = 1_500;
const BALLAST_BYTES: usize = 16 << 10;

fn main() {
    if let Some([folder]) = mounts::own_arguments() {
        return copy(folder.as_ref());
    }
    let folder = tempfile::tempdir().unwrap();
    mounts::run_with_own_mounts(&[folder.path().as_ref()]);
    println!("elsewhere: held");
}

fn copy(folder: &Path) {
    let (here, elsewhere) = (folder.join("here"), folder.join("elsewhere"));
    std::fs::create_dir_all(&elsewhere).unwrap();
    let mut mount = Command::new("mount");
    let status = mount.args(["-t", "tmpfs", "-o", "size=1g", "none"]).arg(&elsewhere).status().unwrap();
    assert!(status.success(), "mount: {status}");
    let options = common::small();
    let engine = Engine::open(&here, options.clone()).unwrap();
    assert_ne!(here.metadata().unwrap().dev(), elsewhere.metadata().unwrap().dev(), "two file systems");
    engine.create_table("t", TableSettings::default()).unwrap();
    let table = engine.table("t").unwrap();
    let cell = |row: String| engine.cell(&table, row.as_bytes(), &Column::unnamed()).unwrap();
    let cells: Vec<Cell> = (0..ROWS).map(|row| cell(format!("row-{row}"))).collect();
    let millis = engine.now().as_nanos() / 1_000_000;
    let put = |n: u64| {
        let bytes = (0..BALLAST_BYTES as u64 / 8).flat_map(|word| {
            (n << 32 | word)
                .wrapping_mul(0x9e37_79b9_7f4a_7c15)
                .rotate_left(29)
                .wrapping_mul(0xbf58_476d_1ce4_e5b9)
                .to_le_bytes()
        });
        let change = Change::Put(bytes.collect());
        Operation::single(Some(uuid_at(millis, 1 << 40 | n)), cell(format!("ballast-{n}")), change).unwrap()
    };
    for begin in (0..BALLAST).step_by(100) {
        apply_all(&engine, (begin..begin + 100).map(put).collect());
    }

    let (sent, done) = (AtomicU64::new(0), AtomicBool::new(false));
    let one = |engine: &Engine, number: u64| {
        block_on(engine.apply(add(&uuid_at(millis, number), &cells[(number % ROWS) as usize], 1)))
    };
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !done.load(Ordering::Relaxed) {
                let number = sent.load(Ordering::Relaxed);
                match one(&engine, number) {
                    Ok(OperationOutcome::Fresh(_)) => sent.store(number + 1, Ordering::Relaxed),
                    Err(EngineError::Busy(_)) => {}
                    other => panic!("{other:?}"),
                }
            }
        });
        for copy in 0..COPIES {
            let before = sent.load(Ordering::Relaxed);
            let target = elsewhere.join(format!("copy-{copy}"));
            let report = engine.checkpoint(&target).unwrap();
            let after = sent.load(Ordering::Relaxed) + 1;
            assert!(report.files > 0 && report.entries > 0, "{report:?}");

            let restored = Engine::open(&target, options.clone()).unwrap();
            let value = |cell: &Cell| match block_on(restored.get(cell.clone())).unwrap() {
                Some(Value::Counter(value)) => value as u64,
                None => 0,
                other => panic!("{other:?}"),
            };
            let held: u64 = cells.iter().map(value).sum();
            assert!((before..=after).contains(&held), "{held} is not between {before} and {after}");
            for number in (0..held).rev().step_by(97) {
                assert!(
                    matches!(one(&restored, number), Ok(OperationOutcome::Replayed(_))),
                    "id {number} of {held}"
                );
            }
            assert!(matches!(one(&restored, held), Ok(OperationOutcome::Fresh(_))), "the next id is new");
            drop(restored);
            std::fs::remove_dir_all(&target).unwrap();
        }
        done.store(true, Ordering::Relaxed);
    });
}
