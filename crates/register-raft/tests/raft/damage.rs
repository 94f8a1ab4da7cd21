//! Logs that are torn at the end, which is mended, and damaged before it, which is not.

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

/// Where the last byte is that is not zero.
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

/// A write that was under way when the power failed is there in part. It was never acknowledged.
#[test]
fn a_torn_end_is_cut_and_nothing_is_lost() {
    let cluster = written(20);
    cluster.crash_all();
    for id in cluster.ids() {
        let segment = segment(&cluster.folder(id));
        let bytes = fs::read(&segment).unwrap();
        let next = (end(&bytes) / BLOCK + 1) * BLOCK;
        // It looks like a frame of this log, and is not whole.
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

/// Damage to the very last record looks like a torn write, and is cut as one. The others, who have it all, fill it again.
#[test]
fn a_log_that_lost_its_last_record_is_filled_by_the_others() {
    let cluster = written(20);
    for id in cluster.ids() {
        for other in cluster.ids() {
            cluster.await_that("everything is everywhere", || {
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
fn a_flipped_bit_in_the_middle_is_refused_with_its_place() {
    let cluster = written(20);
    let follower = cluster.ids().into_iter().find(|&id| Some(id) != cluster.leader()).unwrap();
    cluster.crash(follower);
    let segment = segment(&cluster.folder(follower));
    let bytes = fs::read(&segment).unwrap();
    // One of the values, well before the end.
    let place = bytes.windows(7).position(|window| window == b"slot 10").unwrap();
    assert!(place + 8192 < end(&bytes), "something is durable after it");
    flip(&segment, place);
    let error = cluster.try_start(follower).unwrap_err().to_string();
    assert!(error.contains("damaged") && error.contains(".log at byte"), "{error}");
    // The others do not need it.
    let there = insist(&cluster.member(cluster.await_leader()), LOG, 10, b"another");
    assert_eq!(there, WriteResult::Taken("slot 10".into()));
}

#[test]
fn a_folder_is_that_of_one_member() {
    let cluster = written(1);
    cluster.crash(1);
    cluster.crash(2);
    fs::rename(cluster.folder(1), cluster.folder(1).with_extension("kept")).unwrap();
    fs::rename(cluster.folder(2), cluster.folder(1)).unwrap();
    let error = cluster.try_start(1).unwrap_err().to_string();
    assert!(error.contains("member 2, not of 1"), "{error}");
}

#[test]
fn a_member_that_lost_its_folder_comes_back_as_another() {
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
