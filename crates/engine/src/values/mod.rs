//! The value store: the contents of cells as of the last checkpoint.
//!
//! It is behind the log, never ahead of what is durable there, and changes atomically: after a crash a
//! [`Values::replace`] happened or did not. A failed sync is not repeated on the same file, because the
//! kernel may have dropped what it could not write: the change is rolled back and written again to new files
//! from memory. Rows are keyed by kind, then by partition:
//!
//! | first byte | then | row |
//! |---|---|---|
//! | 1 | the cell | its content |
//! | 2 | partition (2 bytes, highest first) | the partition: slot, time, session floors |
//! | 3 | partition (2), table (4), client | a session |
//! | 4 | partition (2), name | a prepared branch |

mod key;
mod lsm;
mod memory;
mod row_batch;
mod ttl_filter;
mod version_edit;
mod version_pointer;

pub use key::{CellKeys, RowKey, branch_key, cell_key, partition_key, session_key};
pub use lsm::{LsmFiles, LsmOptions, LsmValues};
pub use memory::MemoryValues;
pub use row_batch::Rows;

/// An error of the value store. The message names the action and the file.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("value store: {0}")]
pub struct ValuesError(pub String);

/// A store of rows, sorted by key.
pub trait Values: Send + Sync + 'static {
    fn get(&self, key: &[u8]) -> Result<Option<Vec<u8>>, ValuesError>;

    /// All rows whose key begins with this byte, in order.
    fn scan(&self, first: u8, each: &mut dyn FnMut(&[u8], &[u8])) -> Result<(), ValuesError>;

    /// The first keys of the range, in order, at most `limit`.
    fn keys(&self, keys: &CellKeys, limit: usize, each: &mut dyn FnMut(&[u8])) -> Result<(), ValuesError>;

    /// Stores and removes rows (sorted by key, each key once), atomically; durable when it returns.
    fn replace(&self, rows: &Rows) -> Result<(), ValuesError>;

    /// Does some compaction; true if there may be more to do. Values that have expired at `expired`, in
    /// milliseconds since 1970, may be dropped: the durable log has reached that time, and what the store
    /// lacks was decided then or later.
    fn compact(&self, expired: u64) -> Result<bool, ValuesError>;

    /// Number of overdue compactions: beyond some point writers must wait.
    fn pending_compactions(&self) -> usize;
}
