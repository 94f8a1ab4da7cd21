//! Backups to another file system, where files cannot be linked, under load: each backup is of one instant.
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

use common::{apply_all, back_up_under_load, cell, cells, millis, open, uuid_at};
use jeton_core::{Change, Operation, TableSettings};

/// Cells that only make the backup large.
const BALLAST: u64 = 1_500;
const BALLAST_BYTES: usize = 16 << 10;

fn main() {
    if let Some([folder]) = mounts::own_arguments() {
        return copy(folder.as_ref());
    }
    let folder = tempfile::tempdir().unwrap();
    mounts::run_with_own_mounts(&[folder.path().as_ref()]);
    println!("another file system: passed");
}

fn copy(folder: &Path) {
    let (here, elsewhere) = (folder.join("here"), folder.join("elsewhere"));
    std::fs::create_dir_all(&elsewhere).unwrap();
    mounts::mount_tmpfs("1g", &elsewhere);
    let engine = open(&here);
    assert_ne!(here.metadata().unwrap().dev(), elsewhere.metadata().unwrap().dev(), "two file systems");
    engine.create_table("t", TableSettings::default()).unwrap();
    let (cells, millis) = (cells(&engine, 50), millis(&engine));
    let put = |n: u64| {
        let mut random = jeton_testkit::Rng::new(n);
        let bytes = (0..BALLAST_BYTES / 8).flat_map(|_| random.next_u64().to_le_bytes()).collect();
        let id = uuid_at(millis, 1 << 40 | n);
        Operation::single(Some(id), cell(&engine, &format!("ballast-{n}")), Change::Put(bytes)).unwrap()
    };
    for begin in (0..BALLAST).step_by(100) {
        apply_all(&engine, (begin..begin + 100).map(put).collect());
    }
    back_up_under_load(&engine, &elsewhere, millis, &cells, 0);
}
