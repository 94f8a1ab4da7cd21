//! How a register is named: a log, and a slot in it.

use std::fmt;

/// What kind of thing a log belongs to. The numbers are on disk and never change.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum Space {
    /// The steps of a partition.
    Partition = 1,
}

impl Space {
    /// The space with this number on disk.
    pub fn from_number(number: u8) -> Option<Self> {
        match number {
            1 => Some(Self::Partition),
            _ => None,
        }
    }
}

/// A log: a row of registers, numbered from 1.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Log {
    /// What kind of thing it belongs to.
    pub space: Space,
    /// Which of them.
    pub id: u128,
}

impl Log {
    /// The log of a partition.
    pub const fn partition(number: u16) -> Self {
        Self { space: Space::Partition, id: number as u128 }
    }
}

impl fmt::Display for Log {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.space {
            Space::Partition => write!(out, "partition/{}", self.id),
        }
    }
}

/// A register's place in its log. The first is 1: 0 is "before all", and is never written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Slot(pub u64);

impl Slot {
    /// Before every register of a log.
    pub const ZERO: Self = Self(0);

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
