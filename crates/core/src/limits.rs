//! A limit on everything that a client can choose the size of.

/// The partitions of a store. Fixed for ever: it is part of where every cell lives.
pub const PARTITIONS: u16 = 256;

/// The longest table name.
pub const TABLE_NAME_BYTES_MAX: usize = 64;

/// The longest row.
pub const ROW_BYTES_MAX: usize = 1024;

/// The longest column family.
pub const FAMILY_BYTES_MAX: usize = 64;

/// The longest column qualifier.
pub const QUALIFIER_BYTES_MAX: usize = 255;

/// The longest opaque id, event id or event source.
pub const ID_BYTES_MAX: usize = 255;

/// The longest client name of a sequenced id.
pub const CLIENT_BYTES_MAX: usize = 64;

/// The largest plain cell.
pub const CELL_BYTES_MAX: usize = 64 << 10;

/// The most changes under one id.
pub const CHANGES_MAX: usize = 256;

/// The largest entry of a partition's log.
pub const ENTRY_BYTES_MAX: usize = 1 << 20;

/// The largest operation as bytes: one fits into an entry, whatever its answer.
pub const OPERATION_BYTES_MAX: usize = ENTRY_BYTES_MAX - 64;

/// How many sequence numbers back a client may still retry.
pub const SESSION_WINDOW: u64 = 256;

/// The most sessions of one partition.
pub const SESSIONS_MAX: usize = 1024;

/// The longest name of a branch of a transaction.
pub const BRANCH_NAME_BYTES_MAX: usize = 200;

/// The most additions of a branch, in all its partitions together.
pub const ADDITIONS_MAX: usize = 256;

/// The most branches that a partition holds at a time.
pub const HELD_MAX: usize = 1024;

/// The most bytes of branches that a partition holds at a time.
pub const HELD_BYTES_MAX: usize = 4 << 20;

/// How long it is remembered how a branch was settled.
pub const BRANCH_WINDOW: std::time::Duration = std::time::Duration::from_secs(7 * 24 * 3600);
