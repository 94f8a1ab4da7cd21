//! Registers of format version 2 are refused, and converted.

use std::path::Path;

use futures_executor::block_on;
use jeton_register::embedded::{EmbeddedRegisters, Options};
use jeton_register::{Blob, Extent, LogId, LogKind, MigrateReport, Registers, Slot, migrate};
use jeton_wal::disk::RealDisk;

/// Written by the program that had format version 2: 64 KiB segments, sessions 1 to 110, some trimmed,
/// retired below 36.
const FIXTURE: &str = include_str!("../fixtures/registers-version-2.txt");

/// Creates the files of a fixture: lines `file NAME LENGTH`, and `at OFFSET HEX` for their content other than
/// zeros.
fn unpack(fixture: &str, folder: &Path) {
    let mut file = None;
    for line in fixture.lines() {
        let words: Vec<&str> = line.split(' ').collect();
        match words[..] {
            ["file", name, bytes] => {
                let path = folder.join(name);
                std::fs::create_dir_all(path.parent().unwrap()).unwrap();
                let new = std::fs::File::create(path).unwrap();
                new.set_len(bytes.parse().unwrap()).unwrap();
                file = Some(new);
            }
            ["at", offset, hex] => {
                let digits = hex.as_bytes().chunks(2).map(|pair| std::str::from_utf8(pair).unwrap());
                let bytes: Vec<u8> = digits.map(|pair| u8::from_str_radix(pair, 16).unwrap()).collect();
                let file = file.as_ref().unwrap();
                std::os::unix::fs::FileExt::write_all_at(file, &bytes, offset.parse().unwrap()).unwrap();
            }
            _ => panic!("{line}"),
        }
    }
}

fn open(folder: &Path) -> Result<EmbeddedRegisters<RealDisk>, String> {
    let registers = EmbeddedRegisters::open(RealDisk::new(folder).unwrap(), Options::default());
    registers.map_err(|error| {
        assert!(error.is_old_format(), "{error}");
        error.to_string()
    })
}

fn check(registers: &EmbeddedRegisters<RealDisk>) {
    let read = |log| {
        let from = block_on(registers.extent(log)).unwrap().trimmed.next();
        let read = block_on(registers.read(log, from, 10)).unwrap();
        read.into_iter().map(|(slot, value)| (slot.0, value.to_vec())).collect::<Vec<_>>()
    };
    assert_eq!(read(LogId::DEPLOYMENT), [(1, b"\0\0\0\x07\xfe\xed\xbe\xef".to_vec())]);
    let homes = read(LogId { kind: LogKind::Deployment, id: 1 });
    assert_eq!(
        homes,
        [(1, b"[\"transfer\",\"registers\"]".to_vec()), (2, b"[\"pay\",\"database 1\"]".to_vec())]
    );
    for number in 1..36 {
        assert_eq!(block_on(registers.extent(LogId::transaction(number))), Ok(Extent::RETIRED), "{number}");
    }
    for (number, slot) in [(36, 65), (37, 66), (38, 67), (40, 66), (41, 1), (44, 1)] {
        let expected = vec![(slot, format!("decision {number}").into_bytes())];
        assert_eq!(read(LogId::transaction(number)), expected, "{number}");
    }
    for (number, trimmed, last) in [(36, 64, 65), (39, 70, 65), (45, 64, 1), (110, 64, 1), (41, 0, 1)] {
        let extent = Extent { trimmed: Slot(trimmed), last: Slot(last) };
        assert_eq!(block_on(registers.extent(LogId::transaction(number))), Ok(extent), "{number}");
    }
    let blob = Blob { version: 3, bytes: "a blob".into() };
    assert_eq!(block_on(registers.get_blob("blob")), Ok(Some(blob)));
}

#[test]
fn version_2_is_refused_then_converted() {
    let data = tempfile::tempdir().unwrap();
    let folder = data.path().join("transactions");
    unpack(FIXTURE, &folder);
    let message = open(&folder).err().unwrap();
    assert!(message.contains("jeton migrate"), "{message}");

    let report = migrate(&folder).unwrap();
    let old = data.path().join("transactions.old");
    assert_eq!(report, MigrateReport::Converted { registers: 11, old: old.clone() });
    assert!(old.join("log/0000000013.log").exists());
    for _ in 0..2 {
        check(&open(&folder).unwrap());
        assert_eq!(migrate(&folder).unwrap(), MigrateReport::UpToDate);
    }
}

#[test]
fn interrupted_conversion_is_finished() {
    let data = tempfile::tempdir().unwrap();
    let [folder, new, old] =
        ["transactions", "transactions.new", "transactions.old"].map(|name| data.path().join(name));
    unpack(FIXTURE, &folder);
    // Interrupted while the new directory was being written.
    std::fs::create_dir_all(new.join("log")).unwrap();
    std::fs::write(new.join("log/making"), b"unfinished").unwrap();
    assert!(matches!(migrate(&folder), Ok(MigrateReport::Converted { .. })));
    // Interrupted between the two renames.
    std::fs::rename(&folder, &new).unwrap();
    assert_eq!(migrate(&folder).unwrap(), MigrateReport::UpToDate);
    check(&open(&folder).unwrap());
    // The result of an earlier conversion is never overwritten.
    std::fs::remove_dir_all(&folder).unwrap();
    unpack(FIXTURE, &folder);
    assert!(migrate(&folder).unwrap_err().to_string().contains("transactions.old"));
    assert!(old.exists() && open(&folder).is_err());
}

#[test]
fn missing_and_empty_directories_are_up_to_date() {
    let data = tempfile::tempdir().unwrap();
    let folder = data.path().join("transactions");
    assert_eq!(migrate(&folder).unwrap(), MigrateReport::UpToDate);
    assert!(!folder.exists());
    std::fs::create_dir(&folder).unwrap();
    assert_eq!(migrate(&folder).unwrap(), MigrateReport::UpToDate);
}
