//! Checkpoints in the registers.

use std::sync::Arc;
use std::time::{Duration, Instant};

use futures_executor::block_on;
use jeton_cluster::{OpenError, UploadOptions, Uploader};
use jeton_core::{Change, Operation};
use jeton_engine::Options;
use jeton_register::memory::{Faults, MemoryRegisters};
use jeton_register::{LogId, Registers, Slot};
use jeton_testkit::Rng;
use jeton_wal::disk::RealDisk;
use jeton_wal::{Blob, blobs};

use super::checkpoint_scenarios::{
    Counted, empty, extent, node, objects, race_for_a_manifest, take_over_from_checkpoints,
};
use super::node::{Node, STRIPE, close, first_half, open_log};

#[test]
fn an_empty_directory_takes_over_after_a_trim() {
    let registers = MemoryRegisters::new();
    take_over_from_checkpoints(registers.clone(), registers.clone(), registers);
}

#[test]
fn checkpoints_survive_faults_of_the_registers() {
    for seed in 0..5 {
        let registers = MemoryRegisters::with_faults(seed, Faults::default());
        let faults = Faults { refused: 80, lost: 80, late: 80, delayed: 300 };
        let mut random = Rng::new(seed);
        let mut owner = node(registers.clone(), 1, empty()).with_table();
        let mut counted = Counted::new(&owner);
        for number in 2..8 {
            let mut checkpoints = owner.checkpoints();
            registers.set_faults(faults);
            for _ in 0..4 {
                counted.add(&owner, 100 + random.index(200));
                // After an error the next upload tries again.
                if checkpoints.upload().is_ok() && random.percent(70) {
                    drop(checkpoints.clean_up());
                }
            }
            registers.set_faults(Faults { delayed: 300, ..Faults::default() });
            let next = node(registers.clone(), number, empty());
            // The deposed owner has not noticed.
            if random.percent(50) {
                drop(checkpoints.upload());
            }
            drop(checkpoints.clean_up());
            counted.check(&next);
            owner = next;
        }
        registers.set_faults(Faults::default());
        registers.deliver_late();
        assert!(extent(&registers, LogId::stripe(STRIPE)).trimmed > Slot(10), "seed {seed}");
        owner.checkpoints().upload().unwrap();
        counted.check(&node(registers, 9, empty()));
    }
}

/// A node that has counted, with a checkpoint, and operations after it.
fn with_checkpoint(registers: &MemoryRegisters) -> (Node<MemoryRegisters>, Counted) {
    let node = node(registers.clone(), 1, empty()).with_table();
    let mut counted = Counted::new(&node);
    counted.add(&node, 1_000);
    let mut checkpoints = node.checkpoints();
    checkpoints.upload().unwrap();
    checkpoints.clean_up().unwrap();
    counted.add(&node, 50);
    (node, counted)
}

#[test]
fn of_two_owners_one_stores_the_next_manifest() {
    race_for_a_manifest();
}

#[test]
fn late_trims_and_deletions_change_nothing() {
    let registers = MemoryRegisters::new();
    let (first, mut counted) = with_checkpoint(&registers);
    let mut early = first.checkpoints();
    early.upload().unwrap();
    // The trims and deletions take effect only after the next owner's.
    registers.set_faults(Faults { late: 1000, ..Faults::default() });
    early.clean_up().unwrap_err();
    registers.set_faults(Faults::default());
    let second = node(registers.clone(), 2, empty());
    counted.add(&second, 300);
    let mut late = second.checkpoints();
    late.upload().unwrap();
    late.clean_up().unwrap();
    counted.add(&second, 20);
    registers.deliver_late();
    early.clean_up().unwrap();
    let third = node(registers.clone(), 3, empty());
    counted.check(&third);
    let mut next = third.checkpoints();
    next.upload().unwrap();
    next.clean_up().unwrap();
    early.clean_up().unwrap();
    late.clean_up().unwrap();
    counted.check(&node(registers, 4, empty()));
}

#[test]
fn a_torn_upload_is_deleted_by_the_next_owner() {
    let registers = MemoryRegisters::new();
    let (first, mut counted) = with_checkpoint(&registers);
    let whole = objects(&registers);
    counted.add(&first, 1_000);
    let mut checkpoints = first.checkpoints();
    registers.set_space(Some(2));
    checkpoints.upload().unwrap_err();
    registers.set_space(None);
    let torn: Vec<String> = objects(&registers).into_iter().filter(|name| !whole.contains(name)).collect();
    assert_eq!(torn.len(), 2);
    let second = node(registers.clone(), 2, empty());
    counted.check(&second);
    let mut checkpoints = second.checkpoints();
    checkpoints.upload().unwrap();
    checkpoints.clean_up().unwrap();
    let left = objects(&registers);
    assert!(!torn.iter().any(|name| left.contains(name)), "{torn:?} {left:?}");
    counted.check(&node(registers, 3, empty()));
}

#[test]
fn a_damaged_or_missing_object_is_named() {
    let registers = MemoryRegisters::new();
    drop(with_checkpoint(&registers));
    let names = objects(&registers);
    assert!(names.len() > 4, "{names:?}");
    for name in &names {
        registers.damage_object(name);
        let error = open_log(registers.clone(), 2, empty().path()).map(drop).unwrap_err();
        assert!(error.to_string().contains(name), "{error}");
        registers.damage_object(name);
    }
    block_on(registers.delete_objects(names[..1].to_vec())).unwrap();
    let error = open_log(registers.clone(), 2, empty().path()).map(drop).unwrap_err();
    assert!(
        error.to_string().contains("version 1 of the manifest lists objects that are missing"),
        "{error}"
    );
}

#[test]
fn a_directory_at_the_checkpoint_is_kept() {
    let registers = MemoryRegisters::new();
    let (first, mut counted) = with_checkpoint(&registers);
    counted.add(&first, 2_000);
    first.engine.store_all().unwrap();
    let folder = close(first);
    // Nothing can be loaded.
    block_on(registers.delete_objects(objects(&registers))).unwrap();
    let node = node(registers, 1, folder);
    assert_eq!(node.engine.stats().replayed_entries, 0);
    counted.check(&node);
}

#[test]
fn a_directory_behind_the_checkpoint_is_replaced() {
    let registers = MemoryRegisters::new();
    let (first, mut counted) = with_checkpoint(&registers);
    let folder = close(first);
    let second = node(registers.clone(), 2, empty());
    counted.add(&second, 1_000);
    let mut checkpoints = second.checkpoints();
    checkpoints.upload().unwrap();
    checkpoints.clean_up().unwrap();
    counted.add(&second, 30);
    let again = node(registers.clone(), 1, folder);
    let replayed = again.engine.stats().replayed_entries;
    assert!(replayed <= 30, "{replayed} entries");
    counted.check(&again);
    // A crash while the directory was replaced.
    let folder = close(again);
    let unfinished = Blob { version: 0, bytes: Default::default() };
    blobs::put(&RealDisk::new(folder.path()).unwrap(), "checkpoint", &unfinished).unwrap();
    std::fs::remove_dir_all(folder.path().join("ids")).unwrap();
    counted.check(&node(registers, 1, folder));
}

/// A standby without the latest transactions was promoted, and another node has written since.
#[test]
fn a_directory_of_another_history_is_refused() {
    let registers = MemoryRegisters::new();
    let first = node(registers.clone(), 1, empty()).with_table();
    let mut counted = Counted::new(&first);
    counted.add(&first, 1_000);
    first.engine.store_all().unwrap();
    let (folder, last) = (close(first), extent(&registers, LogId::stripe(STRIPE)).last);
    let older = first_half(&registers);
    let second = node(older.clone(), 2, empty());
    while extent(&older, LogId::stripe(STRIPE)).last < last.next() {
        block_on(second.log.prove()).unwrap();
    }
    let error = open_log(older, 1, folder.path()).map(drop).unwrap_err();
    assert!(matches!(&error, OpenError::OtherHistory { slot, end, .. } if slot <= end), "{error}");
}

#[test]
fn the_log_of_a_stripe_stays_short_under_load() {
    const BYTES: usize = 60 << 20;
    const VALUE_BYTES: usize = 32 << 10;
    let registers = MemoryRegisters::new();
    let set = |options: &mut Options| options.cache_bytes = 8 << 20;
    let node = Node::open_in(empty(), registers.clone(), 1, set).with_table();
    let uploader = Uploader::start(node.engine.clone(), node.log.clone(), UploadOptions::default()).unwrap();
    let (cells, begun) = (node.cells(100), Instant::now());
    let mut highest = 0;
    for number in 0..BYTES / VALUE_BYTES {
        let id = node.addition(&cells[0], number as u64).id().cloned();
        let change = Change::Put(vec![number as u8; VALUE_BYTES].into());
        let operation = Operation::single(id, cells[number % 100].clone(), change).unwrap();
        node.apply(&operation).unwrap();
        highest = highest.max(node.log.log_bytes());
        // 10 MB a second.
        let due = Duration::from_micros(number as u64 * VALUE_BYTES as u64 / 10);
        std::thread::sleep(due.saturating_sub(begun.elapsed()));
    }
    assert_eq!(uploader.last_error(), None);
    assert!((16 << 20..32 << 20).contains(&highest), "{highest} bytes");
    node.engine.close();
    drop(uploader);
    let Node { log, engine, folder } = node;
    drop((Arc::into_inner(engine).unwrap(), log, folder));
    let next = self::node(registers, 2, empty());
    assert!(block_on(next.engine.get(cells[7].clone())).unwrap().is_some());
}

/// Proofs make the log longer, and change nothing of the stores.
#[test]
fn a_stripe_without_new_entries_uploads_nothing() {
    let registers = MemoryRegisters::new();
    let node = node(registers.clone(), 1, empty()).with_table();
    let mut counted = Counted::new(&node);
    counted.add(&node, 10);
    let options = UploadOptions { log_bytes: u64::MAX, interval: Duration::ZERO };
    let uploader = Uploader::start(node.engine.clone(), node.log.clone(), options).unwrap();
    let uploads = || extent(&registers, LogId::manifest(STRIPE)).last;
    while uploads() == Slot::ZERO || node.log.log_bytes() > 0 {
        std::thread::yield_now();
    }
    while node.log.log_bytes() < 64 << 10 {
        block_on(node.log.prove()).unwrap();
    }
    // Several checks of the uploader.
    std::thread::sleep(Duration::from_millis(500));
    assert_eq!(uploads(), Slot(1));
    counted.add(&node, 10);
    while uploads() == Slot(1) {
        std::thread::yield_now();
    }
    node.engine.close();
    drop(uploader);
}
