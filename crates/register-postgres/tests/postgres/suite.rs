//! The suite that every engine passes.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use jeton_register::conformance::block_on;
use jeton_register::conformance::{EngineLimits, conformance};
use jeton_register_postgres::{Options, PostgresRegisters};
use jeton_testbed::{Postgres, Proxy};

use super::support::{Counted, Place};

/// Calls something again and again while the suite runs, each time after the engine gave so many answers more: so that it comes to an end on a slow
/// machine too.
fn meanwhile(url: &str, options: &Options, every: u64, mut trouble: impl FnMut(u64) + Send) -> u64 {
    let (done, answers) = (AtomicBool::new(false), Arc::new(AtomicU64::new(0)));
    let open = async || loop {
        match PostgresRegisters::open(url, options.clone()).await {
            Ok(engine) => return Counted { engine, answers: Arc::clone(&answers) },
            Err(error) => println!("{error}"),
        }
    };
    thread::scope(|scope| {
        let troubling = scope.spawn(|| {
            for count in 0.. {
                let wanted = answers.load(Ordering::Relaxed) + every + count * 7 % every;
                while answers.load(Ordering::Relaxed) < wanted {
                    if done.load(Ordering::Relaxed) {
                        return count;
                    }
                    thread::yield_now();
                }
                trouble(count);
            }
            unreachable!("numbers do not end")
        });
        let guard = Done(&done);
        block_on(conformance(EngineLimits::default(), open));
        drop(guard);
        troubling.join().unwrap()
    })
}

/// Work that panics is done too.
struct Done<'a>(&'a AtomicBool);

impl Drop for Done<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

#[test]
fn on_a_server_that_is_well() {
    let place = Place::new();
    let passed = block_on(conformance(EngineLimits::default(), async || place.open()));
    assert!(passed.len() >= 20, "{passed:?}");
}

#[test]
fn on_a_server_that_is_killed_again_and_again() {
    let mut place = Place::new();
    let url = place.postgres.url();
    let kills = meanwhile(&url, &Options::default(), 150, |_| {
        place.postgres.kill();
        place.postgres.restart().unwrap();
    });
    assert!(kills >= 3, "{kills}");
}

#[test]
fn behind_a_network_that_breaks_again_and_again() {
    let place = Place::new();
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    let proxy = runtime.block_on(Proxy::start(place.postgres.address())).unwrap();
    let url = Postgres::url_by(proxy.address());
    let mut options = Options::default();
    options.answer_patience = Duration::from_millis(500);
    let cuts = meanwhile(&url, &options, 30, |count| match count % 3 {
        0 => proxy.cut(),
        // What is asked comes through, the answer does not.
        1 => {
            proxy.hold_responses();
            thread::sleep(Duration::from_millis(15));
            proxy.cut();
            proxy.release();
        }
        // Nothing moves for longer than the engine has patience.
        _ if count % 9 == 2 => {
            proxy.hold();
            thread::sleep(Duration::from_millis(600));
            proxy.release();
        }
        _ => {}
    });
    assert!(cuts >= 10 && proxy.count_ever() >= 10, "{cuts}");
}
