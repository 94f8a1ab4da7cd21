//! The file of a book: who may read it, and what a change leaves behind.

use std::fs::{self, Permissions};
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::sync::Barrier;

use jeton_auth::{Access, FileError, Grant, TokenFile};

use crate::common::{Home, NOW, random};

fn chmod(path: impl AsRef<std::path::Path>, mode: u32) {
    fs::set_permissions(path, Permissions::from_mode(mode)).unwrap();
}

#[test]
fn a_new_book_is_for_its_owner_alone() {
    let (home, _) = Home::new(&[Grant::new("a")]);
    for name in ["tokens.json", "tokens.json.lock"] {
        assert_eq!(fs::metadata(home.path(name)).unwrap().mode() & 0o7777, 0o600, "{name}");
    }
    assert!(!home.path("tokens.json.new").exists());
}

#[test]
fn a_book_that_others_can_read_or_write_is_refused() {
    let (home, _) = Home::new(&[Grant::new("a")]);
    let path = home.file.path().display().to_string();
    for bit in [0o040, 0o020, 0o010, 0o004, 0o002, 0o001] {
        chmod(home.file.path(), 0o600 | bit);
        let error = home.file.read().expect_err("exposed");
        assert!(matches!(error, FileError::Exposed { mode, .. } if mode == 0o600 | bit), "{error}");
        assert!(error.to_string().contains(&format!("chmod 600 {path}")), "{error}");
        assert!(home.file.edit(|book| book.remove("a")).is_err());
        assert!(Access::from_file(home.file.path()).is_err());
    }
    for mode in [0o600, 0o400] {
        chmod(home.file.path(), mode);
        assert!(home.file.read().is_ok(), "{mode:o}");
    }
}

#[test]
fn a_folder_where_everybody_can_replace_it_is_refused() {
    let (home, _) = Home::new(&[Grant::new("a")]);
    let folder = home.path("");
    for (mode, good) in [(0o777, false), (0o702, false), (0o1777, true), (0o775, true), (0o700, true)] {
        chmod(&folder, mode);
        match home.file.read() {
            Ok(_) => assert!(good, "{mode:o}"),
            Err(error) => {
                assert!(!good && error.to_string().contains("chmod o-w"), "{mode:o} {error}");
            }
        }
    }
}

#[test]
fn what_is_no_file_or_not_there_is_told_so() {
    let (home, _) = Home::new(&[]);
    let folder = TokenFile::new(home.path("."));
    assert!(matches!(folder.read(), Err(FileError::NotAFile(_))));
    let missing = TokenFile::new(home.path("missing.json"));
    let error = missing.read().unwrap_err().to_string();
    assert!(error.contains("missing.json"), "{error}");
    assert!(Access::from_file(missing.path()).is_err());
}

#[test]
fn a_broken_book_names_file_and_place_and_is_not_overwritten() {
    let (home, _) = Home::new(&[Grant::new("a")]);
    let broken = home.text().replace("\"name\"", "\"nam\"");
    fs::write(home.file.path(), &broken).unwrap();
    for error in [home.file.read().unwrap_err(), home.file.edit(|book| book.remove("a")).unwrap_err()] {
        let text = error.to_string();
        assert!(text.contains("tokens.json: line 5, column 11: "), "{text}");
    }
    assert_eq!(home.text(), broken);
}

#[test]
fn a_change_that_fails_writes_nothing() {
    let (home, _) = Home::new(&[Grant::new("a")]);
    let before = fs::metadata(home.file.path()).unwrap();
    let failed = home.file.edit(|book| {
        book.remove("a")?;
        book.remove("b")
    });
    assert!(matches!(failed, Err(FileError::Book(_))));
    let after = fs::metadata(home.file.path()).unwrap();
    assert_eq!((before.ino(), before.mtime_nsec()), (after.ino(), after.mtime_nsec()));
    assert!(home.file.read().unwrap().find("a").is_some());
}

#[test]
fn a_change_replaces_the_file_and_keeps_links_and_owner() {
    let (home, _) = Home::new(&[Grant::new("a")]);
    let link = TokenFile::new(home.path("link.json"));
    symlink(home.file.path(), link.path()).unwrap();
    // Only root can give files away; everybody else owns the file before and after.
    let gave_away = std::os::unix::fs::chown(home.file.path(), Some(4711), Some(4712)).is_ok();
    let before = fs::metadata(home.file.path()).unwrap();
    link.edit(|book| book.remove("a")).unwrap();
    let after = fs::metadata(home.file.path()).unwrap();
    assert_ne!(before.ino(), after.ino());
    assert_eq!((before.uid(), before.gid()), (after.uid(), after.gid()), "given away: {gave_away}");
    assert!(fs::symlink_metadata(link.path()).unwrap().is_symlink());
    assert!(home.file.read().unwrap().entries().is_empty());
}

#[test]
fn no_change_is_lost_among_many_writers() {
    let (home, _) = Home::new(&[]);
    const WRITERS: u64 = 4;
    const EACH: u64 = 10;
    let start = Barrier::new(WRITERS as usize);
    let write = |writer: u64| {
        start.wait();
        for number in writer * EACH..(writer + 1) * EACH {
            let add =
                || home.file.edit(|book| book.add(Grant::new(format!("t{number}")), &random(number), NOW));
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
    assert_eq!(home.file.read().unwrap().entries().len() as u64, WRITERS * EACH);
}
