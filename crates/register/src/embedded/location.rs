//! Where a record is, in one word; and how frames are numbered.

/// Where a record is: the segment's number and the offset in its file. Ordered as the log is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub struct Location(u64);

impl Location {
    /// No place: offset 0 of a segment is its header, never a record.
    pub const NONE: Self = Self(0);

    pub const fn new(segment: u32, offset: u32) -> Self {
        Self((segment as u64) << 32 | offset as u64)
    }

    pub const fn segment(self) -> u32 {
        (self.0 >> 32) as u32
    }

    pub const fn offset(self) -> u32 {
        self.0 as u32
    }

    pub const fn is_none(self) -> bool {
        self.0 == 0
    }
}

/// The number of a frame. Frames are numbered from 1 over the whole life of a log, and become durable in that order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Sequence(pub u64);

impl Sequence {
    /// Before every frame: durable from the beginning.
    pub const ZERO: Self = Self(0);

    pub(super) const fn next(self) -> Self {
        Self(self.0 + 1)
    }
}
