//! A full disk, a read-only one, too many open files: real ones, each in a process with a small file system of its own.
//!
//! What must hold: writes are refused with a clear error, reads go on, nothing acknowledged is lost, and writing goes on when
//! there is room again, without a restart. Closing waits for no room.
//!
//! Without arguments it is the test; with the name of a scenario and a folder it is the process that suffers.

mod load;
#[path = "../common/mounts.rs"]
mod mounts;
mod scenarios;

fn main() {
    if let Some([scenario, folder]) = mounts::own_arguments() {
        return scenarios::run(&scenario, folder.as_ref());
    }
    for scenario in scenarios::ALL {
        let folder = tempfile::tempdir().expect("a folder");
        mounts::run_with_own_mounts(&[scenario.as_ref(), folder.path().as_ref()]);
        println!("{scenario}: held");
    }
}
