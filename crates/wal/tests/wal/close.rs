//! Closing a wal, on a disk that accepts writes and on one that does not.

use std::sync::{Arc, mpsc};
use std::time::Duration;

use futures_executor::block_on;
use jeton_wal::disk::{Disk, FaultDisk};
use jeton_wal::{Blob, DurableAt, Error, Journal, Slot, Wal};

use super::gate::Gate;
use super::harness::{append, log, one, options, read_all};

/// Longer than anything that is awaited takes on a loaded machine.
const TIMEOUT: Duration = Duration::from_secs(30);

/// A call that returns too early does so long before this.
const EARLY: Duration = Duration::from_millis(100);

/// The result, or `None` if it does not come.
fn await_result(durable: DurableAt) -> Option<Result<(), Error>> {
    let (sender, receiver) = mpsc::channel();
    std::thread::spawn(move || sender.send(block_on(durable)));
    receiver.recv_timeout(TIMEOUT).ok()
}

/// Waits until the log thread has found no space.
fn await_stall(wal: &Wal<FaultDisk>) {
    while !matches!(wal.reserve(1, 1), Err(Error::Full(_))) {
        std::thread::yield_now();
    }
}

fn begin<D: Disk>(wal: &Wal<D>, slot: u64, entry: &[u8]) -> DurableAt {
    let reservation = wal.reserve(1, entry.len()).unwrap();
    wal.append(&one(1, slot, entry), reservation).unwrap()
}

#[test]
fn stop_waiting_drops_what_finds_no_space() {
    let disk = FaultDisk::new();
    let wal = Wal::open(disk.clone(), options()).unwrap();
    assert_eq!(block_on(begin(&wal, 1, b"acknowledged")), Ok(()));
    let (first, second) = (wal.reserve(1, 7).unwrap(), wal.reserve(1, 7).unwrap());
    disk.set_read_only(true);
    let first = wal.append(&one(1, 2, b"dropped"), first).unwrap();
    await_stall(&wal);
    // Appended after the one that is stuck.
    let second = wal.append(&one(2, 1, b"dropped"), second).unwrap();
    assert!(matches!(wal.trim(&[(log(1), Slot(1))]), Err(Error::Full(_))));

    wal.stop_waiting_for_space();
    for result in [await_result(first), await_result(second)] {
        let expected =
            |text: &String| text.contains("closed before it was durable") && text.contains("read-only");
        assert!(matches!(&result, Some(Err(Error::Unknown(text))) if expected(text)), "{result:?}");
    }
    // Space comes too late: the callers have the error, and may have retried elsewhere.
    disk.set_read_only(false);
    assert!(matches!(wal.reserve(1, 1), Err(Error::Unavailable(_))));
    let blob = Blob { version: 1, bytes: "depends on a dropped append".into() };
    assert!(matches!(wal.put_blob("blob", &blob), Err(Error::Unavailable(_))));
    wal.close();
    drop(wal);

    assert_eq!(disk.bytes("rows/blob"), None);
    let mut journal = Journal::open(disk, options()).unwrap();
    assert_eq!(read_all(&journal, 1), [(1, b"acknowledged".to_vec())]);
    assert_eq!(read_all(&journal, 2), []);
    append(&mut journal, &one(1, 2, b"again")).unwrap();
}

#[test]
fn stop_waiting_retries_once() {
    let disk = FaultDisk::new();
    let wal = Wal::open(disk.clone(), options()).unwrap();
    let reservation = wal.reserve(1, 5).unwrap();
    disk.set_read_only(true);
    let before = disk.operations();
    let durable = wal.append(&one(1, 1, b"stuck"), reservation).unwrap();
    // The log thread has tried. No caller asks for space, which would trigger a retry.
    while disk.operations() == before {
        std::thread::yield_now();
    }
    disk.set_read_only(false);
    wal.stop_waiting_for_space();
    assert_eq!(await_result(durable), Some(Ok(())));
    // There is space: it continues until it is closed.
    assert_eq!(await_result(begin(&wal, 2, b"taken")), Some(Ok(())));
    let blob = Blob { version: 1, bytes: "taken".into() };
    assert_eq!(wal.put_blob("blob", &blob), Ok(true));
    wal.close();
    drop(wal);
    assert_eq!(read_all(&Journal::open(disk, options()).unwrap(), 1).len(), 2);
}

#[test]
fn close_flushes_and_then_refuses() {
    let disk = FaultDisk::new();
    let wal = Wal::open(disk.clone(), options()).unwrap();
    let durable = begin(&wal, 1, b"x");
    wal.close();
    assert_eq!(block_on(durable), Ok(()));
    assert!(matches!(wal.reserve(1, 1), Err(Error::Unavailable(_))));
    assert!(matches!(wal.get_blob("blob"), Err(Error::Unavailable(_))));
    drop(wal);
    let journal = Journal::open(disk, options()).unwrap();
    assert_eq!(read_all(&journal, 1).len(), 1);
}

#[test]
fn close_retries_what_the_disk_refused() {
    for lifted in [true, false] {
        let disk = FaultDisk::new();
        let wal = Wal::open(disk.clone(), options()).unwrap();
        let reservation = wal.reserve(1, 1).unwrap();
        disk.set_read_only(true);
        let durable = wal.append(&one(1, 1, b"x"), reservation).unwrap();
        disk.set_read_only(!lifted);
        wal.close();
        let result = block_on(durable);
        assert!(if lifted { result.is_ok() } else { matches!(result, Err(Error::Unknown(_))) }, "{result:?}");
    }
}

#[test]
fn concurrent_close_calls_wait_for_the_end() {
    let gate = Arc::new(Gate::default());
    let log_gate = Arc::clone(&gate);
    let disk = FaultDisk::new().with_hook(move |_| log_gate.pass());
    let wal = Arc::new(Wal::open(disk, options()).unwrap());
    gate.set_closed(true);
    let durable = begin(&wal, 1, b"in flight");
    gate.await_waiter();
    let (sender, closed) = mpsc::channel();
    for _ in 0..2 {
        let (wal, sender) = (Arc::clone(&wal), sender.clone());
        std::thread::spawn(move || {
            wal.close();
            sender.send(()).unwrap();
        });
    }
    assert!(closed.recv_timeout(EARLY).is_err(), "closed while the log is being written");
    gate.set_closed(false);
    for _ in 0..2 {
        closed.recv_timeout(TIMEOUT).unwrap();
    }
    assert_eq!(block_on(durable), Ok(()));
}
