//! The threads of a wal: none waits for another without need, and a panic of any aborts the process.

use std::io::Read;
use std::os::unix::process::ExitStatusExt;
use std::process::{Command, Stdio};
use std::sync::{Arc, mpsc};
use std::time::{Duration, Instant};

use futures_executor::block_on;
use jeton_wal::disk::{Disk, FaultDisk};
use jeton_wal::{Blob, Error, Wal};

use super::gate::Gate;
use super::harness::{SEGMENT_BYTES, one, options};

/// Longer than anything that is awaited takes on a loaded machine.
const TIMEOUT: Duration = Duration::from_secs(30);

const SIGABRT: i32 = 6;

/// Names the thread that panics in the child process.
const PANICKING: &str = "JETON_WAL_TEST_PANICKING";

const THREADS: [&str; 2] = ["jeton-log", "jeton-segments"];

/// Appends to log 1 until a few segments are full. Returns a refusal that lasts.
fn fill_segments<D: Disk>(wal: &Wal<D>) -> Result<(), Error> {
    let entry = [7; 4000];
    let deadline = Instant::now() + TIMEOUT;
    for slot in 1..=u64::from(3 * SEGMENT_BYTES / 4000) {
        let reservation = loop {
            match wal.reserve(1, entry.len()) {
                Err(Error::Busy(_)) if Instant::now() < deadline => std::thread::yield_now(),
                other => break other?,
            }
        };
        block_on(wal.append(&one(1, slot, &entry), reservation)?)?;
    }
    Ok(())
}

#[test]
fn log_continues_while_a_blob_is_written() {
    let gate = Arc::new(Gate::default());
    let blobs_gate = Arc::clone(&gate);
    let disk = FaultDisk::new().with_hook(move |name| {
        if name.starts_with("rows") {
            blobs_gate.pass();
        }
    });
    let wal = Arc::new(Wal::open(disk, options()).unwrap());
    gate.set_closed(true);
    let blocked = Arc::clone(&wal);
    let blob =
        std::thread::spawn(move || blocked.put_blob("large", &Blob { version: 1, bytes: "content".into() }));
    gate.await_waiter();
    let filled = fill_segments(&*wal);
    gate.set_closed(false);
    assert_eq!(filled, Ok(()));
    assert_eq!(blob.join().unwrap(), Ok(true));
}

/// The child process: this test program with a thread in its environment. Without one it does nothing.
#[test]
fn child_panics_in_a_thread() {
    let Ok(thread) = std::env::var(PANICKING) else { return };
    let disk = FaultDisk::new().with_hook(move |_| {
        assert_ne!(std::thread::current().name(), Some(thread.as_str()), "injected");
    });
    let wal = Wal::open(disk, options()).unwrap();
    // No response comes: the thread that would give it is gone.
    for slot in 1..=12 {
        if let Ok(reservation) = wal.reserve(1, 4000) {
            drop(wal.append(&one(1, slot, &[7; 4000]), reservation));
        }
    }
    // Until the parent kills this process.
    let _ = std::io::stdin().lines().next();
}

#[test]
fn a_panic_in_a_thread_aborts_the_process() {
    for thread in THREADS {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "threads::child_panics_in_a_thread", "--nocapture"])
            .env(PANICKING, thread)
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut stderr = child.stderr.take().unwrap();
        let (sender, output) = mpsc::channel();
        std::thread::spawn(move || {
            let mut text = String::new();
            stderr.read_to_string(&mut text).unwrap();
            sender.send(text).unwrap();
        });
        // The pipe closes only when the process ends.
        let ended = output.recv_timeout(TIMEOUT);
        child.kill().unwrap();
        let status = child.wait().unwrap();
        let text = ended.unwrap_or_else(|_| panic!("{thread} panicked, and the process continues"));
        assert_eq!(status.signal(), Some(SIGABRT), "{thread}: {status}: {text}");
        assert!(text.contains(&format!("jeton: {thread} panicked")), "{text}");
    }
}
