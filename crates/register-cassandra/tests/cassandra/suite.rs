//! The conformance suite of engines.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use jeton_register::conformance::{EngineLimits, Routed, block_on, conformance};
use jeton_register_cassandra::CassandraRegisters;
use jeton_testbed::{CASSANDRA_NODES, Cassandra};

use super::support::{Keyspace, short_timeouts};

/// Runs the suite while `disturb` runs again and again. Returns how often it ran.
fn disturbed(mut keyspace: Keyspace, mut disturb: impl FnMut(&mut Cassandra, usize) + Send) -> usize {
    let (done, responses) = (AtomicBool::new(false), Arc::new(AtomicU64::new(0)));
    let url = keyspace.url.clone();
    let open = async || loop {
        match CassandraRegisters::open(&url, short_timeouts()).await {
            Ok(engine) => {
                let engine = Arc::new(engine);
                let mut routed = Routed::new(move || Ok(Arc::clone(&engine)));
                routed.responses = Arc::clone(&responses);
                return routed;
            }
            Err(error) => println!("{error}"),
        }
    };
    let cluster = keyspace.cluster();
    thread::scope(|scope| {
        let disturber = scope.spawn(|| {
            for count in 0.. {
                // At least some requests succeed between two faults, so that the suite ends.
                let next = responses.load(Ordering::Relaxed) + 20;
                while responses.load(Ordering::Relaxed) < next {
                    if done.load(Ordering::Relaxed) {
                        return count;
                    }
                    thread::sleep(Duration::from_millis(10));
                }
                disturb(cluster, count);
            }
            unreachable!("the loop has no end")
        });
        let guard = Done(&done);
        block_on(conformance(EngineLimits::default(), open));
        drop(guard);
        disturber.join().unwrap()
    })
}

/// Sets the flag on drop, also when the suite panics.
struct Done<'a>(&'a AtomicBool);

impl Drop for Done<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

#[test]
fn engine_passes_the_suite() {
    let Some(keyspace) = Keyspace::new() else { return };
    let started = Instant::now();
    let passed = block_on(conformance(EngineLimits::default(), async || keyspace.open()));
    println!("{} checks in {:?}", passed.len(), started.elapsed());
    assert!(passed.len() >= 27, "{passed:?}");
}

#[test]
fn suite_passes_while_nodes_are_killed() {
    let Some(keyspace) = Keyspace::new() else { return };
    let kills = disturbed(keyspace, |cluster, count| {
        cluster.kill(count % CASSANDRA_NODES);
        cluster.restart(count % CASSANDRA_NODES).unwrap();
    });
    assert!(kills >= 2, "{kills}");
}

#[test]
fn suite_passes_while_nodes_are_paused() {
    let Some(keyspace) = Keyspace::new() else { return };
    let pauses = disturbed(keyspace, |cluster, count| {
        let node = count % CASSANDRA_NODES;
        cluster.pause(node);
        // Longer than the timeouts of the client and of the servers, every second time.
        thread::sleep(Duration::from_millis([300, 4_000][count % 2]));
        cluster.resume(node);
    });
    assert!(pauses >= 6, "{pauses}");
}
