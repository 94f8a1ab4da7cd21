//! Names inside a wal: a log, and a slot in it.

use std::fmt;

/// A log of a wal.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LogId(pub u16);

impl LogId {
    pub(crate) fn index(self) -> usize {
        usize::from(self.0)
    }
}

impl fmt::Display for LogId {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "log {}", self.0)
    }
}

/// The number of an entry in its log. The first is 1; 0 is before the first and is never written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Slot(pub u64);

impl Slot {
    /// Before the first slot.
    pub const ZERO: Self = Self(0);

    /// The highest slot: the largest value of a signed 64-bit column.
    pub const MAX: Self = Self(i64::MAX as u64);

    /// The slot after this one.
    pub const fn next(self) -> Self {
        Self(self.0 + 1)
    }
}

impl fmt::Display for Slot {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(out)
    }
}

/// The durable range of a log.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Extent {
    /// The log is trimmed up to and including this slot.
    pub trimmed: Slot,
    /// The highest slot that was ever durable; [`Slot::ZERO`] if there was none. May be below `trimmed`.
    pub last: Slot,
}

impl Extent {
    /// The slot after which the log continues.
    pub fn end(&self) -> Slot {
        self.last.max(self.trimmed)
    }
}
