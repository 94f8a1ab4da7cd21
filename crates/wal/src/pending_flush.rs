//! A frame on its way to the disk.

use std::io;
use std::sync::Arc;

use crate::disk::DiskFile;
use crate::frame::Frame;
use crate::location::FrameNumber;

/// A frame taken from a journal, to be written and then completed. The journal takes out no other frame
/// meanwhile.
#[derive(Debug)]
#[must_use]
pub struct PendingFlush<F> {
    pub(crate) frame: Arc<Frame>,
    pub(crate) file: Arc<F>,
    pub(crate) outcome: Option<Result<(), FlushError>>,
}

/// Why a frame is not durable.
#[derive(Debug)]
pub enum FlushError {
    /// The write failed, which may be retried.
    Write(io::Error),
    /// The fsync failed, which must not be retried.
    Sync(io::Error),
}

impl<F: DiskFile> PendingFlush<F> {
    /// Writes the frame and syncs the file. [`Journal::complete`](crate::Journal::complete) evaluates the
    /// result.
    pub fn run(&mut self) {
        let written = self.file.write_at(&self.frame.bytes, self.frame.start.offset().into());
        self.outcome = Some(match written {
            Err(error) => Err(FlushError::Write(error)),
            Ok(()) if mutated!(SyncSkipped) => Ok(()),
            Ok(()) => self.file.sync().map_err(FlushError::Sync),
        });
    }

    pub fn number(&self) -> FrameNumber {
        self.frame.number
    }
}
