//! The suite, run against every engine of this crate.

use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};

use jeton_register::block_on;
use jeton_register::conformance::{Terms, conformance};
use jeton_register::disk::{FaultDisk, RealDisk};
use jeton_register::embedded::{Embedded, Options};
use jeton_register::memory::{Faults, Memory};

use super::support::options;

/// A folder for one test, removed at its end.
pub struct Folder(pub PathBuf);

impl Folder {
    pub fn new() -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let folder = std::env::temp_dir().join(format!("jeton-register-{}-{number}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        Self(folder)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

#[test]
fn embedded_on_the_real_disk() {
    let folder = Folder::new();
    let mut options = Options::default();
    options.segment_bytes = 1 << 20;
    let terms = Terms { value_bytes_max: options.value_bytes_max(), ..Terms::default() };
    let open = async || Embedded::open(RealDisk::new(&folder.0).unwrap(), options.clone()).unwrap();
    assert!(block_on(conformance(terms, open)).len() >= 15);
}

#[test]
fn embedded_on_a_disk_in_memory_with_small_segments() {
    let disk = FaultDisk::new();
    let terms = Terms { value_bytes_max: options().value_bytes_max(), ..Terms::default() };
    let open = async || Embedded::open(disk.clone(), options()).unwrap();
    block_on(conformance(terms, open));
}

#[test]
fn memory() {
    let memory = Memory::new();
    block_on(conformance(Terms::default(), async || memory.clone()));
}

#[test]
fn memory_whose_requests_fail() {
    for seed in 0..20 {
        let faults = Faults { refused: 100, lost: 150, late: 50, delayed: 300 };
        let memory = Memory::with_faults(seed, faults);
        block_on(conformance(Terms::default(), async || memory.clone()));
    }
}

#[test]
fn memory_whose_answers_are_held_gives_them_in_any_order() {
    use jeton_register::Registers;
    let memory = Memory::new();
    memory.hold();
    let write = |slot| memory.write(super::support::one(1, slot, b"x"), jeton_register::Permit::unlimited());
    let (mut first, mut second) = (Box::pin(write(1)), Box::pin(write(2)));
    assert_eq!(memory.held(), 2);
    assert!(memory.release(1));
    block_on(second.as_mut()).unwrap();
    let mut context = std::task::Context::from_waker(std::task::Waker::noop());
    assert!(first.as_mut().poll(&mut context).is_pending());
    memory.release_all();
    block_on(first).unwrap();
}
