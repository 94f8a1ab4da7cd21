//! The trait of a register engine.

use std::any::Any;
use std::future::Future;

use bytes::Bytes;

use crate::{Batch, Blob, Error, LogId, LogKind, Slot};

/// A store of write-once registers, of a few blobs, and of objects.
///
/// A call starts the request; the future returns its result. Dropping the future of a write does not undo the
/// write: its outcome is then unknown, and a repeated write returns it.
pub trait Registers: Send + Sync + 'static {
    /// How large values and batches may be.
    fn limits(&self) -> Limits {
        Limits::default()
    }

    /// Reserves space for a batch of `writes` writes with `value_bytes` bytes together, so that it is not
    /// refused for lack of space. To be called before the caller decides what to write. Engines without such
    /// a limit always succeed.
    fn admit(&self, _writes: usize, _value_bytes: usize) -> Result<WritePermit, Error> {
        Ok(WritePermit::unlimited())
    }

    /// Writes every register of the batch that is empty. Returns when all are durable, with results in the
    /// order of the batch.
    ///
    /// Batches of one caller that write the same log, sent one after the other, become durable in that order.
    fn write(
        &self,
        batch: Batch,
        permit: WritePermit,
    ) -> impl Future<Output = Result<Vec<WriteResult>, Error>> + Send + 'static;

    /// The durable registers of a log from `from` on, in order, without gaps: at most `limit`, fewer if they
    /// are large, at least one if there is one. [`Error::Trimmed`] if `from` is not above the trim point.
    fn read(
        &self,
        log: LogId,
        from: Slot,
        limit: usize,
    ) -> impl Future<Output = Result<Vec<(Slot, Bytes)>, Error>> + Send;

    /// The durable range of a log.
    fn extent(&self, log: LogId) -> impl Future<Output = Result<Extent, Error>> + Send;

    /// Drops the values up to and including `through`. The registers stay written. A lower trim point than
    /// the present one changes nothing.
    fn trim(&self, log: LogId, through: Slot) -> impl Future<Output = Result<(), Error>> + Send;

    /// Drops every log of a dated kind whose id is below this one, including logs that were never written.
    /// Their registers stay written: a write returns [`WriteResult::Trimmed`], a read [`Error::Trimmed`]. A
    /// lower id than before changes nothing. [`Error::Invalid`] if the kind is not dated.
    fn retire(&self, kind: LogKind, below: u128) -> impl Future<Output = Result<(), Error>> + Send;

    /// Stores a blob, durably and atomically, unless it has a higher version. Returns whether it was stored.
    fn put_blob(&self, name: &str, blob: Blob) -> impl Future<Output = Result<bool, Error>> + Send;

    /// The blob with this name.
    fn get_blob(&self, name: &str) -> impl Future<Output = Result<Option<Blob>, Error>> + Send;

    /// The blobs whose names begin with `prefix`, in the order of their names. An engine without a cluster
    /// may refuse it as [`Error::Invalid`].
    fn blobs(&self, _prefix: &str) -> impl Future<Output = Result<Vec<(String, Blob)>, Error>> + Send {
        std::future::ready(Err(Error::Invalid("these registers do not list blobs".into())))
    }

    /// Stores an object of at most [`OBJECT_BYTES_MAX`] bytes, durably. It exists as a whole or not at all,
    /// and never changes: the caller uses a name for one content only, and a repeated call changes nothing.
    ///
    /// Engines that are not meant for objects refuse them as [`Error::Invalid`].
    fn put_object(&self, _name: &str, _bytes: Bytes) -> impl Future<Output = Result<(), Error>> + Send {
        std::future::ready(Err(no_objects()))
    }

    /// The object with this name.
    fn get_object(&self, _name: &str) -> impl Future<Output = Result<Option<Bytes>, Error>> + Send {
        std::future::ready(Err(no_objects()))
    }

    /// Deletes objects. Names without an object are skipped.
    fn delete_objects(&self, _names: Vec<String>) -> impl Future<Output = Result<(), Error>> + Send {
        std::future::ready(Err(no_objects()))
    }

    /// The names of at most `limit` objects that begin with `prefix` and come after `after`, in order.
    fn list_objects(
        &self,
        _prefix: &str,
        _after: &str,
        _limit: usize,
    ) -> impl Future<Output = Result<Vec<String>, Error>> + Send {
        std::future::ready(Err(no_objects()))
    }
}

/// How large values and batches may be. A batch within all limits is never refused as too large.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    pub value_bytes_max: usize,
    pub batch_writes_max: usize,
    pub batch_bytes_max: usize,
}

impl Limits {
    /// [`Error::TooLarge`] if no batch may be as large.
    pub fn check_batch(&self, writes: usize, value_bytes: usize) -> Result<(), Error> {
        let Self { batch_writes_max, batch_bytes_max, .. } = *self;
        if writes > batch_writes_max || value_bytes > batch_bytes_max {
            return Err(Error::TooLarge(format!(
                "a batch of {writes} writes and {value_bytes} bytes; the limit is {batch_writes_max} and {batch_bytes_max}"
            )));
        }
        Ok(())
    }

    /// [`Error::TooLarge`] or [`Error::Invalid`] if the batch can never be written.
    pub fn check(&self, batch: &Batch) -> Result<(), Error> {
        self.check_batch(batch.len(), batch.value_bytes())?;
        self.check_writes(batch)
    }

    /// As [`Limits::check`], without the size of the whole batch.
    pub fn check_writes(&self, batch: &Batch) -> Result<(), Error> {
        for (log, slot, value) in batch.iter() {
            if value.len() > self.value_bytes_max {
                let (len, max) = (value.len(), self.value_bytes_max);
                return Err(Error::TooLarge(format!("a value of {len} bytes; the limit is {max}")));
            }
            if slot > Slot::MAX {
                return Err(Error::Invalid(format!("{log} slot {slot} is above the highest slot")));
            }
        }
        Ok(())
    }
}

impl Default for Limits {
    fn default() -> Self {
        Self { value_bytes_max: 1 << 20, batch_writes_max: 4096, batch_bytes_max: 8 << 20 }
    }
}

/// The result of a write to a register.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum WriteResult {
    /// The register was empty and has the new value.
    Fresh,
    /// The register had this value already. It may be equal to the new one.
    Taken(Bytes),
    /// The register was trimmed, or its log is retired.
    Trimmed,
    /// The register before it is empty, in a log of a [dense](LogKind::is_dense) kind. Nothing was written.
    Gap,
}

/// Space for a batch, held until the batch is written or the permit is dropped.
#[derive(Debug)]
#[must_use]
pub struct WritePermit {
    reserved: Option<Box<dyn ReservedSpace>>,
}

impl WritePermit {
    /// The permit of an engine without limits.
    pub fn unlimited() -> Self {
        Self { reserved: None }
    }

    /// A permit that holds reserved space of an engine.
    pub fn holding(reserved: impl ReservedSpace) -> Self {
        Self { reserved: Some(Box::new(reserved)) }
    }

    /// The reserved space, if it is of this type.
    pub fn reserved<T: ReservedSpace>(&self) -> Option<&T> {
        let reserved: &dyn Any = self.reserved.as_deref()?;
        reserved.downcast_ref()
    }

    /// As [`WritePermit::reserved`], by value.
    pub fn into_reserved<T: ReservedSpace>(self) -> Option<T> {
        let reserved: Box<dyn Any> = self.reserved?;
        reserved.downcast().ok().map(|reserved| *reserved)
    }
}

/// Reserved space of an engine, released on drop.
pub trait ReservedSpace: std::fmt::Debug + Any + Send {}

impl ReservedSpace for jeton_wal::Reservation {}

/// The durable range of a log.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Extent {
    /// The log is trimmed up to and including this slot.
    pub trimmed: Slot,
    /// The highest slot that was ever written; [`Slot::ZERO`] if none, or if the log is retired.
    pub last: Slot,
}

impl Extent {
    /// The extent of a retired log.
    pub const RETIRED: Self = Self { trimmed: Slot::MAX, last: Slot::ZERO };
}

/// The largest object, in bytes.
pub const OBJECT_BYTES_MAX: usize = 512 << 10;

/// The longest name of an object, in bytes.
pub const OBJECT_NAME_BYTES_MAX: usize = 56;

fn no_objects() -> Error {
    Error::Invalid("this register engine does not store objects".into())
}

/// [`Error::Invalid`] or [`Error::TooLarge`] if there can be no object with this name and length. A name is
/// one of a [blob](check_blob_name). For engines.
pub fn check_object(name: &str, len: usize) -> Result<(), Error> {
    check_blob_name(name)?;
    if name.len() > OBJECT_NAME_BYTES_MAX || len > OBJECT_BYTES_MAX {
        return Err(Error::TooLarge(format!(
            "object {name} of {len} bytes; the limit is {OBJECT_BYTES_MAX}, and {OBJECT_NAME_BYTES_MAX} for the name"
        )));
    }
    Ok(())
}

/// [`Error::Invalid`] or [`Error::TooLarge`] if this cannot be the name of a blob. For engines.
pub fn check_blob_name(name: &str) -> Result<(), Error> {
    Ok(jeton_wal::blobs::check_name(name)?)
}
