//! The write-ahead log.
//!
//! ```text
//! LOCK                     held by the process that uses the directory
//! log/0000000001.log       segments: a header, then frames; one frame is one flush and one fsync
//! log/spare-0000000001     the file of a released segment, kept for reuse
//! rows/<name>              blobs: small named files, each replaced atomically
//! ```
//!
//! A wal holds several logs. A log is a sequence of entries with consecutive slots, starting at 1. There is
//! one retention rule: a log is trimmed up to a slot. The oldest segment is released when every log is
//! trimmed past it.
//!
//! Invariants:
//! - *Durable in order.* Entries become durable in the order of the appends, and an append is acknowledged
//!   only then.
//! - *No gaps, no overwrites.* An append at a slot other than the next one is refused and changes nothing.
//! - *Torn or damaged.* A torn last frame is cut. After damage before it the wal does not open; the error
//!   names the file and the offset.
//! - *Reserved space is available.* An append with a [`Reservation`] is not refused for lack of disk space.
//!
//! A [`Journal`] has no thread and never blocks; a simulator drives it step by step. [`Wal`] is a journal
//! with the two threads that drive it.

/// Whether a planted bug is active.
#[cfg(feature = "mutations")]
macro_rules! mutated {
    ($name:ident) => {
        jeton_core::mutated!($name)
    };
}

/// Marks the place of a deliberate bug (see `mutation.rs` in `jeton-core`); always `false` without the
/// feature `mutations`.
#[cfg(not(feature = "mutations"))]
macro_rules! mutated {
    ($name:ident) => {
        false
    };
}

mod abort_on_panic;
mod batch;
pub mod blobs;
pub mod disk;
mod durability_waiters;
mod error;
mod frame;
mod journal;
pub mod legacy;
mod location;
mod log_id;
mod log_table;
mod open_error;
mod options;
mod out_of_space;
mod pending_flush;
mod reader;
mod record;
mod recovery;
mod reservation;
mod segment;
mod segment_task;
pub mod varint;
mod wal;

pub use abort_on_panic::{AbortOnPanic, abort_process, spawn_aborting};
pub use batch::Batch;
pub use blobs::Blob;
pub use durability_waiters::DurableAt;
pub use error::Error;
pub use journal::Journal;
pub use location::{FrameNumber, Location};
pub use log_id::{Extent, LogId, Slot};
pub use open_error::{Fatal, OpenError};
pub use options::{
    BATCH_BYTES_MAX, BATCH_ENTRIES_MAX, ENTRY_BYTES_MAX, LOGS_MAX, Limits, Options, SPARES_MAX,
};
pub use pending_flush::PendingFlush;
pub use reader::Reader;
pub use reservation::Reservation;
pub use segment_task::SegmentTask;
pub use wal::{OnFatal, Wal};
