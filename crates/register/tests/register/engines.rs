//! The conformance suite, run against every engine of this crate.

use jeton_register::conformance::{EngineLimits, block_on, conformance};
use jeton_register::embedded::{EmbeddedRegisters, Options};
use jeton_register::memory::{Faults, MemoryRegisters};
use jeton_register::{Batch, LogId, Registers, Slot, WritePermit};
use jeton_wal::disk::{FaultDisk, RealDisk};

fn limits(options: &Options) -> EngineLimits {
    EngineLimits { value_bytes_max: options.limits().value_bytes_max, ..EngineLimits::default() }
}

#[test]
fn embedded_on_a_real_disk() {
    let folder = tempfile::tempdir().unwrap();
    let mut options = Options::default();
    options.wal.segment_bytes = 1 << 20;
    let open =
        async || EmbeddedRegisters::open(RealDisk::new(folder.path()).unwrap(), options.clone()).unwrap();
    assert!(block_on(conformance(limits(&options), open)).len() >= 15);
}

#[test]
fn embedded_with_small_segments() {
    let disk = FaultDisk::new();
    let options = Options::small(64 << 10);
    let open = async || EmbeddedRegisters::open(disk.clone(), options.clone()).unwrap();
    block_on(conformance(limits(&options), open));
}

#[test]
fn memory() {
    let memory = MemoryRegisters::new();
    block_on(conformance(EngineLimits::default(), async || memory.clone()));
}

#[test]
fn memory_with_faults() {
    for seed in 0..20 {
        let faults = Faults { refused: 100, lost: 150, late: 50, delayed: 300 };
        let memory = MemoryRegisters::with_faults(seed, faults);
        block_on(conformance(EngineLimits::default(), async || memory.clone()));
    }
}

#[test]
fn memory_releases_held_responses_in_any_order() {
    let memory = MemoryRegisters::new();
    memory.hold();
    let write = |slot| {
        let mut batch = Batch::new();
        batch.push(LogId::partition(1), Slot(slot), b"x");
        memory.write(batch, WritePermit::unlimited())
    };
    let (mut first, mut second) = (Box::pin(write(1)), Box::pin(write(2)));
    assert_eq!(memory.held(), 2);
    assert!(memory.release(1));
    block_on(second.as_mut()).unwrap();
    let mut context = std::task::Context::from_waker(std::task::Waker::noop());
    assert!(first.as_mut().poll(&mut context).is_pending());
    memory.release_all();
    block_on(first).unwrap();
}
