//! Runs a test in a process with mounts of its own.

use std::ffi::OsStr;
use std::path::Path;
use std::process::Command;

/// Runs this program again with these arguments in a mount namespace of its own, without root (`unshare` is
/// part of util-linux). Panics if the program fails.
pub fn run_with_own_mounts(arguments: &[&OsStr]) {
    let status = Command::new("unshare")
        .args(["--map-root-user", "--mount"])
        .arg(std::env::current_exe().expect("this program"))
        .args(arguments)
        .status()
        .expect("unshare starts");
    assert!(status.success(), "{arguments:?}: {status}");
}

/// The arguments that [`run_with_own_mounts`] gave, if it started this process.
pub fn own_arguments<const N: usize>() -> Option<[String; N]> {
    let arguments = std::env::args().skip(1).filter(|argument| !argument.starts_with('-'));
    let arguments: Vec<String> = arguments.collect();
    // A test name filter is not a folder.
    arguments.try_into().ok().filter(|arguments: &[String; N]| arguments[N - 1].starts_with('/'))
}

/// Mounts a file system in memory.
#[allow(dead_code, reason = "not every test mounts one")]
pub fn mount_tmpfs(size: &str, folder: &Path) {
    mount(&["-t", "tmpfs", "-o", &format!("size={size}"), "none"], folder);
}

pub fn mount(arguments: &[&str], folder: &Path) {
    let status = Command::new("mount").args(arguments).arg(folder).status().expect("mount starts");
    assert!(status.success(), "mount: {status}");
}
