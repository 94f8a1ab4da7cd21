//! The suite that every engine passes, against a cluster.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use jeton_register::conformance::block_on;
use jeton_register::conformance::{EngineLimits, conformance};

use crate::cluster::{Client, Cluster};

#[test]
fn a_cluster_passes_the_suite() {
    let cluster = Cluster::new(false, |_| {});
    let passed = block_on(conformance(EngineLimits::default(), async || {
        cluster.crash_all();
        cluster.start_all();
        Client(Arc::clone(&cluster))
    }));
    assert!(passed.len() >= 20, "{passed:?}");
}

#[test]
fn a_cluster_in_memory_passes_the_suite() {
    let cluster = Cluster::started(true);
    block_on(conformance(EngineLimits::default(), async || {
        // All at once would lose everything, and is meant to.
        for id in cluster.ids() {
            cluster.await_whole();
            cluster.crash(id);
            cluster.start(id);
        }
        cluster.await_whole();
        Client(Arc::clone(&cluster))
    }));
}

/// Runs the suite as often as needed while `disturb` is called again and again, at least `times`.
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
        // Dated logs are retired by each run, so that each begins above the one before.
        for run in 0.. {
            let terms = EngineLimits { first_log: run * 100, ..EngineLimits::default() };
            block_on(conformance(terms, async || Client(Arc::clone(cluster))));
            if enough.load(Ordering::SeqCst) {
                break;
            }
        }
        disturber.join().unwrap();
    });
}

#[test]
fn a_cluster_passes_the_suite_while_members_crash_one_at_a_time() {
    let cluster = Cluster::started(false);
    disturbed(&cluster, 8, |round| {
        // The leader every other time.
        let victim = if round % 2 == 0 { cluster.await_leader() } else { cluster.ids()[round % 3] };
        cluster.crash(victim);
        let _ = cluster.await_leader();
        cluster.start(victim);
        cluster.await_whole();
    });
}

#[test]
fn a_cluster_passes_the_suite_while_its_leader_is_cut_off() {
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
