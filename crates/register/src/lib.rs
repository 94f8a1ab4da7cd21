//! Write-once registers: a register accepts one value permanently.
//!
//! Everything that needs agreement in Jeton is a write-once register. A register is named by a [`LogId`] and
//! a [`Slot`], its number in that log.
//!
//! Every engine ([`Registers`]) guarantees:
//! - *One value.* All responses about a register contain the same value.
//! - *Durable.* A value that a write or a read has returned survives every crash.
//! - *A trimmed register stays written.* After a trim its value is gone, and a write to it is refused
//!   permanently. The same holds for all registers of a retired log. Both are checked atomically with the
//!   write: a delayed writer is refused.
//! - *An unknown outcome is resolved by writing again*: the response contains the value that was there.
//! - *No gaps* in logs of a [dense](LogKind::is_dense) kind: a write after an empty register is refused.

mod admission;
mod batch;
#[cfg(feature = "conformance")]
pub mod conformance;
pub mod embedded;
mod error;
mod log_id;
pub mod memory;
mod migrate;
mod register_entry;
mod register_map;
mod registers;
mod write_queue;

pub use admission::{Admission, Admitted};
pub use batch::Batch;
pub use error::Error;
pub use jeton_wal::{Blob, Slot};
pub use log_id::{LogId, LogKind};
pub use migrate::{MigrateError, MigrateReport, migrate};
pub use register_map::RegisterMap;
pub use registers::{
    Extent, Limits, OBJECT_BYTES_MAX, OBJECT_NAME_BYTES_MAX, Registers, ReservedSpace, WritePermit, WriteResult,
    check_blob_name, check_object,
};
pub use write_queue::{QueuedWrite, WriteQueue, WriteQueueReceiver};
