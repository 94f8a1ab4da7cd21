//! Logs of older versions: those of partitions open, those with registers of transactions are refused.

use jeton_wal::{Extent, Journal, OpenError, Options, Slot};

use super::harness::{append, fixture, log, one, options, read_all};

/// Written by the program that had format version 2.
const LOG: &str = include_str!("../fixtures/log-version-2.txt");
const REGISTERS: &str = include_str!("../../../register/tests/fixtures/registers-version-2.txt");

#[test]
fn version_2_log_opens_and_continues() {
    let disk = fixture(LOG);
    for round in 0..2 {
        let mut journal = Journal::open(disk.clone(), options()).unwrap();
        let entry = |log: u16, slot: u64| (slot, format!("entry {log}.{slot}").into_bytes());
        assert_eq!(read_all(&journal, 1)[..2], [entry(1, 19), entry(1, 20)]);
        assert_eq!(read_all(&journal, 2), [entry(2, 18), entry(2, 19), entry(2, 20)]);
        assert_eq!(read_all(&journal, 255), []);
        assert_eq!(read_all(&journal, 7), [entry(7, 101)]);
        assert_eq!(journal.extent(log(255)).unwrap(), Extent { trimmed: Slot(20), last: Slot(20) });
        assert_eq!(journal.extent(log(7)).unwrap(), Extent { trimmed: Slot(100), last: Slot(101) });
        append(&mut journal, &one(1, 21 + round, b"new")).unwrap();
        assert_eq!(read_all(&journal, 1).len() as u64, 3 + round);
    }
}

#[test]
fn version_2_registers_are_refused_unchanged() {
    let disk = fixture(REGISTERS);
    let before = disk.operations();
    let error = Journal::open(disk.clone(), options()).err().unwrap();
    assert!(matches!(error, OpenError::OldRegisters { .. }), "{error}");
    assert!(error.to_string().contains("jeton migrate"), "{error}");
    assert_eq!(disk.operations(), before, "the directory was changed");
}

#[test]
fn unknown_version_and_bad_options_are_refused() {
    let disk = jeton_wal::disk::FaultDisk::new();
    drop(Journal::open(disk.clone(), options()).unwrap());
    let newer = disk.copy();
    newer.flip_bit("log/0000000001.log", 8, 2);
    let error = Journal::open(newer, options()).err().unwrap();
    assert!(matches!(error, OpenError::Version { found: 7, expected: 3, .. }), "{error}");
    assert!(error.to_string().contains("log/0000000001.log"), "{error}");
    let bad = Options::small(100_000);
    assert!(matches!(Journal::open(disk, bad), Err(OpenError::Options(_))));
}
