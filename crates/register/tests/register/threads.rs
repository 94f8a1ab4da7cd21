//! The threads of the embedded engine: none waits for another without need, and a panic of any is the end of the process.

use std::io::Read;
use std::os::unix::process::ExitStatusExt;
use std::process::{Command, Stdio};
use std::sync::{Arc, mpsc};
use std::time::{Duration, Instant};

use jeton_register::disk::FaultDisk;
use jeton_register::embedded::{Embedded, ROWS_WAITING_MAX};
use jeton_register::{Failure, Registers, Row, Slot, Written, block_on};

use super::hooked::{Gate, HookedDisk};
use super::support::{SEGMENT_BYTES, one, options};

/// Nothing that is awaited takes as long as this, whatever else the machine does.
const PATIENCE: Duration = Duration::from_secs(30);

/// SIGABRT, which is how a process ends that ends itself.
const ABORTED: i32 = 6;

/// Tells the second process which thread is to panic.
const PANICKING: &str = "JETON_REGISTER_TEST_PANICKING";

const THREADS: [&str; 3] = ["jeton-log", "jeton-keeper", "jeton-rows"];

fn row(slot: u64) -> Row {
    Row { slot: Slot(slot), bytes: "content".into() }
}

/// Writes registers of log 1 until a few segments are full. A refusal that does not pass in time is returned.
fn fill_segments<R: Registers>(store: &R) -> Result<(), Failure> {
    let value = [7; 4000];
    let deadline = Instant::now() + PATIENCE;
    for slot in 1..=u64::from(3 * SEGMENT_BYTES / 4000) {
        let permit = loop {
            match store.admit(1, value.len()) {
                Ok(permit) => break permit,
                Err(Failure::Busy(_)) if Instant::now() < deadline => std::thread::yield_now(),
                Err(failure) => return Err(failure),
            }
        };
        assert_eq!(block_on(store.write(one(1, slot, &value), permit))?, [Written::Fresh]);
    }
    Ok(())
}

#[test]
fn segments_are_made_while_a_row_takes_long_to_be_stored() {
    let gate = Arc::new(Gate::default());
    let rows_gate = Arc::clone(&gate);
    let disk = HookedDisk::new(FaultDisk::new(), move |name| {
        if name.starts_with("rows") {
            rows_gate.pass();
        }
    });
    let store = Embedded::open(disk, options()).unwrap();
    gate.set_closed(true);
    let large = store.put_row("large", row(1));
    gate.await_somebody();
    // As many as may wait behind it, and no more.
    let waiting: Vec<_> = (0..ROWS_WAITING_MAX).map(|_| store.put_row("small", row(1))).collect();
    assert!(matches!(block_on(store.get_row("small")), Err(Failure::Busy(_))));

    let filled = fill_segments(&store);
    gate.set_closed(false);
    assert_eq!(filled, Ok(()));
    assert_eq!(block_on(large), Ok(true));
    // What was asked before the end is done, though the end comes first.
    store.close();
    for stored in waiting {
        assert_eq!(block_on(stored), Ok(true));
    }
    assert!(matches!(block_on(store.get_row("small")), Err(Failure::Unavailable(_))));
}

#[test]
fn a_row_that_fails_for_good_ends_writes_too() {
    let (sender, receiver) = mpsc::channel();
    let on_fatal = Box::new(move |why: &str| sender.send(why.to_owned()).unwrap());
    let disk = FaultDisk::new();
    let store = Embedded::open_with(disk.clone(), options(), on_fatal).unwrap();
    disk.set_sync_failing(true);
    assert!(matches!(block_on(store.put_row("row", row(1))), Err(Failure::Unknown(_))));
    let why = receiver.recv().unwrap();
    assert!(why.contains("row row"), "{why}");
    assert!(matches!(store.admit(1, 1), Err(Failure::Unavailable(_))));
    assert!(matches!(block_on(store.get_row("row")), Err(Failure::Unavailable(_))));
}

/// What the second process runs: this test program, told a thread. Run as a test of its own it has nothing to do.
#[test]
fn panics_in_the_thread_it_is_told() {
    let Ok(thread) = std::env::var(PANICKING) else { return };
    let disk = HookedDisk::new(FaultDisk::new(), move |_| {
        assert_ne!(std::thread::current().name(), Some(thread.as_str()), "as was wished for");
    });
    let store = Embedded::open(disk, options()).unwrap();
    // What is asked has no answer: the thread that should give it is gone.
    drop(store.put_row("row", row(1)));
    for slot in 1..=12 {
        if let Ok(permit) = store.admit(1, 4000) {
            drop(store.write(one(1, slot, &[7; 4000]), permit));
        }
    }
    // Until the other side kills us.
    let _ = std::io::stdin().lines().next();
}

#[test]
fn a_thread_that_panics_takes_the_process_with_it() {
    for thread in THREADS {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "threads::panics_in_the_thread_it_is_told", "--nocapture"])
            .env(PANICKING, thread)
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut stderr = child.stderr.take().unwrap();
        let (sender, said) = mpsc::channel();
        std::thread::spawn(move || {
            let mut text = String::new();
            stderr.read_to_string(&mut text).unwrap();
            sender.send(text).unwrap();
        });
        // Nobody closes the pipe but the end of the process.
        let ended = said.recv_timeout(PATIENCE);
        child.kill().unwrap();
        let status = child.wait().unwrap();
        let said = ended.unwrap_or_else(|_| panic!("{thread} panicked, and the process lives on"));
        assert_eq!(status.signal(), Some(ABORTED), "{thread}: {status}: {said}");
        assert!(said.contains(&format!("jeton: {thread} panicked")), "{said}");
    }
}
