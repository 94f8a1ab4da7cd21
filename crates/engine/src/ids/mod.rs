//! The id index: what became of every id, on disk, in sorted runs.
//!
//! The filter in memory answers "certainly new" for nearly every new id. What it may have seen, a retry or a rare false
//! positive, is looked up here. So ids arrive by the hundred thousand a second and lookups are few: an id is written once
//! into a sorted run, is copied once per tier when runs are merged, and leaves with its whole generation. A general
//! log-structured tree spends ten times the processor on the same.
//!
//! What must hold:
//! - *No memory per id.* A run costs its entry in the list and, while in use, a file handle; both are bounded.
//! - *Damage is an error, never "not found".* Every byte that an answer rests on is checksummed, and the checksums know
//!   their place, so that a piece of another file or of another place does not pass.
//! - *The manifest decides.* A run counts once a durable manifest lists it; a file is removed only after a durable manifest
//!   no longer lists it and no reader holds it. A crash at any point leaves the state of some commit, not older than the
//!   last one that returned.
//! - *A sync that failed is not repeated.* The system may have dropped what it could not write, and a second sync of the same file then
//!   says yes to nothing. A run or a manifest whose sync failed is removed and written again under another name, from memory or from
//!   runs that are durable; so is a run that was new when a sync of names failed, and the manifest's rename is made again.
//! - *Readers wait for nobody.* They hold a list of runs that never changes.
//! - All input and output goes through [`Disk`](jeton_register::disk::Disk). There is no clock, no chance and no thread here.
//!
//! A run is one file, all numbers little-endian:
//!
//! | part | content |
//! |---|---|
//! | header, 64 bytes | magic, version, run number, generation, buckets, ids, file size, digest of all bucket sums, check |
//! | directory, 96 bytes per bucket | where the bucket starts, its bytes, its ids, its sum, a filter of its ids, check |
//! | buckets | records in the order of their keys: key (16 bytes), length of the value (LEB128), value |
//!
//! The bucket of a key is its place in the key space, scaled to the number of buckets: keys are keyed hashes, so buckets are
//! about equal. A lookup reads one directory entry, and nearly always only then a bucket when the id is in it.
//!
//! It is not a general map: nothing is changed or removed one by one, and keys that are not uniform make it slow (though
//! never wrong).

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
mod snapshot_files;
mod stats;
mod version;
mod writer;

pub use entry::{Entry, sort};
pub use error::Error;
pub use index::IdIndex;
pub use run::NewRun;
pub use snapshot_files::Files;
pub use stats::Stats;

/// An id as the index knows it: a keyed hash, so uniformly distributed whatever clients choose.
pub type Key = [u8; 16];

/// The longest value in bytes.
pub const VALUE_BYTES_MAX: usize = 64 * 1024;

/// The longest note of the caller in the manifest, in bytes.
pub const NOTE_BYTES_MAX: usize = 1024 * 1024;

/// How many runs a manifest lists at most. Merging keeps it far below; without merging, every commit rewrites a longer list.
pub const RUNS_MAX: usize = 100_000;

/// How many files stay open between lookups. A merge holds its inputs and its output beyond that, and each reader one.
pub const OPEN_FILES_MAX: usize = 128;

/// How many runs of a tier of a generation become one run of the next tier.
pub const TIER_RUNS: usize = 8;
