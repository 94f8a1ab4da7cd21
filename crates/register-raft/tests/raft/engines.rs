//! The conformance suite of engines, run against clusters.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use jeton_register::conformance::block_on;
use jeton_register::conformance::{EngineLimits, conformance};

use crate::cluster::{Cluster, client};

#[test]
fn cluster_on_disk() {
    let cluster = Cluster::new(false, |_| {});
    let passed = block_on(conformance(EngineLimits::without_objects(), async || {
        cluster.crash_all();
        cluster.start_all();
        client(&cluster)
    }));
    assert!(passed.len() >= 20, "{passed:?}");
}

#[test]
fn cluster_in_memory() {
    let cluster = Cluster::started(true);
    block_on(conformance(EngineLimits::without_objects(), async || {
        // One at a time: a restart of all members loses everything.
        for id in cluster.ids() {
            cluster.await_whole();
            cluster.crash(id);
            cluster.start(id);
        }
        cluster.await_whole();
        client(&cluster)
    }));
}

/// Runs the suite until `disturb` was called `times` times.
fn disturbed(cluster: &Arc<Cluster>, times: usize, disturb: impl Fn(usize) + Sync) {
    cluster.await_whole();
    let enough = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let disturber = scope.spawn(|| {
            for round in 0..times {
                disturb(round);
            }
            enough.store(true, Ordering::SeqCst);
        });
        // Each run retires its dated logs, so the next one starts above them.
        for run in 0.. {
            let terms = EngineLimits { first_log: run * 100, ..EngineLimits::without_objects() };
            block_on(conformance(terms, async || client(cluster)));
            if enough.load(Ordering::SeqCst) {
                break;
            }
        }
        disturber.join().unwrap();
    });
}

#[test]
fn cluster_with_crashes_of_one_member_at_a_time() {
    let cluster = Cluster::started(false);
    disturbed(&cluster, 8, |round| {
        // Every second time the leader.
        let victim = if round % 2 == 0 { cluster.await_leader() } else { cluster.ids()[round % 3] };
        cluster.crash(victim);
        let _ = cluster.await_leader();
        cluster.start(victim);
        cluster.await_whole();
    });
}

#[test]
fn cluster_with_partitions_of_the_leader() {
    let cluster = Cluster::started(false);
    disturbed(&cluster, 3, |_| {
        let victim = cluster.await_leader();
        cluster.isolate(victim);
        cluster.await_that("another leader", || {
            let others = cluster.ids().into_iter().filter(|&id| id != victim);
            others.into_iter().any(|id| cluster.member(id).leader() == Some(id)).then_some(())
        });
        cluster.rejoin(victim);
        cluster.await_that("the old leader follows", || {
            (cluster.member(victim).leader()? != victim).then_some(())
        });
    });
}
