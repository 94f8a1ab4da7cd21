//! The conformance suite of engines.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use jeton_register::conformance::block_on;
use jeton_register::conformance::{EngineLimits, Routed, conformance};
use jeton_register_postgres::{Options, PostgresRegisters};
use jeton_testbed::{Postgres, Proxy};

use super::support::Server;

/// Runs the suite, and calls `disturb` each time after at least `every` more responses, so that the suite
/// also ends on a slow machine. Returns the number of calls.
fn disturbed(url: &str, options: &Options, every: u64, mut disturb: impl FnMut(u64) + Send) -> u64 {
    let (done, responses) = (AtomicBool::new(false), Arc::new(AtomicU64::new(0)));
    let open = async || loop {
        match PostgresRegisters::open(url, options.clone()).await {
            Ok(engine) => {
                let engine = Arc::new(engine);
                let mut routed = Routed::new(move || Ok(Arc::clone(&engine)));
                routed.responses = Arc::clone(&responses);
                return routed;
            }
            Err(error) => println!("{error}"),
        }
    };
    thread::scope(|scope| {
        let disturber = scope.spawn(|| {
            for count in 0.. {
                let next = responses.load(Ordering::Relaxed) + every + count * 7 % every;
                while responses.load(Ordering::Relaxed) < next {
                    if done.load(Ordering::Relaxed) {
                        return count;
                    }
                    thread::yield_now();
                }
                disturb(count);
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
    let server = Server::new();
    let passed = block_on(conformance(EngineLimits::default(), async || server.open()));
    assert!(passed.len() >= 20, "{passed:?}");
}

#[test]
fn suite_passes_with_server_crashes() {
    let mut server = Server::new();
    let url = server.postgres.url();
    let kills = disturbed(&url, &Options::default(), 150, |_| {
        server.postgres.kill();
        server.postgres.restart().unwrap();
    });
    assert!(kills >= 3, "{kills}");
}

#[test]
fn suite_passes_with_network_failures() {
    let server = Server::new();
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    let proxy = runtime.block_on(Proxy::start(server.postgres.address())).unwrap();
    let url = Postgres::url_by(proxy.address());
    let mut options = Options::default();
    options.statement_timeout = Duration::from_millis(500);
    let cuts = disturbed(&url, &options, 30, |count| match count % 3 {
        0 => proxy.cut(),
        // Requests arrive, responses do not.
        1 => {
            proxy.hold_responses();
            thread::sleep(Duration::from_millis(15));
            proxy.cut();
            proxy.release();
        }
        // No traffic for longer than the statement timeout.
        _ if count % 9 == 2 => {
            proxy.hold();
            thread::sleep(Duration::from_millis(600));
            proxy.release();
        }
        _ => {}
    });
    assert!(cuts >= 10 && proxy.count_ever() >= 10, "{cuts}");
}
