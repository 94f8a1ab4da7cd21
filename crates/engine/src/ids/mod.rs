//! The id index: dedup records on disk, in sorted runs.
//!
//! The filter in memory reports nearly every new id as new. A filter hit, a retry or a rare false positive,
//! is looked up here. So insertions are frequent (100,000 a second) and lookups are rare: an id is written
//! once into a sorted run, copied once per tier when runs are merged, and dropped with its whole generation.
//! A general LSM tree needs ten times the CPU for this.
//!
//! Invariants:
//! - *No memory per id.* A run costs its entry in the list and, while in use, a file handle; both are
//!   bounded.
//! - *Damage is an error, never "not found".* Every byte that a result depends on is checksummed, and the
//!   checksums include their position, so that bytes of another file or position are rejected.
//! - *The manifest decides.* A run is live once a durable manifest lists it; a file is removed only after a
//!   durable manifest no longer lists it and no reader uses it. A crash at any point leaves the state of some
//!   commit, not older than the last one that returned.
//! - *A failed sync is not repeated.* The kernel may have dropped what it could not write, and a second sync
//!   of the same file would succeed all the same. A run or a manifest whose sync failed is removed and
//!   written again under another name, from memory or from durable runs; so is a run that was new when a sync
//!   of names failed, and the manifest is renamed again.
//! - *Readers never wait.* They use a list of runs that never changes.
//! - All I/O goes through [`Disk`](jeton_wal::disk::Disk). There is no clock, no random number and no
//!   thread here.
//!
//! A run is one file, all numbers little-endian:
//!
//! | part | content |
//! |---|---|
//! | header, 64 bytes | magic, version, run number, generation, buckets, ids, file size, digest, checksum |
//! | directory, 96 bytes per bucket | start, bytes, ids, checksum and filter of the bucket, checksum |
//! | buckets | records in the order of their keys: key (16 bytes), length of the value (LEB128), value |
//!
//! The bucket of a key is its position in the key space, scaled to the number of buckets: keys are keyed
//! hashes, so buckets have about equal size. A lookup reads one directory entry, and the bucket almost only
//! if the id is in it.
//!
//! It is not a general map: entries are not changed or removed one by one, and keys that are not uniform make
//! it slow, though never wrong.

mod bucket;
mod directory;
mod encoding;
mod entry;
mod error;
mod file_cache;
mod header;
mod index;
mod manifest;
mod merge;
mod merge_scheduler;
mod run;
mod scan;
mod version;
mod writer;

pub use entry::{Entry, sort};
pub use error::Error;
pub use index::IdIndex;
pub use run::NewRun;
pub use version::{Files, Stats};

/// An id in the index: a keyed hash, so uniformly distributed whatever clients choose.
pub type Key = [u8; 16];

pub const VALUE_BYTES_MAX: usize = 64 * 1024;

/// Maximum bytes of the caller's note in the manifest.
pub const NOTE_BYTES_MAX: usize = 1024 * 1024;

/// Maximum number of runs in a manifest. Merging keeps it far below.
pub const RUNS_MAX: usize = 100_000;

/// Maximum number of files kept open between lookups. A merge opens its inputs and output in addition, and
/// each reader one.
pub const OPEN_FILES_MAX: usize = 128;

/// Number of runs of a tier of a generation that are merged into one run of the next tier.
pub const TIER_RUNS: usize = 8;
