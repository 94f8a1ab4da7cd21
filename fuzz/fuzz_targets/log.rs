//! A log that was changed by somebody: it opens with what was durable before the change, or says what is wrong; it never panics, and what it
//! opened with is there when it is opened again.

#![no_main]

use jeton_register::disk::{Disk, DiskFile, FaultDisk};
use jeton_register::embedded::{Embedded, Options};
use jeton_register::{Batch, Log, Registers, Slot, block_on};

const SEGMENT: &str = "log/0000000001.log";

fn open(disk: &FaultDisk) -> Option<Embedded<FaultDisk>> {
    Embedded::open(disk.clone(), Options::small(1 << 20)).ok()
}

/// All values of the one log.
fn values(registers: &Embedded<FaultDisk>) -> Option<Vec<Vec<u8>>> {
    let read = block_on(registers.read(Log::partition(1), Slot(1), 100)).ok()?;
    Some(read.iter().map(|(_, value)| value.to_vec()).collect())
}

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    let disk = FaultDisk::new();
    let registers = open(&disk).expect("an empty disk");
    for slot in 1..=3 {
        let mut batch = Batch::new();
        batch.push(Log::partition(1), Slot(slot), &[slot as u8; 100]);
        let permit = registers.admit(1, 100).expect("room");
        block_on(registers.write(batch, permit)).expect("written");
    }
    registers.close();
    drop(registers);
    // The first two bytes say where the rest is written over the segment.
    let Some((at, bytes)) = data.split_at_checked(2) else { return };
    let at = u64::from(u16::from_le_bytes([at[0], at[1]]));
    let file = disk.open(SEGMENT).expect("the first segment");
    file.write_at(bytes, at).expect("written");
    file.sync().expect("synced");
    let Some(registers) = open(&disk) else { return };
    let before = values(&registers);
    drop(registers);
    let registers = open(&disk).expect("it opened before");
    assert_eq!(values(&registers), before);
});
