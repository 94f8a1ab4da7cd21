//! The name of a log of registers: a kind and a 128-bit id. A log of the wal has a name of its own,
//! `jeton_wal::LogId`, which is a number.

use std::fmt;

use crate::Error;

/// The kind of a log. The numbers are on disk and never change.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum LogKind {
    /// The entries of a partition.
    Partition = 1,
    /// The decisions about the requests of a session. Dated.
    Transaction = 2,
    /// The identity of a deployment.
    Deployment = 3,
    /// The frames of a stripe.
    Stripe = 4,
    /// The checkpoints of a stripe: the slot is the version.
    Manifest = 5,
    /// The tables of a deployment: the slot is the version.
    Catalog = 6,
}

impl LogKind {
    /// The kind with this number on disk.
    pub fn from_number(number: u8) -> Option<Self> {
        match number {
            1 => Some(Self::Partition),
            2 => Some(Self::Transaction),
            3 => Some(Self::Deployment),
            4 => Some(Self::Stripe),
            5 => Some(Self::Manifest),
            6 => Some(Self::Catalog),
            _ => None,
        }
    }

    /// Whether the ids of its logs start with their creation time, so that older logs have lower ids. Such
    /// logs are numerous and short, and are [retired](crate::Registers::retire) together.
    pub const fn is_dated(self) -> bool {
        match self {
            Self::Transaction => true,
            Self::Partition | Self::Deployment | Self::Stripe | Self::Manifest | Self::Catalog => false,
        }
    }

    /// Whether its logs have no gaps: a register can be written only after the one before it. So a writer
    /// notices that the engine has lost a register.
    pub const fn is_dense(self) -> bool {
        match self {
            Self::Partition | Self::Transaction | Self::Deployment => false,
            Self::Stripe | Self::Manifest | Self::Catalog => true,
        }
    }

    /// [`Error::Invalid`] if logs of this kind cannot be retired.
    pub fn check_dated(self) -> Result<(), Error> {
        if self.is_dated() {
            return Ok(());
        }
        Err(Error::Invalid(format!("logs of kind {self:?} are not dated and cannot be retired")))
    }
}

/// A log: registers numbered from 1.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LogId {
    pub kind: LogKind,
    /// The id among the logs of this kind.
    pub id: u128,
}

impl LogId {
    /// The log with the identity of a deployment.
    pub const DEPLOYMENT: Self = Self { kind: LogKind::Deployment, id: 0 };

    /// The tables of a deployment.
    pub const CATALOG: Self = Self { kind: LogKind::Catalog, id: 0 };

    pub const fn partition(number: u16) -> Self {
        Self { kind: LogKind::Partition, id: number as u128 }
    }

    pub const fn stripe(number: u16) -> Self {
        Self { kind: LogKind::Stripe, id: number as u128 }
    }

    /// The checkpoints of a stripe.
    pub const fn manifest(stripe: u16) -> Self {
        Self { kind: LogKind::Manifest, id: stripe as u128 }
    }

    /// The log of a session. Its id has the bits of a UUIDv7.
    pub const fn transaction(session: u128) -> Self {
        Self { kind: LogKind::Transaction, id: session }
    }
}

impl fmt::Display for LogId {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.kind {
            LogKind::Partition => write!(out, "partition/{}", self.id),
            LogKind::Transaction => write!(out, "transaction/{:032x}", self.id),
            LogKind::Deployment => write!(out, "deployment/{}", self.id),
            LogKind::Stripe => write!(out, "stripe/{}", self.id),
            LogKind::Manifest => write!(out, "manifest/{}", self.id),
            LogKind::Catalog => write!(out, "catalog/{}", self.id),
        }
    }
}
