//! Blobs: replaced atomically, ordered by version, and damage is reported.

use bytes::Bytes;
use jeton_wal::disk::FaultDisk;
use jeton_wal::{Blob, Error, Wal};

use super::harness::{options, rng};

fn blob(version: u64, bytes: usize) -> Blob {
    Blob { version, bytes: vec![version as u8; bytes].into() }
}

#[test]
fn blobs_survive_a_crash_or_were_never_stored() {
    for at in 1..80 {
        for seed in 0..6 {
            let disk = FaultDisk::new();
            disk.die_at(at);
            let mut acknowledged = None;
            if let Ok(wal) = Wal::open_with(disk.clone(), options(), Box::new(|_| {})) {
                for version in 1..=10 {
                    if wal.put_blob("blob", &blob(version, 3000)) == Ok(true) {
                        acknowledged = Some(version);
                    }
                }
            }
            let wal = Wal::open(disk.crash(&mut rng(seed)), options()).unwrap();
            let found = wal.get_blob("blob").unwrap();
            let version = found.as_ref().map(|found| found.version);
            let next = acknowledged.map_or(Some(1), |version| Some(version + 1));
            assert!(version >= acknowledged && version <= next, "{version:?}, acknowledged {acknowledged:?}");
            assert!(found.is_none_or(|found| found == blob(found.version, 3000)));
        }
    }
}

#[test]
fn lower_version_is_not_stored() {
    let wal = Wal::open(FaultDisk::new(), options()).unwrap();
    assert_eq!(wal.get_blob("blob"), Ok(None));
    for (version, stored) in [(5, true), (4, false), (5, true), (9, true), (0, false)] {
        assert_eq!(wal.put_blob("blob", &blob(version, 10)), Ok(stored), "{version}");
    }
    assert_eq!(wal.get_blob("blob"), Ok(Some(blob(9, 10))));
}

#[test]
fn damaged_blob_is_reported_and_not_replaced() {
    let disk = FaultDisk::new();
    let wal = Wal::open(disk.clone(), options()).unwrap();
    let blob = |version| Blob { version, bytes: Bytes::from("content") };
    wal.put_blob("state", &blob(5)).unwrap();
    for offset in 0..disk.bytes("rows/state").unwrap().len() as u64 {
        disk.flip_bit("rows/state", offset, 2);
        let error = wal.get_blob("state").unwrap_err();
        assert!(matches!(&error, Error::Damaged(text) if text.contains("rows/state")), "{offset}: {error}");
        disk.flip_bit("rows/state", offset, 2);
    }
    disk.flip_bit("rows/state", 17, 2);
    assert!(matches!(wal.put_blob("state", &blob(4)), Err(Error::Damaged(_))));
}

#[test]
fn blob_without_space_keeps_the_old_content() {
    let disk = FaultDisk::new();
    let wal = Wal::open(disk.clone(), options()).unwrap();
    wal.put_blob("blob", &blob(1, 100)).unwrap();
    disk.set_free_space(Some(1000));
    assert!(matches!(wal.put_blob("blob", &blob(2, 5000)), Err(Error::Full(_))));
    assert_eq!(wal.get_blob("blob"), Ok(Some(blob(1, 100))));
    assert_eq!(wal.put_blob("blob", &blob(2, 500)), Ok(true), "the refused content takes no space");
}

#[test]
fn invalid_names_are_refused() {
    let wal = Wal::open(FaultDisk::new(), options()).unwrap();
    for bad in ["", "..", "a/b", "Upper", "~x", &"x".repeat(65)] {
        let refused = |error| matches!(error, Error::Invalid(_) | Error::TooLarge(_));
        assert!(wal.put_blob(bad, &blob(1, 1)).is_err_and(refused), "{bad:?}");
        assert!(wal.get_blob(bad).is_err_and(refused), "{bad:?}");
    }
}

#[test]
fn failed_sync_of_a_blob_ends_the_wal() {
    let (sender, receiver) = std::sync::mpsc::channel();
    let on_fatal = Box::new(move |why: &str| sender.send(why.to_owned()).unwrap());
    let disk = FaultDisk::new();
    let wal = Wal::open_with(disk.clone(), options(), on_fatal).unwrap();
    disk.set_sync_failing(true);
    assert!(matches!(wal.put_blob("blob", &blob(1, 1)), Err(Error::Unknown(_))));
    let why = receiver.recv().unwrap();
    assert!(why.contains("blob blob"), "{why}");
    assert!(matches!(wal.reserve(1, 1), Err(Error::Unavailable(_))));
    assert!(matches!(wal.get_blob("blob"), Err(Error::Unavailable(_))));
}
