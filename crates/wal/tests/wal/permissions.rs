//! Directories and files are for their owner only.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use jeton_wal::Wal;
use jeton_wal::disk::{RealDisk, private_folder};

use super::harness::options;

fn mode(path: &Path) -> u32 {
    fs::metadata(path).unwrap().permissions().mode() & 0o7777
}

fn set_mode(path: &Path, mode: u32) {
    fs::set_permissions(path, Permissions::from_mode(mode)).unwrap();
}

fn check_all(folder: &Path) {
    assert_eq!(mode(folder), 0o700, "{}", folder.display());
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            check_all(&path);
        } else {
            assert_eq!(mode(&path), 0o600, "{}", path.display());
        }
    }
}

#[test]
fn a_log_is_private_whatever_its_directory_was() {
    let folder = tempfile::tempdir().unwrap();
    let new = folder.path().join("new/log");
    let loose = folder.path().join("loose");
    fs::create_dir(&loose).unwrap();
    set_mode(&loose, 0o755);
    for path in [&new, &loose] {
        let log = Wal::open(RealDisk::new(path).unwrap(), options()).unwrap();
        log.close();
        check_all(path);
    }
    assert_eq!(mode(&folder.path().join("new")), 0o700);
}

#[test]
fn a_loose_directory_is_reported_and_a_shared_one_refused() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("data");
    assert_eq!(private_folder(&path).unwrap(), None);
    for (before, after) in [(0o750, 0o700), (0o2775, 0o2700), (0o1777, 0o1700)] {
        set_mode(&path, before);
        assert_eq!(private_folder(&path).unwrap(), Some(before));
        assert_eq!((mode(&path), private_folder(&path).unwrap()), (after, None));
    }
    fs::write(path.join("of-another"), "").unwrap();
    set_mode(&path, 0o1777);
    assert!(private_folder(&path).unwrap_err().to_string().contains("mode 1777"));
    assert_eq!(mode(&path), 0o1777);
}
