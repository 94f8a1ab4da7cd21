//! Snapshots: the log stays short, and a member that is far behind gets a snapshot.

use std::fs;
use std::path::Path;
use std::time::Duration;

use futures_executor::block_on;
use jeton_register::{Batch, LogId, LogKind, Registers, Slot, WriteResult};

use crate::cluster::{Cluster, insist};

const LOG: LogId = LogId::partition(9);

fn folder_bytes(folder: &Path) -> u64 {
    let entries = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap());
    entries
        .map(|entry| match entry.metadata() {
            Ok(found) if found.is_dir() => folder_bytes(&entry.path()),
            Ok(found) => found.len(),
            // Removed since it was listed.
            Err(_) => 0,
        })
        .sum()
}

#[test]
fn log_stays_short_and_a_late_member_gets_a_snapshot() {
    let cluster = Cluster::new(false, |settings| settings.snapshot_entries = 100);
    cluster.start_all();
    cluster.await_whole();
    cluster.crash(3);
    // About 20 MB through a log with segments of 1 MB: each round trims the one before.
    let value = vec![7; 16 << 10];
    for round in 1..=40 {
        let member = cluster.member(1 + round % 2);
        for part in 0..32 {
            let slot = round * 32 + part;
            insist(&member, LOG, slot, &value);
        }
        block_on(member.trim(LOG, Slot(round * 32 - 1))).unwrap();
    }
    let written = 40 * 32 * value.len() as u64;
    for id in [1, 2] {
        let bytes = folder_bytes(&cluster.folder(id));
        assert!(bytes < written * 2 / 3, "{bytes} bytes of disk after {written} bytes of writes");
    }
    cluster.start(3);
    cluster.await_whole();
    for slot in [1320, 1300, 5] {
        let expected =
            if slot < 1280 { WriteResult::Trimmed } else { WriteResult::Taken(value.clone().into()) };
        if slot <= 40 * 32 + 31 {
            assert_eq!(insist(&cluster.member(3), LOG, slot, b"another"), expected, "slot {slot}");
        }
    }
    // A restart loads the snapshot.
    cluster.crash_all();
    cluster.start_all();
    cluster.await_whole();
    for id in cluster.ids() {
        assert_eq!(insist(&cluster.member(id), LOG, 1279, b"another"), WriteResult::Trimmed);
        let last = insist(&cluster.member(id), LOG, 1300, b"another");
        assert_eq!(last, WriteResult::Taken(value.clone().into()));
    }
}

#[test]
fn retired_logs_take_no_memory() {
    let cluster = Cluster::started(true);
    cluster.await_whole();
    let member = cluster.member(1);
    for session in 1..=50u128 {
        insist(&member, LogId::transaction(session), 1, &[1; 10_000]);
    }
    block_on(member.extent(LOG)).unwrap();
    assert!(member.state_bytes() > 500_000, "{}", member.state_bytes());
    block_on(member.retire(LogKind::Transaction, 51)).unwrap();
    block_on(member.extent(LOG)).unwrap();
    assert!(member.state_bytes() < 1000, "{}", member.state_bytes());
}

/// A batch larger than a batch of the wal, and a result larger than a response.
#[test]
fn largest_batch_is_written() {
    // The heartbeat is the timeout of an append, which is large here.
    let cluster = Cluster::new(false, |settings| {
        settings.timing.heartbeat = Duration::from_millis(500);
        settings.timing.election = Duration::from_secs(2);
        settings.timing.request = Duration::from_secs(30);
    });
    cluster.start_all();
    cluster.await_whole();
    let follower = cluster.ids().into_iter().find(|&id| Some(id) != cluster.leader()).unwrap();
    let member = cluster.member(follower);
    let limits = member.limits();
    let mut batch = Batch::new();
    for slot in 1..=(limits.batch_bytes_max / limits.value_bytes_max) as u64 {
        batch.push(LOG, Slot(slot), &vec![slot as u8; limits.value_bytes_max]);
    }
    let write = |batch: &Batch| {
        let permit = member.admit(batch.len(), batch.value_bytes()).unwrap();
        block_on(member.write(batch.clone(), permit)).unwrap()
    };
    assert!(write(&batch).iter().all(|written| *written == WriteResult::Fresh));
    let mut again = Batch::new();
    for slot in (1..=batch.len() as u64).cycle().take(5 * batch.len()) {
        again.push(LOG, Slot(slot), b"");
    }
    for (written, slot) in write(&again).iter().zip((1..=batch.len() as u8).cycle()) {
        assert_eq!(*written, WriteResult::Taken(vec![slot; limits.value_bytes_max].into()));
    }
}
