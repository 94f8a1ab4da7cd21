//! Members with their logs in memory: a restarted member has lost everything, and does not count until it is
//! admitted again.

use std::time::{Duration, Instant};

use jeton_register::{Error, LogId, WriteResult};

use crate::cluster::{Cluster, insist, write};

const LOG: LogId = LogId::partition(7);

#[test]
fn restarted_member_is_admitted_and_gets_everything() {
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
            // At the end all members were restarted: every register was replicated each time.
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

/// Two of three members have a register, and one of the two restarts. It must not elect the third member,
/// which lacks the register.
#[test]
fn restarted_member_does_not_vote() {
    let cluster = Cluster::started(true);
    cluster.await_whole();
    let leader = cluster.await_leader();
    let [restarted, behind] = cluster.ids().into_iter().filter(|&id| id != leader).collect::<Vec<_>>()[..]
    else {
        panic!("three members")
    };
    cluster.isolate(behind);
    assert_eq!(insist(&cluster.member(leader), LOG, 1, b"agreed"), WriteResult::Fresh);
    // No leader can admit it, and the member that lacks the register is connected to it.
    cluster.isolate(leader);
    cluster.crash(restarted);
    cluster.start(restarted);
    for (from, to) in [(behind, restarted), (restarted, behind)] {
        cluster.join(from, to);
    }
    let begin = Instant::now();
    while begin.elapsed() < Duration::from_secs(4) {
        for id in [behind, restarted] {
            let leads = cluster.member(id).leader();
            assert!(leads != Some(behind) && leads != Some(restarted), "{id} reports leader {leads:?}");
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    let failed = write(&cluster.member(behind), LOG, 1, b"undone").unwrap_err();
    assert!(matches!(failed, Error::Unknown(_) | Error::Unavailable(_)), "{failed:?}");
    // Once the old leader is back, there is one value.
    cluster.rejoin(leader);
    cluster.rejoin(behind);
    cluster.await_whole();
    for id in cluster.ids() {
        let there = insist(&cluster.member(id), LOG, 1, b"undone");
        assert_eq!(there, WriteResult::Taken("agreed".into()), "at {id}");
    }
}

#[test]
fn minority_with_its_log_refuses_all_requests() {
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
fn restart_of_all_members_loses_everything() {
    let cluster = Cluster::started(true);
    cluster.await_whole();
    assert_eq!(insist(&cluster.member(1), LOG, 1, b"agreed"), WriteResult::Fresh);
    cluster.crash_all();
    cluster.start_all();
    cluster.await_whole();
    assert_eq!(insist(&cluster.member(1), LOG, 1, b"again"), WriteResult::Fresh);
}
