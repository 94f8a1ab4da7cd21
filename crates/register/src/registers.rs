//! The trait: what a storage engine must offer to carry Jeton.

use std::future::Future;

use bytes::Bytes;

use crate::{Batch, Failure, Log, Slot, Space};

/// A store of write-once registers, and of a few plain rows beside them.
///
/// Calling a method starts the work; the future tells the end. Dropping the future of a write does not undo it: its outcome
/// is then unknown, and is learnt by writing again.
pub trait Registers: Send + Sync + 'static {
    /// How large values and batches may be.
    fn limits(&self) -> Limits {
        Limits::default()
    }

    /// Makes sure that a batch of so many writes and bytes will not be refused for want of room. To be asked before the
    /// batch is decided on, so that nothing decided must be taken back. Engines without a limit of their own say yes.
    fn admit(&self, _writes: usize, _value_bytes: usize) -> Result<Permit, Failure> {
        Ok(Permit::unlimited())
    }

    /// Writes every register of the batch that is empty. The answer comes when all are durable, in the batch's order.
    ///
    /// Batches given by one caller one after the other become durable in that order.
    fn write(
        &self,
        batch: Batch,
        permit: Permit,
    ) -> impl Future<Output = Result<Vec<Written>, Failure>> + Send + 'static;

    /// The durable registers of a log from `from` on, in order, gaps left out: at most `limit` of them, fewer if they are
    /// large, at least one if there is one.
    ///
    /// [`Failure::Trimmed`] if `from` is not above the trim point: a reader must know that it missed something.
    fn read(
        &self,
        log: Log,
        from: Slot,
        limit: usize,
    ) -> impl Future<Output = Result<Vec<(Slot, Bytes)>, Failure>> + Send;

    /// How far a log reaches.
    fn extent(&self, log: Log) -> impl Future<Output = Result<Extent, Failure>> + Send;

    /// Forgets the values up to and including `through`. The registers stay written. A lower trim point than the present
    /// one changes nothing.
    fn trim(&self, log: Log, through: Slot) -> impl Future<Output = Result<(), Failure>> + Send;

    /// Forgets every log of a dated space whose id is below this, those included that were never written. Their registers stay
    /// written, for ever: a write to one is [`Written::Trimmed`], a read is [`Failure::Trimmed`]. A lower id than one before changes
    /// nothing. [`Failure::Invalid`] if the space is not dated.
    fn retire(&self, space: Space, below: u128) -> impl Future<Output = Result<(), Failure>> + Send;

    /// Stores a plain row, durably and whole or not at all, unless the row there has a higher slot: then nothing changes, and
    /// the answer is false.
    fn put_row(&self, name: &str, row: Row) -> impl Future<Output = Result<bool, Failure>> + Send;

    /// The row of this name.
    fn get_row(&self, name: &str) -> impl Future<Output = Result<Option<Row>, Failure>> + Send;
}

/// How large values and batches may be. A batch within all of them is never refused as too large.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Bytes of a value.
    pub value_bytes_max: usize,
    /// Writes of a batch.
    pub batch_writes_max: usize,
    /// Bytes of all values of a batch.
    pub batch_bytes_max: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self { value_bytes_max: 1 << 20, batch_writes_max: 4096, batch_bytes_max: 8 << 20 }
    }
}

/// What a register holds after a write to it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Written {
    /// It was empty, and now holds what was to be written.
    Fresh,
    /// It held this value already (which may be equal to what was to be written).
    Taken(Bytes),
    /// It was written once, and its value is trimmed; or its log is retired.
    Trimmed,
}

/// Room for a batch, held until the batch is written or the permit dropped.
#[derive(Debug)]
#[must_use]
pub struct Permit {
    held: Option<Box<dyn Room>>,
}

impl Permit {
    /// The permit of an engine that has no limit.
    pub fn unlimited() -> Self {
        Self { held: None }
    }

    /// A permit that gives back what it holds when dropped.
    pub fn holding(room: impl Room) -> Self {
        Self { held: Some(Box::new(room)) }
    }

    /// What the permit holds, if the engine holds anything.
    pub fn room(&self) -> Option<&dyn Room> {
        self.held.as_deref()
    }
}

/// What a permit holds: reserved bytes of an engine, given back on drop.
pub trait Room: std::fmt::Debug + std::any::Any + Send {}

/// How far a log reaches.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Extent {
    /// Everything up to here is trimmed.
    pub trimmed: Slot,
    /// The highest slot that was ever written durably; [`Slot::ZERO`] if none, or if that is forgotten.
    pub last: Slot,
}

impl Extent {
    /// Of a log that is retired.
    pub const RETIRED: Self = Self { trimmed: Slot::MAX, last: Slot::ZERO };
}

/// A plain row: a checkpoint, with the slot up to which it speaks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Row {
    /// Orders the versions of a row: a lower one never replaces a higher one.
    pub slot: Slot,
    /// The content.
    pub bytes: Bytes,
}
