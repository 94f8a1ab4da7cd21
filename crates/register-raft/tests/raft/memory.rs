//! Members whose logs are in memory: whoever ends has forgotten everything, and counts for nothing until it is let in again.

use std::time::{Duration, Instant};

use jeton_register::{Error, LogId, WriteResult};

use crate::cluster::{Cluster, insist, write};

const LOG: LogId = LogId::partition(7);

#[test]
fn a_member_that_forgot_is_let_in_anew_and_gets_everything() {
    let cluster = Cluster::started(true);
    cluster.await_whole();
    for round in 0..3 {
        for id in cluster.ids() {
            let slot = round * 10 + id;
            let value = format!("slot {slot}");
            assert_eq!(insist(&cluster.member(id), LOG, slot, value.as_bytes()), WriteResult::Fresh);
            cluster.crash(id);
            cluster.start(id);
            cluster.await_whole();
            // All were ended in the end: what there is was handed on each time.
            for known in (0..=round).flat_map(|round| (1..=3).map(move |id| round * 10 + id)) {
                if known > slot {
                    continue;
                }
                let there = insist(&cluster.member(id), LOG, known, b"another");
                assert_eq!(there, WriteResult::Taken(format!("slot {known}").into()), "slot {known}");
            }
        }
    }
}

/// Two of three hold a register, and one of these ends. The third alone must not elect anybody together with what came back empty.
#[test]
fn a_member_that_forgot_does_not_help_to_elect() {
    let cluster = Cluster::started(true);
    cluster.await_whole();
    let leader = cluster.await_leader();
    let [forgets, behind] = cluster.ids().into_iter().filter(|&id| id != leader).collect::<Vec<_>>()[..]
    else {
        panic!("three members")
    };
    cluster.isolate(behind);
    assert_eq!(insist(&cluster.member(leader), LOG, 1, b"agreed"), WriteResult::Fresh);
    // Nobody is left who could let it in, and the one that lacks the register is back.
    cluster.isolate(leader);
    cluster.crash(forgets);
    cluster.start(forgets);
    for (from, to) in [(behind, forgets), (forgets, behind)] {
        cluster.join(from, to);
    }
    let begin = Instant::now();
    while begin.elapsed() < Duration::from_secs(4) {
        for id in [behind, forgets] {
            let leads = cluster.member(id).leader();
            assert!(leads != Some(behind) && leads != Some(forgets), "{id} is led by {leads:?}");
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    let failed = write(&cluster.member(behind), LOG, 1, b"undone").unwrap_err();
    assert!(matches!(failed, Error::Unknown(_) | Error::Unavailable(_)), "{failed:?}");
    // Once the one that knows is back, there is one answer.
    cluster.rejoin(leader);
    cluster.rejoin(behind);
    cluster.await_whole();
    for id in cluster.ids() {
        let there = insist(&cluster.member(id), LOG, 1, b"undone");
        assert_eq!(there, WriteResult::Taken("agreed".into()), "at {id}");
    }
}

#[test]
fn a_rest_without_majority_stays_out_of_reach() {
    let cluster = Cluster::started(true);
    cluster.await_whole();
    assert_eq!(insist(&cluster.member(1), LOG, 1, b"agreed"), WriteResult::Fresh);
    for id in [1, 2] {
        cluster.crash(id);
    }
    for id in [1, 2] {
        cluster.start(id);
    }
    for id in cluster.ids() {
        let failed = write(&cluster.member(id), LOG, 2, b"more").unwrap_err();
        assert!(matches!(failed, Error::Unknown(_) | Error::Unavailable(_)), "{id}: {failed:?}");
    }
}

#[test]
fn all_that_end_together_begin_with_nothing() {
    let cluster = Cluster::started(true);
    cluster.await_whole();
    assert_eq!(insist(&cluster.member(1), LOG, 1, b"agreed"), WriteResult::Fresh);
    cluster.crash_all();
    cluster.start_all();
    cluster.await_whole();
    assert_eq!(insist(&cluster.member(1), LOG, 1, b"again"), WriteResult::Fresh);
}
