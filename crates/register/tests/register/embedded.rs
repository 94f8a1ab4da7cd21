//! The embedded engine: compaction, limits, and what it does on a full disk.

use futures_executor::block_on;
use jeton_register::embedded::{EmbeddedRegisters, OpenError, Options};
use jeton_register::{Batch, Error, Extent, LogId, LogKind, Registers, Slot, WritePermit, WriteResult};
use jeton_wal::disk::{Disk, FaultDisk};
use jeton_wal::{LogId as WalLog, Wal};

pub const SEGMENT_BYTES: u32 = 64 << 10;

pub type Store = EmbeddedRegisters<FaultDisk>;

pub fn open(disk: &FaultDisk) -> Store {
    EmbeddedRegisters::open(disk.clone(), Options::small(SEGMENT_BYTES)).unwrap()
}

pub fn write(store: &Store, log: LogId, slot: u64, value: &[u8]) -> Result<WriteResult, Error> {
    retry(|| {
        let mut batch = Batch::new();
        batch.push(log, Slot(slot), value);
        let permit = store.admit(1, value.len())?;
        block_on(store.write(batch, permit)).map(|mut results| results.remove(0))
    })
}

/// Repeats a request while the next segment is being created.
pub fn retry<T>(mut request: impl FnMut() -> Result<T, Error>) -> Result<T, Error> {
    loop {
        match request() {
            Err(Error::Busy(_)) => std::thread::yield_now(),
            other => return other,
        }
    }
}

pub fn segments(disk: &FaultDisk) -> usize {
    disk.list("log").unwrap().iter().filter(|name| name.ends_with(".log")).count()
}

fn session(number: u128) -> LogId {
    LogId::transaction(number)
}

fn value_of(store: &Store, log: LogId, slot: u64) -> Option<Vec<u8>> {
    let read = block_on(store.read(log, Slot(slot), 1)).unwrap();
    read.into_iter().find(|(its, _)| its.0 == slot).map(|(_, value)| value.to_vec())
}

/// The deployment is written first and never trimmed; with it every segment stayed forever once.
#[test]
fn permanent_registers_do_not_block_segment_release() {
    let disk = FaultDisk::new();
    let store = open(&disk);
    write(&store, LogId::DEPLOYMENT, 1, b"deployment").unwrap();
    for number in 1..=500 {
        write(&store, session(number), 1, &[1; 1000]).unwrap();
    }
    assert!(segments(&disk) > 5);
    retry(|| block_on(store.retire(LogKind::Transaction, 501))).unwrap();
    drop(store);
    let store = open(&disk);
    assert!(segments(&disk) <= 3, "{} segments", segments(&disk));
    assert_eq!(write(&store, LogId::DEPLOYMENT, 1, b"x"), Ok(WriteResult::Taken("deployment".into())));
    for number in [1, 77, 500] {
        assert_eq!(write(&store, session(number), 9, b"late"), Ok(WriteResult::Trimmed));
        assert_eq!(block_on(store.extent(session(number))), Ok(Extent::RETIRED));
    }
    assert_eq!(write(&store, session(501), 9, b"new"), Ok(WriteResult::Fresh));
}

#[test]
fn disk_usage_is_bounded_by_live_registers() {
    let disk = FaultDisk::new();
    let mut store = open(&disk);
    // Registers that stay, one log with a trim point only, and a steady stream that is retired.
    for number in 1..=20 {
        write(&store, LogId { kind: LogKind::Deployment, id: number }, 65, &[number as u8; 300]).unwrap();
    }
    write(&store, session(1 << 100), 1, b"x").unwrap();
    retry(|| block_on(store.trim(session(1 << 100), Slot(64)))).unwrap();
    let mut most = 0;
    for number in 1..=2000u128 {
        assert_eq!(write(&store, session(number), 1, &[7; 500]), Ok(WriteResult::Fresh));
        if number.is_multiple_of(10) {
            retry(|| block_on(store.retire(LogKind::Transaction, number - 5))).unwrap();
        }
        most = most.max(segments(&disk));
    }
    // Eight megabytes of frames went through; the live registers fit into one segment.
    assert!(most <= 8, "{most} segments of {SEGMENT_BYTES} bytes");
    for reopened in [false, true] {
        if reopened {
            drop(store);
            store = open(&disk);
        }
        for number in 1..=20 {
            let (log, expected) = (LogId { kind: LogKind::Deployment, id: number }, vec![number as u8; 300]);
            assert_eq!(value_of(&store, log, 65), Some(expected.clone()), "{log}");
            assert_eq!(write(&store, log, 65, b"late"), Ok(WriteResult::Taken(expected.into())));
        }
        let extent = Extent { trimmed: Slot(64), last: Slot(1) };
        assert_eq!(block_on(store.extent(session(1 << 100))), Ok(extent));
        assert_eq!(write(&store, session(1 << 100), 64, b"late"), Ok(WriteResult::Trimmed));
        assert_eq!(write(&store, session(1994), 2, b"late"), Ok(WriteResult::Trimmed));
        assert_eq!(value_of(&store, session(1995), 1), Some(vec![7; 500]));
    }
}

#[test]
fn full_disk_is_usable_again_after_retiring() {
    let disk = FaultDisk::new();
    let store = open(&disk);
    write(&store, LogId::DEPLOYMENT, 1, b"deployment").unwrap();
    disk.set_free_space(Some(500_000));
    let mut number = 0;
    for _ in 0..5 {
        let error = loop {
            number += 1;
            match write(&store, session(number), 1, &[1; 500]) {
                Ok(result) => assert_eq!(result, WriteResult::Fresh),
                Err(error) => break error,
            }
        };
        assert!(matches!(error, Error::Full(_)), "{error}");
        retry(|| block_on(store.retire(LogKind::Transaction, number))).unwrap();
        // The release of the segments follows in the background.
        while matches!(store.admit(1, 500), Err(Error::Full(_) | Error::Busy(_))) {
            std::thread::yield_now();
        }
    }
    assert_eq!(write(&store, LogId::DEPLOYMENT, 1, b"x"), Ok(WriteResult::Taken("deployment".into())));
}

#[test]
fn memory_limit_refuses_writes_only() {
    let mut options = Options::small(SEGMENT_BYTES);
    options.bytes_max = 10_000;
    let store = EmbeddedRegisters::open(FaultDisk::new(), options).unwrap();
    let mut number = 0;
    let error = loop {
        number += 1;
        if let Err(error) = write(&store, session(number), 1, &[1; 500]) {
            break error;
        }
    };
    assert!(matches!(error, Error::Full(_)) && number > 10, "{error} after {number}");
    retry(|| block_on(store.retire(LogKind::Transaction, number))).unwrap();
    assert_eq!(write(&store, session(number), 1, &[1; 500]), Ok(WriteResult::Fresh));
}

#[test]
fn requests_above_the_limits_are_refused() {
    let store = open(&FaultDisk::new());
    let max = store.limits().value_bytes_max;
    let mut batch = Batch::new();
    batch.push(session(1), Slot(1), b"good");
    batch.push(session(1), Slot(2), &vec![0; max + 1]);
    let refused = block_on(store.write(batch, WritePermit::unlimited()));
    assert!(matches!(refused, Err(Error::TooLarge(_))), "{refused:?}");
    assert!(matches!(write(&store, session(1), u64::MAX, b"x"), Err(Error::Invalid(_))));
    assert!(matches!(block_on(store.retire(LogKind::Deployment, 5)), Err(Error::Invalid(_))));
    assert_eq!(block_on(store.extent(session(1))), Ok(Extent::default()));
    assert_eq!(write(&store, session(1), 1, &vec![3; max]), Ok(WriteResult::Fresh));
}

#[test]
fn log_of_another_owner_is_refused() {
    for log in [WalLog(0), WalLog(1)] {
        let disk = FaultDisk::new();
        let wal = Wal::open(disk.clone(), jeton_wal::Options::small(SEGMENT_BYTES)).unwrap();
        let mut batch = jeton_wal::Batch::new();
        batch.push(log, Slot(1), b"an entry of a partition");
        block_on(wal.append(&batch, wal.reserve(1, 100).unwrap()).unwrap()).unwrap();
        drop(wal);
        let error = EmbeddedRegisters::open(disk, Options::small(SEGMENT_BYTES)).err().unwrap();
        assert!(matches!(error, OpenError::Entry { .. }), "{error}");
        assert!(error.to_string().starts_with("log/0000000001.log at byte 41"), "{error}");
    }
}
