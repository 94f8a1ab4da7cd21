//! The embedded engine: a log of its own in preallocated segments, one sync for everything that arrived meanwhile.
//!
//! ```text
//! LOCK                     who uses the directory
//! log/0000000001.log       segments: a header, then frames; one frame is one flush and one sync
//! log/spare-0000000001     a trimmed segment's file, to be used again
//! rows/<name>              plain rows, each replaced whole
//! ```
//!
//! Two layers. A [`Journal`] has no thread and never waits: a simulator drives it step by step. [`Embedded`] is the journal at work,
//! with the threads that drive it.
//!
//! Segments are released oldest first, so that one that is missing can be told from one that was released. So a log that is trimmed more
//! slowly than the others holds the segments of all; except that dated logs, which live for a window, hold them only until what they have
//! in the oldest is carried to the newest.

mod carrying;
mod cells;
mod engine;
mod frame;
mod index;
mod journal;
mod location;
mod open_error;
mod options;
mod reading;
mod record;
mod recovery;
mod retirement;
mod room;
mod row_queue;
pub mod rows;
mod segment;
mod staged;
mod stall;
mod tally;
mod varint;
mod waiters;

pub use engine::{Embedded, OnFatal};
pub use journal::Journal;
pub use location::Sequence;
pub use open_error::{Fatal, OpenError};
pub use options::{
    BATCH_BYTES_MAX, BATCH_WRITES_MAX, DATED_LOGS_MAX, GAP_SLOTS_MAX, LOGS_MAX, Options, READ_BYTES_MAX,
    READ_REGISTERS_MAX, SPARES_MAX, VALUE_BYTES_MAX,
};
pub use reading::Reading;
pub use room::Errand;
pub use row_queue::ROWS_WAITING_MAX;
pub use rows::{ROW_BYTES_MAX, ROW_NAME_BYTES_MAX};
pub use staged::Staged;
