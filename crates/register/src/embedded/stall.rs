//! A journal that stands still: a frame could not be written for want of room, and is kept until it can be.
//!
//! Whoever asks for room lets it be tried again. But those who wait for the frame may be the only ones who would ask: then nobody
//! does, and whoever drives the journal must try by itself, now and then.

use super::journal::Journal;
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
}
