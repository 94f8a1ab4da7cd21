//! Limits on everything whose size a client chooses.

/// Number of partitions of a store. Never changes: every cell's address contains its partition.
pub const PARTITIONS: u16 = 256;

pub const TABLE_NAME_BYTES_MAX: usize = 64;
pub const ROW_BYTES_MAX: usize = 1024;
pub const FAMILY_BYTES_MAX: usize = 64;
pub const QUALIFIER_BYTES_MAX: usize = 255;

/// Maximum bytes of an opaque id, an event id or an event source.
pub const ID_BYTES_MAX: usize = 255;

/// Maximum bytes of the client name in a sequenced id.
pub const CLIENT_BYTES_MAX: usize = 64;

/// Maximum bytes of a cell that is not a counter.
pub const CELL_BYTES_MAX: usize = 64 << 10;

pub const CHANGES_MAX: usize = 256;
pub const ENTRY_BYTES_MAX: usize = 1 << 20;

/// Maximum bytes of an encoded operation: it fits into a log entry with any result.
pub const OPERATION_BYTES_MAX: usize = ENTRY_BYTES_MAX - 64;

/// Maximum number of results of sequenced ids that a partition records for a client.
pub const SESSION_WINDOW: usize = 256;

/// Maximum number of sessions of a partition, and the default of the maximum bytes.
pub const SESSIONS_MAX: usize = 1024;
pub const SESSION_BYTES_MAX: usize = 16 << 20;

/// A session that is idle for this long can be evicted for a new one of its table if the partition is full.
pub const SESSION_IDLE_MIN: std::time::Duration = std::time::Duration::from_secs(600);

pub const BRANCH_NAME_BYTES_MAX: usize = 200;

/// Maximum number of additions in a branch, over all partitions.
pub const ADDITIONS_MAX: usize = 256;

/// Maximum number of prepared branches in a partition, and the default of their maximum total bytes.
pub const PREPARED_MAX: usize = 1024;
pub const PREPARED_BYTES_MAX: usize = 4 << 20;

/// How long the outcome of a branch is recorded.
pub const BRANCH_WINDOW: std::time::Duration = std::time::Duration::from_secs(7 * 24 * 3600);
