//! How a register is named: a log, and a slot in it.

use std::fmt;

use crate::Failure;

/// What kind of thing a log belongs to. The numbers are on disk and never change.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum Space {
    /// The steps of a partition.
    Partition = 1,
    /// What became of the requests of a session. Dated.
    Transaction = 2,
    /// Whose registers these are.
    Deployment = 3,
}

impl Space {
    /// The space with this number on disk.
    pub fn from_number(number: u8) -> Option<Self> {
        match number {
            1 => Some(Self::Partition),
            2 => Some(Self::Transaction),
            3 => Some(Self::Deployment),
            _ => None,
        }
    }

    /// Whether the ids of its logs begin with the time at which they were made, so that older ones are lower. Such logs come without
    /// end and are short; they go together, by [retiring](crate::Registers::retire) all below an id.
    pub const fn is_dated(self) -> bool {
        match self {
            Self::Partition | Self::Deployment => false,
            Self::Transaction => true,
        }
    }

    /// What an engine says first to whoever wants to retire logs of this space.
    pub fn check_dated(self) -> Result<(), Failure> {
        if self.is_dated() {
            return Ok(());
        }
        Err(Failure::Invalid(format!("logs of the space {self:?} are not dated, and cannot be retired")))
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
    /// The one log that says whose registers these are.
    pub const DEPLOYMENT: Self = Self { space: Space::Deployment, id: 0 };

    /// The log of a partition.
    pub const fn partition(number: u16) -> Self {
        Self { space: Space::Partition, id: number as u128 }
    }

    /// The log of a session of requests. Its id has the bits of a UUIDv7.
    pub const fn transaction(session: u128) -> Self {
        Self { space: Space::Transaction, id: session }
    }
}

impl fmt::Display for Log {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.space {
            Space::Partition => write!(out, "partition/{}", self.id),
            Space::Transaction => write!(out, "transaction/{:032x}", self.id),
            Space::Deployment => write!(out, "deployment/{}", self.id),
        }
    }
}

/// A register's place in its log. The first is 1: 0 is "before all", and is never written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Slot(pub u64);

impl Slot {
    /// Before every register of a log.
    pub const ZERO: Self = Self(0);

    /// The last that there is: it fits into a signed word, which is what some databases have.
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
