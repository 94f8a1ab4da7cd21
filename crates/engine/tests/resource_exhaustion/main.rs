//! A full disk, a read-only disk, too many open files: real ones, each in a process with a small file system
//! of its own.
//!
//! Invariants: writes are refused with a clear error, reads continue, nothing acknowledged is lost, and
//! writes resume without a restart when there is space again. Close does not wait for space.
//!
//! Without arguments it is the test; with a scenario's name and a folder it is the process under test.

#[path = "../common/mod.rs"]
mod common;
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
        println!("{scenario}: passed");
    }
}
