//! Five members: any two may fail, a third one may not.

use std::time::Duration;

use jeton_register::conformance::block_on;
use jeton_register::conformance::{EngineLimits, conformance};
use jeton_register::{Error, LogId, Registers, Slot, WriteResult};

use crate::cluster::{Cluster, client, insist, write};

const LOG: LogId = LogId::partition(4);

fn two_of_five_fail(in_memory: bool) {
    let cluster = Cluster::of(5, in_memory, |settings| settings.timing.request = Duration::from_secs(5));
    cluster.start_all();
    cluster.await_whole();
    let mut slot = 0;
    let mut expected = Vec::new();
    let mut write_through = |id: u64| {
        slot += 1;
        let value = format!("slot {slot} by {id}");
        let written = insist(&cluster.member(id), LOG, slot, value.as_bytes());
        // A write whose outcome was unknown when the leader failed is found by the retry.
        assert!(
            written == WriteResult::Fresh || written == WriteResult::Taken(value.clone().into()),
            "{written:?}"
        );
        expected.push((Slot(slot), value.into()));
    };
    cluster.ids().into_iter().for_each(&mut write_through);
    // One of the two is the leader.
    let first = cluster.await_leader();
    cluster.crash(first);
    let second = cluster.ids().into_iter().find(|&id| id != first).unwrap();
    cluster.crash(second);
    let left: Vec<u64> = cluster.ids().into_iter().filter(|id| ![first, second].contains(id)).collect();
    for _ in 0..3 {
        left.iter().copied().for_each(&mut write_through);
    }
    // Two of five are not a majority.
    cluster.crash(left[0]);
    let failed = write(&cluster.member(left[1]), LogId::partition(6), 1, b"by two").unwrap_err();
    assert!(matches!(failed, Error::Unknown(_) | Error::Unavailable(_)), "{failed:?}");
    let failed = block_on(cluster.member(left[2]).read(LOG, Slot(1), 1)).unwrap_err();
    assert!(matches!(failed, Error::Unavailable(_)), "{failed:?}");
    if in_memory {
        // A majority has lost its log: the cluster cannot continue.
        return;
    }
    for id in [first, second, left[0]] {
        cluster.start(id);
    }
    cluster.await_whole();
    cluster.ids().into_iter().for_each(&mut write_through);
    for id in cluster.ids() {
        let read = cluster.await_that("a read", || block_on(cluster.member(id).read(LOG, Slot(1), 100)).ok());
        assert_eq!(read, expected, "at {id}");
    }
}

#[test]
fn two_of_five_fail_on_disk() {
    two_of_five_fail(false);
}

#[test]
fn two_of_five_fail_in_memory() {
    two_of_five_fail(true);
}

/// Pairs of members lose their logs, until all five have.
#[test]
fn pairs_in_memory_restart_with_new_identities() {
    let cluster = Cluster::of(5, true, |_| {});
    cluster.start_all();
    cluster.await_whole();
    for (round, pair) in (1..).zip([[1, 2], [3, 4], [5, 1]]) {
        assert_eq!(insist(&cluster.member(3), LOG, round, b"before"), WriteResult::Fresh);
        pair.into_iter().for_each(|id| cluster.crash(id));
        pair.into_iter().for_each(|id| cluster.start(id));
        cluster.await_whole();
        for slot in 1..=round {
            let there = insist(&cluster.member(pair[0]), LOG, slot, b"after");
            assert_eq!(there, WriteResult::Taken("before".into()), "slot {slot}");
        }
    }
}

#[test]
fn cluster_of_five_passes_the_suite() {
    let cluster = Cluster::of(5, false, |_| {});
    block_on(conformance(EngineLimits::without_objects(), async || {
        cluster.crash_all();
        cluster.start_all();
        client(&cluster)
    }));
}
