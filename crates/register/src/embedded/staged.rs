//! A frame on its way to the disk.

use std::io;
use std::sync::Arc;

use super::frame::Frame;
use super::location::Sequence;
use crate::disk::DiskFile;

/// A frame that was taken from a journal, to be persisted and settled. Dropping it leaves the journal waiting for it.
#[derive(Debug)]
#[must_use]
pub struct Staged<F> {
    pub(super) frame: Arc<Frame>,
    pub(super) file: Arc<F>,
    /// An error says whether it was the write, which can be tried again, and not the sync, which cannot.
    pub(super) outcome: Option<Result<(), (bool, io::Error)>>,
}

impl<F: DiskFile> Staged<F> {
    /// Writes the frame and makes it durable. The journal learns how it went when the frame is settled.
    pub fn persist(&mut self) {
        let written = self.file.write_at(&self.frame.bytes, self.frame.at.offset().into());
        let outcome = match written {
            Err(error) => Err((true, error)),
            Ok(()) if mutated!(SyncSkipped) => Ok(()),
            Ok(()) => self.file.sync().map_err(|error| (false, error)),
        };
        self.outcome = Some(outcome);
    }

    /// The number of the frame.
    pub fn sequence(&self) -> Sequence {
        self.frame.sequence
    }
}
