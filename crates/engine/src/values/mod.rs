//! The value store: what the cells hold, as of the last checkpoint.
//!
//! It is behind the log, never ahead of what is durable there, and it is changed in whole steps only: after a crash a
//! [`Values::replace`] happened or did not. A sync that failed is not repeated on the same file, because the system may have dropped what it
//! could not write: what failed is taken back, and written again to new files from memory. Rows are keyed by what they are, then by partition:
//!
//! | first byte | then | row |
//! |---|---|---|
//! | 1 | the cell | what it holds |
//! | 2 | partition (2 bytes, highest first) | the partition: slot, time, session floors |
//! | 3 | partition (2), table (4), client | a session |

mod key;
mod lsm;
mod memory;
mod row_batch;
mod snapshot_files;
mod ttl_filter;
mod version_edit;
mod version_pointer;

pub use key::{CellKeys, RowKey, branch_key, cell_key, partition_key, session_key};
pub use lsm::{LsmOptions, LsmValues};
pub use memory::MemoryValues;
pub use row_batch::Rows;
pub use snapshot_files::LsmFiles;

/// Why the value store could not do it. The message names what and where.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("value store: {0}")]
pub struct ValuesError(pub String);

/// A store of rows, sorted by key.
pub trait Values: Send + Sync + 'static {
    /// The row of this key.
    fn get(&self, key: &[u8]) -> Result<Option<Vec<u8>>, ValuesError>;

    /// All rows whose key begins with this byte, in order.
    fn scan(&self, first: u8, each: &mut dyn FnMut(&[u8], &[u8])) -> Result<(), ValuesError>;

    /// The first of these keys, in order, and at most so many.
    fn keys(&self, keys: &CellKeys, limit: usize, each: &mut dyn FnMut(&[u8])) -> Result<(), ValuesError>;

    /// Stores and removes rows (sorted by key, each key once), all or none, durably when it returns.
    fn replace(&self, rows: &Rows) -> Result<(), ValuesError>;

    /// Does some tidying up that makes reads faster and takes back room; true if there may be more to do. The durable log has reached this time, in
    /// milliseconds since 1970, and whatever the store lacks was decided then or later: what is over may go.
    fn compact(&self, reached: u64) -> Result<bool, ValuesError>;

    /// How much tidying up is overdue: beyond some point writers must wait for it.
    fn pending_compactions(&self) -> usize;
}
