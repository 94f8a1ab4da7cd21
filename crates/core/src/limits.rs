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
