//! The token file: permissions, errors and atomic replacement.

use std::fs::{self, Permissions};
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::sync::Barrier;

use jeton_auth::{Access, FileError, Grant, TokenFile};

use crate::common::{NOW, TokenDir, random};

fn chmod(path: impl AsRef<std::path::Path>, mode: u32) {
    fs::set_permissions(path, Permissions::from_mode(mode)).unwrap();
}

#[test]
fn a_new_file_is_readable_for_its_owner_only() {
    let (dir, _) = TokenDir::new(&[Grant::new("a")]);
    for name in ["tokens.json", "tokens.json.lock"] {
        assert_eq!(fs::metadata(dir.path(name)).unwrap().mode() & 0o7777, 0o600, "{name}");
    }
    assert!(!dir.path("tokens.json.new").exists());
}

#[test]
fn a_file_that_others_can_access_is_rejected() {
    let (dir, _) = TokenDir::new(&[Grant::new("a")]);
    let path = dir.file.path().display().to_string();
    for bit in [0o040, 0o020, 0o010, 0o004, 0o002, 0o001] {
        chmod(dir.file.path(), 0o600 | bit);
        let error = dir.file.read().expect_err("exposed");
        assert!(matches!(error, FileError::Exposed { mode, .. } if mode == 0o600 | bit), "{error}");
        assert!(error.to_string().contains(&format!("chmod 600 {path}")), "{error}");
        assert!(dir.file.edit(|store| store.remove("a")).is_err());
        assert!(Access::from_file(dir.file.path()).is_err());
    }
    for mode in [0o600, 0o400] {
        chmod(dir.file.path(), mode);
        assert!(dir.file.read().is_ok(), "{mode:o}");
    }
}

#[test]
fn a_directory_that_others_can_write_is_rejected() {
    let (dir, _) = TokenDir::new(&[Grant::new("a")]);
    let folder = dir.path("");
    for (mode, good) in [(0o777, false), (0o702, false), (0o1777, true), (0o775, true), (0o700, true)] {
        chmod(&folder, mode);
        match dir.file.read() {
            Ok(_) => assert!(good, "{mode:o}"),
            Err(error) => assert!(!good && error.to_string().contains("chmod o-w"), "{mode:o} {error}"),
        }
    }
}

#[test]
fn a_missing_file_or_a_directory_is_an_error() {
    let (dir, _) = TokenDir::new(&[]);
    let folder = TokenFile::new(dir.path("."));
    assert!(matches!(folder.read(), Err(FileError::NotAFile(_))));
    let missing = TokenFile::new(dir.path("missing.json"));
    let error = missing.read().unwrap_err().to_string();
    assert!(error.contains("missing.json"), "{error}");
    assert!(Access::from_file(missing.path()).is_err());
}

#[test]
fn a_malformed_file_is_reported_and_not_overwritten() {
    let (dir, _) = TokenDir::new(&[Grant::new("a")]);
    let broken = dir.text().replace("\"name\"", "\"nam\"");
    fs::write(dir.file.path(), &broken).unwrap();
    for error in [dir.file.read().unwrap_err(), dir.file.edit(|store| store.remove("a")).unwrap_err()] {
        let text = error.to_string();
        assert!(text.contains("tokens.json: line 5, column 11: "), "{text}");
    }
    assert_eq!(dir.text(), broken);
}

#[test]
fn a_failed_change_writes_nothing() {
    let (dir, _) = TokenDir::new(&[Grant::new("a")]);
    let before = fs::metadata(dir.file.path()).unwrap();
    let failed = dir.file.edit(|store| {
        store.remove("a")?;
        store.remove("b")
    });
    assert!(matches!(failed, Err(FileError::Store(_))));
    let after = fs::metadata(dir.file.path()).unwrap();
    assert_eq!((before.ino(), before.mtime_nsec()), (after.ino(), after.mtime_nsec()));
    assert!(dir.file.read().unwrap().find("a").is_some());
}

#[test]
fn a_change_replaces_the_file_and_keeps_links_and_owner() {
    let (dir, _) = TokenDir::new(&[Grant::new("a")]);
    let link = TokenFile::new(dir.path("link.json"));
    symlink(dir.file.path(), link.path()).unwrap();
    // Only root can change the owner; for other users the owner is the same anyway.
    let changed = std::os::unix::fs::chown(dir.file.path(), Some(4711), Some(4712)).is_ok();
    let before = fs::metadata(dir.file.path()).unwrap();
    link.edit(|store| store.remove("a")).unwrap();
    let after = fs::metadata(dir.file.path()).unwrap();
    assert_ne!(before.ino(), after.ino());
    assert_eq!((before.uid(), before.gid()), (after.uid(), after.gid()), "owner changed: {changed}");
    assert!(fs::symlink_metadata(link.path()).unwrap().is_symlink());
    assert!(dir.file.read().unwrap().entries().is_empty());
}

#[test]
fn no_change_is_lost_among_many_writers() {
    let (dir, _) = TokenDir::new(&[]);
    const WRITERS: u64 = 4;
    const EACH: u64 = 10;
    let start = Barrier::new(WRITERS as usize);
    let write = |writer: u64| {
        start.wait();
        for number in writer * EACH..(writer + 1) * EACH {
            let add =
                || dir.file.edit(|store| store.add(Grant::new(format!("t{number}")), &random(number), NOW));
            while let Err(error) = add() {
                assert!(matches!(error, FileError::Locked(_)), "{error}");
                std::thread::yield_now();
            }
        }
    };
    std::thread::scope(|scope| {
        for writer in 0..WRITERS {
            scope.spawn(move || write(writer));
        }
    });
    assert_eq!(dir.file.read().unwrap().entries().len() as u64, WRITERS * EACH);
}
