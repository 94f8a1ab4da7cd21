//! Readers while the index changes, and copies of it.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use jeton_engine::ids::IdIndex;
use jeton_testkit::Rng;
use jeton_wal::disk::{Disk, DiskFile, FaultDisk, RealDisk};

use super::common::*;

/// Ends the threads when dropped, so that a failure does not leave them running and the test waiting.
struct End<'a>(&'a AtomicBool);

impl Drop for End<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Release);
    }
}

/// Threads look up ids of the last generations while runs are added, merged and dropped.
fn read_while_it_changes<D: Disk>(disk: Arc<D>) {
    const ROUNDS: u64 = 400;
    const KEPT: u64 = 4;
    let (index, _) = IdIndex::open(disk, FOLDER).unwrap();
    // Rounds below `known` are committed. A generation is ten rounds; a reader looks up those that are not
    // being dropped.
    let (known, done, checked) = (AtomicU64::new(0), AtomicBool::new(false), AtomicU64::new(0));
    std::thread::scope(|scope| {
        let ending = End(&done);
        let readers = [0, 1, 2].map(|reader| {
            let (index, known, done, checked) = (&index, &known, &done, &checked);
            scope.spawn(move || {
                let mut rng = Rng::new(reader);
                while !done.load(Ordering::Acquire) {
                    let until = known.load(Ordering::Acquire);
                    let window = until.min(10 * (KEPT - 1));
                    if window == 0 {
                        std::hint::spin_loop();
                        continue;
                    }
                    let round = until - 1 - rng.next_u64() % window;
                    let number = round * 16 + rng.next_u64() % 16;
                    let found = index.find(&key(number), [round / 10]).unwrap();
                    // The generation may have been dropped since `until` was read.
                    if known.load(Ordering::Acquire) < until + 5 {
                        assert_eq!(found, Some(value(number)), "id {number} of round {round}");
                        checked.fetch_add(1, Ordering::Relaxed);
                    }
                    assert_eq!(index.find(&key(u64::MAX - number), [round / 10]).unwrap(), None);
                }
            })
        });
        scope.spawn(|| {
            while !done.load(Ordering::Acquire) {
                index.merge(500).unwrap();
            }
        });
        for round in 0..ROUNDS {
            let mut runs = index.add(&entries(round / 10, round * 16..round * 16 + 16)).unwrap();
            index.commit(&mut runs, &[]).unwrap();
            known.store(round + 1, Ordering::Release);
            index.drop_expired((round / 10).saturating_sub(KEPT)).unwrap();
        }
        // On one busy core the readers may not have run yet. One that has ended already has failed.
        while checked.load(Ordering::Relaxed) < 100 && !readers.iter().any(|reader| reader.is_finished()) {
            std::thread::yield_now();
        }
        drop(ending);
    });
    while index.merge(u64::MAX).unwrap() {}
    index.verify().unwrap();
    assert_eq!(index.stats().generations as u64, KEPT + 1);
    assert_eq!(index.stats().queued_removals, 0);
}

#[test]
fn readers_run_beside_merges_and_drops() {
    read_while_it_changes(Arc::new(FaultDisk::new()));
}

#[test]
fn readers_run_on_a_real_disk() {
    let root = std::path::Path::new(env!("CARGO_TARGET_TMPDIR")).join("ids-readers");
    drop(std::fs::remove_dir_all(&root));
    read_while_it_changes(Arc::new(RealDisk::new(&root).unwrap()));
    std::fs::remove_dir_all(&root).unwrap();
}

#[test]
fn copied_files_are_the_index_of_that_moment() {
    let disk = FaultDisk::new();
    let (index, _) = open(&disk);
    let mut contents = Contents::new();
    for run in 0..8u64 {
        let entries = entries(run / 4, run * 20..run * 20 + 20);
        put(&index, &entries, b"copied").unwrap();
        remember(&mut contents, &entries);
    }
    let files = index.files().unwrap();
    // Everything that removes files happens before the copy is made.
    for run in 8..24 {
        put(&index, &entries(1, run * 20..run * 20 + 20), b"later").unwrap();
    }
    merge_all(&index).unwrap();
    index.drop_expired(9).unwrap();
    let backup = FaultDisk::new();
    let manifest = (files.manifest.0.as_str(), files.manifest.1.clone());
    let copies = files.runs.iter().map(|name| (name.as_str(), disk.bytes(name).unwrap()));
    for (name, bytes) in copies.chain([manifest]) {
        backup.create(name, 0).unwrap().write_at(&bytes, 0).unwrap();
    }
    let (copy, note) = open(&backup);
    assert_eq!(note, b"copied");
    assert_eq!(difference(&copy, &contents, 2, 500), None);
    assert_eq!(index.stats().runs, 0);
    assert_eq!(index.stats().queued_removals, 0, "the copy keeps its files");
    drop(files);
    index.merge(1).unwrap();
    assert_no_leftovers(&disk, &index);
}
