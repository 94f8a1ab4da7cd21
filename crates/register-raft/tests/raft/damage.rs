//! A torn end of the log is cut; damage before the end is an error.

use std::fs;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use futures_executor::block_on;
use jeton_register::{LogId, Registers, Slot, WriteResult};

use crate::cluster::{Cluster, insist};

const LOG: LogId = LogId::partition(3);
/// Frames of the log begin at multiples of this.
const BLOCK: usize = 4096;

/// The newest segment of a member's log.
fn segment(folder: &Path) -> PathBuf {
    let segments = fs::read_dir(folder.join("log")).unwrap().map(|entry| entry.unwrap().path());
    segments.filter(|path| path.extension().is_some_and(|end| end == "log")).max().unwrap()
}

/// The offset of the last byte other than zero.
fn end(bytes: &[u8]) -> usize {
    bytes.iter().rposition(|&byte| byte != 0).unwrap()
}

fn written(count: u64) -> std::sync::Arc<Cluster> {
    let cluster = Cluster::started(false);
    cluster.await_whole();
    for slot in 1..=count {
        assert_eq!(
            insist(&cluster.member(1), LOG, slot, format!("slot {slot}").as_bytes()),
            WriteResult::Fresh
        );
    }
    cluster
}

fn flip(path: &Path, offset: usize) {
    let file = fs::OpenOptions::new().read(true).write(true).open(path).unwrap();
    let mut byte = [0];
    file.read_exact_at(&mut byte, offset as u64).unwrap();
    file.write_all_at(&[byte[0] ^ 0x10], offset as u64).unwrap();
}

/// A power failure leaves a part of the write in flight, which was not acknowledged.
#[test]
fn torn_end_is_cut_without_loss() {
    let cluster = written(20);
    cluster.crash_all();
    for id in cluster.ids() {
        let segment = segment(&cluster.folder(id));
        let bytes = fs::read(&segment).unwrap();
        let next = (end(&bytes) / BLOCK + 1) * BLOCK;
        // The start of a valid frame.
        let torn = &bytes[next - BLOCK..next - BLOCK + 600];
        fs::OpenOptions::new().write(true).open(&segment).unwrap().write_all_at(torn, next as u64).unwrap();
        flip(&segment, next + 100);
    }
    cluster.start_all();
    cluster.await_whole();
    for (id, slot) in cluster.ids().into_iter().flat_map(|id| (1..=20).map(move |slot| (id, slot))) {
        let there = insist(&cluster.member(id), LOG, slot, b"another");
        assert_eq!(there, WriteResult::Taken(format!("slot {slot}").into()), "member {id}");
    }
}

/// Damage to the last record looks like a torn write and is cut. The other members replicate it again.
#[test]
fn lost_last_record_is_replicated_again() {
    let cluster = written(20);
    for id in cluster.ids() {
        for other in cluster.ids() {
            cluster.await_that("all registers at all members", || {
                let extent = block_on(cluster.member(other).extent(LOG)).ok()?;
                (extent.last == Slot(20)).then_some(())
            });
        }
        cluster.crash(id);
        let segment = segment(&cluster.folder(id));
        let last = end(&fs::read(&segment).unwrap());
        flip(&segment, last);
        cluster.start(id);
        cluster.await_whole();
        for slot in 1..=20 {
            let there = insist(&cluster.member(id), LOG, slot, b"another");
            assert_eq!(there, WriteResult::Taken(format!("slot {slot}").into()), "member {id}");
        }
    }
}

#[test]
fn flipped_bit_before_the_end_is_reported_with_its_place() {
    let cluster = written(20);
    let follower = cluster.ids().into_iter().find(|&id| Some(id) != cluster.leader()).unwrap();
    cluster.crash(follower);
    let segment = segment(&cluster.folder(follower));
    let bytes = fs::read(&segment).unwrap();
    // In a value, more than a frame before the end.
    let place = bytes.windows(7).position(|window| window == b"slot 10").unwrap();
    assert!(place + 8192 < end(&bytes), "there are frames after it");
    flip(&segment, place);
    let error = cluster.try_start(follower).unwrap_err().to_string();
    assert!(error.contains("damaged") && error.contains(".log at byte"), "{error}");
    // The other members are a majority.
    let there = insist(&cluster.member(cluster.await_leader()), LOG, 10, b"another");
    assert_eq!(there, WriteResult::Taken("slot 10".into()));
}

#[test]
fn directory_of_another_member_is_refused() {
    let cluster = written(1);
    cluster.crash(1);
    cluster.crash(2);
    fs::rename(cluster.folder(1), cluster.folder(1).with_extension("kept")).unwrap();
    fs::rename(cluster.folder(2), cluster.folder(1)).unwrap();
    let error = cluster.try_start(1).unwrap_err().to_string();
    assert!(error.contains("member 2, not to 1"), "{error}");
}

#[test]
fn member_without_its_directory_gets_a_new_identity() {
    let cluster = written(5);
    cluster.crash(2);
    fs::remove_dir_all(cluster.folder(2)).unwrap();
    cluster.start(2);
    cluster.await_whole();
    for slot in 1..=5 {
        let there = insist(&cluster.member(2), LOG, slot, b"another");
        assert_eq!(there, WriteResult::Taken(format!("slot {slot}").into()));
    }
}
