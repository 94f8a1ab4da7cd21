//! A full disk, a read-only one, too many open files: real ones, each in a process with a small file system of its own.
//!
//! What must hold: writes are refused with a clear error, reads go on, nothing acknowledged is lost, and writing goes on when
//! there is room again, without a restart. Closing waits for no room.
//!
//! Without arguments it is the test; with the name of a scenario and a folder it is the process that suffers.

mod load;
mod scenarios;

use std::process::Command;

fn main() {
    let mut arguments = std::env::args().skip(1).filter(|argument| !argument.starts_with('-'));
    if let (Some(scenario), Some(folder)) = (arguments.next(), arguments.next()) {
        return scenarios::run(&scenario, folder.as_ref());
    }
    for scenario in scenarios::ALL {
        let folder = tempfile::tempdir().expect("a folder");
        // Mounts of its own, without being root: `unshare` is part of util-linux.
        let status = Command::new("unshare")
            .args(["--map-root-user", "--mount"])
            .arg(std::env::current_exe().expect("this program"))
            .arg(scenario)
            .arg(folder.path())
            .status()
            .expect("unshare starts");
        assert!(status.success(), "{scenario}: {status}");
        println!("{scenario}: held");
    }
}
