//! A journal that stands still: a frame could not be written for want of room, and is kept until it can be.
//!
//! Whoever asks for room lets it be tried again. But those who wait for the frame may be the only ones who would ask: then nobody
//! does, and whoever drives the journal must try by itself, now and then. Whoever closes it cannot wait for ever, and gives up.

use super::journal::Journal;
use crate::Failure;
use crate::disk::Disk;

impl<D: Disk> Journal<D> {
    /// Whether a frame waits until somebody tries again.
    pub fn is_stalled(&self) -> bool {
        self.stall.is_some() && !self.try_write && !self.taken && self.fatal.is_none()
    }

    /// Lets [`Journal::take_staged`] return the frame that could not be written.
    pub fn try_again(&mut self) {
        self.try_write = true;
    }

    /// Gives up the frame that could not be written, and everything staged after it: nothing is written from now on, whatever room
    /// there is, and everything is refused. What those are told who wait for it.
    pub fn give_up(&mut self) -> Failure {
        let stall = self.stall.clone().unwrap_or_else(|| "nothing was tried".into());
        Failure::Unknown(self.die(format!("the store closed before it was durable: {stall}")).0)
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Embedded, Options};
    use crate::disk::FaultDisk;
    use crate::{Batch, Log, Permit, Registers, Slot, Written, block_on};

    #[test]
    fn what_found_no_room_is_written_when_there_is_room_again_though_nobody_asks() {
        let disk = FaultDisk::new();
        let engine = Embedded::open(disk.clone(), Options::small(64 << 10)).unwrap();
        disk.set_read_only(true);
        let mut batch = Batch::new();
        batch.push(Log::partition(1), Slot(1), b"kept");
        let before = disk.operations();
        let writing = engine.write(batch, Permit::unlimited());
        // The log's thread has tried, and found the disk read-only.
        while disk.operations() == before {
            std::thread::yield_now();
        }
        disk.set_read_only(false);
        assert_eq!(block_on(writing), Ok(vec![Written::Fresh]));
    }
}
