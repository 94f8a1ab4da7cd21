//! Two processes and one directory.

use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};

use jeton_wal::disk::{FaultDisk, RealDisk};
use jeton_wal::{Journal, OpenError, Options, Wal};

use super::harness::options;

const FOLDER: &str = "JETON_WAL_TEST_FOLDER";

/// The second process: this test program with a directory in its environment. Without one it does nothing.
#[test]
fn child_holds_the_directory() {
    let Ok(folder) = std::env::var(FOLDER) else { return };
    let _store = Wal::open(RealDisk::new(folder).unwrap(), options()).unwrap();
    println!("\nheld");
    // Until the parent ends or kills this process.
    let _ = std::io::stdin().lines().next();
}

#[test]
fn second_process_learns_the_owner() {
    let folder = tempfile::tempdir().unwrap();
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "lock::child_holds_the_directory", "--nocapture"])
        .env(FOLDER, folder.path())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    assert!(lines.any(|line| line.unwrap() == "held"));

    let disk = RealDisk::new(folder.path()).unwrap();
    let error = Wal::open(disk.clone(), options()).err().unwrap();
    assert!(
        matches!(&error, OpenError::Locked { by, pid } if by == "jeton" && *pid == child.id()),
        "{error}"
    );
    let text = error.to_string();
    assert!(text.contains("jeton") && text.contains(&child.id().to_string()), "{text}");

    // A killed process releases the lock.
    child.kill().unwrap();
    child.wait().unwrap();
    Wal::open(disk, Options::small(64 << 10)).unwrap();
}

#[test]
fn second_wal_in_the_same_process_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let first = Wal::open(RealDisk::new(folder.path()).unwrap(), options()).unwrap();
    let second = Wal::open(RealDisk::new(folder.path()).unwrap(), options());
    assert!(matches!(second.err(), Some(OpenError::Locked { pid, .. }) if pid == std::process::id()));
    drop(first);
    Wal::open(RealDisk::new(folder.path()).unwrap(), options()).unwrap();

    let disk = FaultDisk::new();
    let first = Journal::open(disk.clone(), options()).unwrap();
    assert!(matches!(Journal::open(disk.clone(), options()).err(), Some(OpenError::Locked { .. })));
    drop(first);
    Journal::open(disk, options()).unwrap();
}
