//! The suite that every engine passes.

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use jeton_register::block_on;
use jeton_register::conformance::{Terms, conformance};
use jeton_register_postgres::{Options, PostgresRegisters, create_schema};
use jeton_testbed::{Postgres, Proxy};

use super::support::Place;

/// Calls something again and again until the work is done.
fn meanwhile<T>(mut trouble: impl FnMut() + Send, work: impl FnOnce() -> T) -> T {
    let done = AtomicBool::new(false);
    thread::scope(|scope| {
        let troubling = scope.spawn(|| {
            while !done.load(Ordering::Relaxed) {
                trouble();
            }
        });
        let guard = Done(&done);
        let result = work();
        drop(guard);
        troubling.join().unwrap();
        result
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
    let passed = block_on(conformance(Terms::default(), async || place.open()));
    assert!(passed.len() >= 20, "{passed:?}");
}

#[test]
fn on_a_server_that_is_killed_again_and_again() {
    let place = Place::new();
    let url = place.postgres.url();
    let place = Mutex::new(place);
    let mut kills = 0;
    let kill = || {
        // How far the suite comes in between is left to chance.
        thread::sleep(Duration::from_millis(150 + 130 * (kills % 7)));
        let postgres = &mut place.lock().unwrap().postgres;
        postgres.kill();
        postgres.restart().unwrap();
        kills += 1;
    };
    let open = async || loop {
        match PostgresRegisters::open(&url, Options::default()).await {
            Ok(engine) => return engine,
            Err(error) => println!("{error}"),
        }
    };
    meanwhile(kill, || block_on(conformance(Terms::default(), open)));
    println!("killed {kills} times");
    assert!(kills >= 3, "{kills}");
}

#[test]
fn behind_a_network_that_breaks_again_and_again() {
    let place = Place::new();
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    let proxy = runtime.block_on(Proxy::start(place.postgres.address())).unwrap();
    let url = Postgres::url_by(proxy.address());
    block_on(create_schema(&url)).unwrap();
    let mut options = Options::default();
    options.answer_patience = Duration::from_millis(300);
    let mut cuts = 0;
    let cut = || {
        thread::sleep(Duration::from_millis(20 + 17 * (cuts % 5)));
        match cuts % 3 {
            0 => proxy.cut(),
            // What is asked comes through, the answer does not.
            1 => {
                proxy.hold_answers();
                thread::sleep(Duration::from_millis(15));
                proxy.cut();
                proxy.release();
            }
            // Nothing moves for longer than the engine has patience.
            _ if cuts % 9 == 2 => {
                proxy.hold();
                thread::sleep(Duration::from_millis(400));
                proxy.release();
            }
            _ => {}
        }
        cuts += 1;
    };
    let open = async || loop {
        match PostgresRegisters::open(&url, options.clone()).await {
            Ok(engine) => return engine,
            Err(error) => println!("{error}"),
        }
    };
    meanwhile(cut, || block_on(conformance(Terms::default(), open)));
    println!("broken {cuts} times, {} connections", proxy.count_ever());
    assert!(proxy.count_ever() >= 10);
}
