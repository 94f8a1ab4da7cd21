//! Positions in a wal, and the numbers of frames.

use std::fmt;

use crate::segment;

/// A position: the number of a segment and an offset in its file. Ordered as the wal is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub struct Location(u64);

impl Location {
    pub(crate) const fn new(segment: u32, offset: u32) -> Self {
        Self((segment as u64) << 32 | offset as u64)
    }

    pub(crate) const fn segment(self) -> u32 {
        (self.0 >> 32) as u32
    }

    pub(crate) const fn offset(self) -> u32 {
        self.0 as u32
    }
}

impl fmt::Display for Location {
    /// The file, relative to the directory of the wal, and the offset in it.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} at byte {}", segment::name(self.segment()), self.offset())
    }
}

/// The number of a frame. Frames are numbered from 1 over the whole life of a wal and become durable in that
/// order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct FrameNumber(pub u64);

impl FrameNumber {
    /// Before the first frame: always durable.
    pub const ZERO: Self = Self(0);

    pub(crate) const fn next(self) -> Self {
        Self(self.0 + 1)
    }
}
