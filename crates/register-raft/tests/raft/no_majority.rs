//! Requests without a majority, during a change of leader, and with a full state; the members as the leader
//! sees them.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use futures_executor::block_on;
use jeton_register::{Batch, Error, LogId, Registers, Slot, WriteResult};
use jeton_register_raft::MemberRole;

use crate::cluster::{Cluster, insist, write};

const LOG: LogId = LogId::partition(5);

#[test]
fn requests_without_a_majority_fail() {
    let cluster = Cluster::new(false, |settings| settings.timing.request = Duration::from_secs(3));
    cluster.start_all();
    cluster.await_whole();
    assert_eq!(insist(&cluster.member(1), LOG, 1, b"one"), WriteResult::Fresh);
    cluster.crash(2);
    cluster.crash(3);
    let member = cluster.member(1);
    let failed = write(&member, LOG, 2, b"two").unwrap_err();
    assert!(matches!(failed, Error::Unknown(_) | Error::Unavailable(_)), "{failed:?}");
    // The state of this member may be outdated.
    let failed = block_on(member.read(LOG, Slot(1), 10)).unwrap_err();
    assert!(matches!(failed, Error::Unavailable(_)), "{failed:?}");
    cluster.start(2);
    let two = insist(&member, LOG, 2, b"two");
    assert!(two == WriteResult::Fresh || two == WriteResult::Taken("two".into()), "{two:?}");
    let all = cluster.await_that("a read", || block_on(cluster.member(2).read(LOG, Slot(1), 10)).ok());
    assert_eq!(all, [(Slot(1), "one".into()), (Slot(2), "two".into())]);
}

/// The leader fails while a follower waits for its response. The follower retries with the next leader under
/// the same number.
#[test]
fn change_of_leader_is_invisible_to_callers() {
    let cluster = Cluster::started(false);
    let mut slot = 0;
    for _ in 0..4 {
        cluster.await_whole();
        let leader = cluster.await_leader();
        let follower = cluster.ids().into_iter().find(|&id| id != leader).unwrap();
        let member = cluster.member(follower);
        std::thread::scope(|scope| {
            let writer = scope.spawn(|| {
                for step in 1..=200 {
                    let written = write(&member, LOG, slot + step, b"mine").unwrap();
                    assert_eq!(written, WriteResult::Fresh, "slot {}", slot + step);
                }
            });
            cluster.await_that("some writes", || {
                let last = block_on(cluster.member(leader).extent(LOG)).unwrap().last;
                (last > Slot(slot + 20)).then_some(())
            });
            cluster.crash(leader);
            writer.join().unwrap();
        });
        slot += 200;
        cluster.start(leader);
    }
}

#[test]
fn batches_become_readable_in_order() {
    let cluster = Cluster::started(false);
    cluster.await_whole();
    for id in cluster.ids() {
        let member = cluster.member(id);
        let log = LogId::partition(100 + id as u16);
        let submit = |slot: u64| {
            let mut batch = Batch::new();
            batch.push(log, Slot(slot), &[1; 20_000]);
            let permit = member.admit(1, 20_000).unwrap();
            member.write(batch, permit)
        };
        // None waits for the one before.
        let responses: Vec<_> = (1..=400).map(submit).collect();
        for read in 0..20 {
            let there = block_on(cluster.member(1 + read % 3).read(log, Slot(1), 1000)).unwrap();
            assert!(there.iter().map(|(slot, _)| slot.0).eq(1..=there.len() as u64));
        }
        for response in responses {
            assert_eq!(block_on(response).unwrap(), [WriteResult::Fresh]);
        }
    }
}

#[test]
fn requests_above_the_limits_are_refused_at_once() {
    let cluster = Cluster::new(true, |_| {});
    cluster.start(1);
    let member = cluster.member(1);
    let size = member.limits().value_bytes_max;
    let mut permits = Vec::new();
    let busy = (0..100).find_map(|_| member.admit(1, size).map(|permit| permits.push(permit)).err());
    assert!(matches!(busy, Some(Error::Busy(_))), "{busy:?}");
    assert!(permits.len() > 32 && permits.len() < 64, "{}", permits.len());
    drop(permits);
    drop(member.admit(1, size).unwrap());
    let large = member.admit(1, member.limits().batch_bytes_max + 1).unwrap_err();
    assert!(matches!(large, Error::TooLarge(_)), "{large:?}");
    let large = block_on(
        member.put_blob("row", jeton_register::Blob { version: 1, bytes: vec![0; (8 << 20) + 1].into() }),
    );
    assert!(matches!(large, Err(Error::TooLarge(_))), "{large:?}");
}

#[test]
fn full_state_accepts_trims_only() {
    let cluster = Cluster::new(true, |settings| settings.state_bytes_max = 100_000);
    cluster.start_all();
    cluster.await_whole();
    let member = cluster.member(2);
    let early = member.admit(1, 10_000).unwrap();
    let full = (1..100).find_map(|slot| {
        // A read makes it apply the log, so that it knows its size.
        cluster.await_that("a read", || block_on(member.extent(LOG)).ok());
        write(&member, LOG, slot, &[0; 10_000]).err().map(|why| (slot, why))
    });
    let Some((slot, Error::Full(_))) = full else { panic!("{full:?}") };
    assert!((10..13).contains(&slot), "{slot}");
    let row = jeton_register::Blob { version: 1, bytes: "row".into() };
    assert!(matches!(block_on(member.put_blob("row", row)), Err(Error::Full(_))));
    // A write that was admitted before is executed.
    let mut batch = Batch::new();
    batch.push(LOG, Slot(slot), &[0; 10_000]);
    assert_eq!(block_on(member.write(batch, early)).unwrap(), [WriteResult::Fresh]);
    block_on(member.trim(LOG, Slot(slot))).unwrap();
    assert_eq!(insist(&member, LOG, slot + 1, &[0; 10_000]), WriteResult::Fresh);
}

/// Sets the flag on drop, also when the test fails.
struct Done<'a>(&'a AtomicBool);

impl Drop for Done<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::SeqCst);
    }
}

/// Callers that retry writes must not prevent the trim that frees space.
#[test]
fn full_state_is_trimmed_during_retried_writes() {
    let cluster = Cluster::new(true, |settings| settings.state_bytes_max = 100_000);
    cluster.start_all();
    cluster.await_whole();
    let member = cluster.member(2);
    let is_done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for log in 0..3 {
            let (member, is_done) = (&member, &is_done);
            scope.spawn(move || {
                let log = LogId::partition(20 + log);
                (1..).take_while(|_| !is_done.load(Ordering::SeqCst)).for_each(|slot| {
                    let _ = write(member, log, slot, &[0; 1_000]);
                });
            });
        }
        let done = Done(&is_done);
        cluster
            .await_that("a full state", || matches!(member.admit(1, 1), Err(Error::Full(_))).then_some(()));
        let trims = (0..3).map(|log| member.trim(LogId::partition(20 + log), Slot(1 << 40)));
        let trimmed: Vec<_> = trims.map(block_on).collect();
        drop(done);
        assert!(trimmed.iter().all(Result::is_ok), "{trimmed:?}");
    });
}

/// A member with a higher limit admits writes that the leader refuses.
#[test]
fn leader_refuses_writes_above_its_own_limit() {
    let cluster = Cluster::new(true, |settings| {
        settings.state_bytes_max = if settings.me == 2 { 10_000_000 } else { 100_000 };
    });
    cluster.start_all();
    cluster.await_whole();
    while cluster.await_leader() == 2 {
        cluster.crash(2);
        cluster.await_leader();
        cluster.start(2);
        cluster.await_whole();
    }
    let member = cluster.member(2);
    let full = (1..100).find_map(|slot| write(&member, LOG, slot, &[0; 10_000]).err().map(|why| (slot, why)));
    let Some((slot, Error::Full(_))) = full else { panic!("{full:?}") };
    assert!((18..23).contains(&slot), "{slot}");
    // A request that follows the error is not refused for it.
    block_on(member.trim(LOG, Slot(slot - 1))).unwrap();
    assert_eq!(insist(&member, LOG, slot, &[0; 10_000]), WriteResult::Fresh);
}

#[test]
fn leader_knows_when_it_last_heard_from_members() {
    let cluster = Cluster::started(true);
    cluster.await_whole();
    let leader = cluster.await_leader();
    let views = |id: u64| cluster.member(id).members();
    cluster.await_that("contact with all members", || {
        views(leader).iter().all(|view| view.last_seen.is_some()).then_some(())
    });
    let role = |id: u64| views(leader).iter().find(|view| view.id == id).unwrap().role;
    assert_eq!(role(leader), MemberRole::Leader);
    let crashed = cluster.ids().into_iter().find(|&id| id != leader).unwrap();
    let running = cluster.ids().into_iter().find(|&id| id != leader && id != crashed).unwrap();
    assert_eq!((role(crashed), role(running)), (MemberRole::Voter, MemberRole::Voter));
    cluster.crash(crashed);
    let age = |id: u64| {
        views(leader)
            .iter()
            .find(|view| view.id == id)
            .unwrap()
            .last_seen
            .map_or(Duration::MAX, |at| at.elapsed())
    };
    cluster.await_that("a suspicion", || {
        (age(crashed) > Duration::from_secs(1) && age(running) < Duration::from_millis(500)).then_some(())
    });
}
