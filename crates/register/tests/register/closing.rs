//! The end of a store, on a disk that takes what is written and on one that does not.

use std::sync::{Arc, mpsc};
use std::time::Duration;

use jeton_register::disk::FaultDisk;
use jeton_register::embedded::{Embedded, Journal};
use jeton_register::{Failure, Permit, Registers, Row, Slot, Written, block_on};

use super::hooked::{Gate, HookedDisk};
use super::support::{log, one, options, read_all, write};

/// Nothing that is awaited takes as long as this, whatever else the machine does.
const PATIENCE: Duration = Duration::from_secs(30);

/// Who comes back too early does so long before this.
const HASTE: Duration = Duration::from_millis(100);

type Answer = Result<Vec<Written>, Failure>;

/// The answer; or none, if it does not come.
fn await_answer(answer: impl Future<Output = Answer> + Send + 'static) -> Option<Answer> {
    let (sender, receiver) = mpsc::channel();
    std::thread::spawn(move || sender.send(block_on(answer)));
    receiver.recv_timeout(PATIENCE).ok()
}

/// Waits until the log has found no room.
fn await_stall(store: &Embedded<FaultDisk>) {
    while !matches!(store.admit(1, 1), Err(Failure::Full(_))) {
        std::thread::yield_now();
    }
}

fn begin(
    store: &Embedded<FaultDisk>,
    slot: u64,
    value: &[u8],
) -> impl Future<Output = Answer> + Send + 'static {
    store.write(one(1, slot, value), Permit::unlimited())
}

#[test]
fn winding_up_gives_up_what_finds_no_room_and_all_after_it() {
    let disk = FaultDisk::new();
    let store = Embedded::open(disk.clone(), options()).unwrap();
    assert_eq!(block_on(begin(&store, 1, b"acknowledged")), Ok(vec![Written::Fresh]));
    let (first, second) = (store.admit(1, 5).unwrap(), store.admit(1, 5).unwrap());
    disk.set_read_only(true);
    let first = store.write(one(1, 2, b"given"), first);
    await_stall(&store);
    // Staged behind the one that is stuck.
    let second = store.write(one(2, 1, b"up"), second);
    let trim = store.trim(log(1), Slot(1));
    assert!(matches!(block_on(trim), Err(Failure::Full(_))));

    store.wind_up();
    for answer in [await_answer(first), await_answer(second)] {
        let told =
            |text: &String| text.contains("closed before it was durable") && text.contains("read-only");
        assert!(matches!(&answer, Some(Err(Failure::Unknown(text))) if told(text)), "{answer:?}");
    }
    // Room that comes back is too late: somebody was told, and may ask elsewhere by now.
    disk.set_read_only(false);
    assert!(matches!(store.admit(1, 1), Err(Failure::Unavailable(_))));
    assert!(matches!(block_on(begin(&store, 3, b"late")), Err(Failure::Unavailable(_))));
    let row = Row { slot: Slot(1), bytes: "rests on what was given up".into() };
    assert!(matches!(block_on(store.put_row("row", row)), Err(Failure::Unavailable(_))));
    store.close();
    drop(store);

    assert_eq!(disk.bytes("rows/row"), None);
    let mut journal = Journal::open(disk, options()).unwrap();
    assert_eq!(read_all(&journal, 1), [(Slot(1), "acknowledged".into())]);
    assert_eq!(read_all(&journal, 2), []);
    assert_eq!(write(&mut journal, &one(1, 2, b"again")).unwrap(), [Written::Fresh]);
}

#[test]
fn winding_up_tries_once_more_what_had_found_no_room() {
    let disk = FaultDisk::new();
    let store = Embedded::open(disk.clone(), options()).unwrap();
    disk.set_read_only(true);
    let before = disk.operations();
    let answer = begin(&store, 1, b"stuck");
    // The log's thread has tried. Nobody asks for room, which would let it try again.
    while disk.operations() == before {
        std::thread::yield_now();
    }
    disk.set_read_only(false);
    store.wind_up();
    assert_eq!(await_answer(answer), Some(Ok(vec![Written::Fresh])));
    // There is room: it goes on until it is closed.
    assert_eq!(await_answer(begin(&store, 2, b"taken")), Some(Ok(vec![Written::Fresh])));
    let row = Row { slot: Slot(1), bytes: "taken".into() };
    assert_eq!(block_on(store.put_row("row", row)), Ok(true));
    store.close();
    drop(store);
    assert_eq!(read_all(&Journal::open(disk, options()).unwrap(), 1).len(), 2);
}

#[test]
fn closing_makes_durable_what_was_asked_and_refuses_the_rest() {
    let disk = FaultDisk::new();
    let store = Embedded::open(disk.clone(), options()).unwrap();
    let permit = store.admit(1, 1).unwrap();
    let answer = store.write(one(1, 1, b"x"), permit);
    store.close();
    assert_eq!(block_on(answer).unwrap(), [Written::Fresh]);
    assert!(matches!(store.admit(1, 1), Err(Failure::Unavailable(_))));
    drop(store);
    let journal = Journal::open(disk, options()).unwrap();
    assert_eq!(read_all(&journal, 1).len(), 1);
}

#[test]
fn closing_tries_once_more_what_the_disk_had_refused() {
    for lifted in [true, false] {
        let disk = FaultDisk::new();
        let store = Embedded::open(disk.clone(), options()).unwrap();
        let permit = store.admit(1, 1).unwrap();
        disk.set_read_only(true);
        let answer = store.write(one(1, 1, b"x"), permit);
        disk.set_read_only(!lifted);
        store.close();
        let answer = block_on(answer);
        assert!(
            if lifted { answer.is_ok() } else { matches!(answer, Err(Failure::Unknown(_))) },
            "{answer:?}"
        );
    }
}

#[test]
fn whoever_closes_at_the_same_time_waits_for_the_same_end() {
    let gate = Arc::new(Gate::default());
    let log_gate = Arc::clone(&gate);
    let disk = HookedDisk::new(FaultDisk::new(), move |_| log_gate.pass());
    let store = Arc::new(Embedded::open(disk, options()).unwrap());
    gate.set_closed(true);
    let answer = store.write(one(1, 1, b"on its way"), Permit::unlimited());
    gate.await_somebody();
    let (sender, closed) = mpsc::channel();
    for _ in 0..2 {
        let (store, sender) = (Arc::clone(&store), sender.clone());
        std::thread::spawn(move || {
            store.close();
            sender.send(()).unwrap();
        });
    }
    assert!(closed.recv_timeout(HASTE).is_err(), "it is not closed while the log is being written");
    gate.set_closed(false);
    for _ in 0..2 {
        closed.recv_timeout(PATIENCE).unwrap();
    }
    assert_eq!(block_on(answer), Ok(vec![Written::Fresh]));
}
