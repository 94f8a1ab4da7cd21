//! Two processes and one directory.

use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};

use jeton_register::disk::{FaultDisk, RealDisk};
use jeton_register::embedded::{Embedded, Journal, OpenError, Options};

use super::engines::Folder;
use super::support::options;

const FOLDER: &str = "JETON_REGISTER_TEST_FOLDER";

/// What the second process runs: this test program, told a folder. Run as a test of its own it has nothing to do.
#[test]
fn holds_the_folder_it_is_told() {
    let Ok(folder) = std::env::var(FOLDER) else { return };
    let _store = Embedded::open(RealDisk::new(folder).unwrap(), options()).unwrap();
    println!("\nheld");
    // Until the other side is gone or kills us.
    let _ = std::io::stdin().lines().next();
}

#[test]
fn a_second_process_is_told_who_has_the_folder() {
    let folder = Folder::new();
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "lock::holds_the_folder_it_is_told", "--nocapture"])
        .env(FOLDER, &folder.0)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    assert!(lines.any(|line| line.unwrap() == "held"));

    let disk = RealDisk::new(&folder.0).unwrap();
    let error = Embedded::open(disk.clone(), options()).err().unwrap();
    assert!(
        matches!(&error, OpenError::Locked { by, pid } if by == "jeton" && *pid == child.id()),
        "{error}"
    );
    let text = error.to_string();
    assert!(text.contains("jeton") && text.contains(&child.id().to_string()), "{text}");

    // A process that is killed lets go.
    child.kill().unwrap();
    child.wait().unwrap();
    Embedded::open(disk, Options::small(64 << 10)).unwrap();
}

#[test]
fn a_second_store_in_the_same_process_is_refused_too() {
    let folder = Folder::new();
    let first = Embedded::open(RealDisk::new(&folder.0).unwrap(), options()).unwrap();
    let second = Embedded::open(RealDisk::new(&folder.0).unwrap(), options());
    assert!(matches!(second.err(), Some(OpenError::Locked { pid, .. }) if pid == std::process::id()));
    drop(first);
    Embedded::open(RealDisk::new(&folder.0).unwrap(), options()).unwrap();

    let disk = FaultDisk::new();
    let first = Journal::open(disk.clone(), options()).unwrap();
    assert!(matches!(Journal::open(disk.clone(), options()).err(), Some(OpenError::Locked { .. })));
    drop(first);
    Journal::open(disk, options()).unwrap();
}
