//! Engine options, each with a limit.

use std::ops::Range;
use std::time::Duration;

use crate::memory_limit;
use crate::values::LsmOptions;

#[derive(Debug, Clone)]
pub struct Options {
    /// The partitions of the engine. Requests for others are refused as [`Moved`](crate::EngineError::Moved).
    pub partitions: Range<u16>,
    /// Number of shards. More than there are idle processors gains nothing.
    pub shards: usize,
    /// Runtime that runs the shards as tasks; without one each shard has a thread. As tasks they need no
    /// thread switch to answer callers on the same runtime; but a disk read of a shard blocks a runtime
    /// thread.
    pub runtime: Option<tokio::runtime::Handle>,
    /// Maximum bytes of the filters of all tables together. A table whose filters do not fit is refused.
    pub memory_max: usize,
    /// Maximum number of requests in the queue of a shard. Beyond it callers get a busy error.
    pub queue_max: usize,
    /// Maximum number of requests that a shard decides before it writes them to the log and checks for
    /// durable batches.
    pub batch_requests_max: usize,
    /// Bytes of cached cells that the value store has too, over all shards.
    pub cache_bytes: usize,
    /// Bytes of cells that the value store lacks, over all shards. At half of it a checkpoint begins; at all
    /// of it writes are refused: as busy, or as full after a checkpoint failed.
    pub dirty_bytes_max: usize,
    /// Cells that a checkpoint copies before it yields to requests.
    pub copy_cells: usize,
    /// Ids in the memtable of a shard before they are written to the index. At eight times as many writes are
    /// refused, as above.
    pub recent_ids: usize,
    /// Bytes of log after which a checkpoint begins and the filters are stored. The filters are stored only
    /// when the log has grown by twice their size.
    pub log_bytes: u64,
    /// Bytes of the rows in which the filters are stored.
    pub filter_row_bytes: usize,
    pub segment_bytes: u32,
    /// How far the wall clock may be ahead of the last log entry when a store is opened. A clock further
    /// ahead is considered wrong, and the store is not opened: the first write would fix its time there.
    pub clock_ahead_max: Duration,
    /// How far acknowledgements of relaxed tables may run ahead of the disk: while a batch is older than this
    /// and not durable, further ones wait until they are durable.
    pub relaxed_interval: Duration,
    pub lsm: LsmOptions,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            partitions: 0..jeton_core::limits::PARTITIONS,
            shards: std::thread::available_parallelism().map_or(1, |cores| cores.get().div_ceil(2)),
            runtime: None,
            memory_max: memory_limit::default_memory_max(),
            queue_max: 8192,
            batch_requests_max: 2048,
            cache_bytes: memory_limit::default_cache(128 << 20),
            dirty_bytes_max: memory_limit::default_cache(64 << 20),
            copy_cells: 512,
            recent_ids: 65_536,
            log_bytes: 16 << 20,
            filter_row_bytes: 256 << 10,
            segment_bytes: 16 << 20,
            clock_ahead_max: Duration::from_secs(90 * 24 * 3600),
            relaxed_interval: Duration::from_millis(10),
            lsm: LsmOptions::default(),
        }
    }
}

impl Options {
    /// Maximum bytes of the sessions of a partition: with those of all others a quarter of `memory_max`.
    pub(crate) fn session_bytes_max(&self) -> usize {
        self.share_of_memory(4).clamp(64 << 10, jeton_core::limits::SESSION_BYTES_MAX)
    }

    /// Maximum bytes of the prepared branches of a partition: with those of all others a 16th of
    /// `memory_max`.
    pub(crate) fn prepared_bytes_max(&self) -> usize {
        self.share_of_memory(16).clamp(16 << 10, jeton_core::limits::PREPARED_BYTES_MAX)
    }

    /// The part of a partition in this fraction of `memory_max`.
    fn share_of_memory(&self, fraction: usize) -> usize {
        self.memory_max / fraction / usize::from(jeton_core::limits::PARTITIONS)
    }

    pub fn check(&self) -> Result<(), String> {
        let limits = [
            (
                !self.partitions.is_empty() && self.partitions.end <= jeton_core::limits::PARTITIONS,
                "partitions must be at least one of the 256",
            ),
            (
                (1..=usize::from(jeton_core::limits::PARTITIONS)).contains(&self.shards),
                "shards must be between 1 and 256",
            ),
            (self.memory_max >= 1 << 20, "memory_max must be at least 1 MiB"),
            ((1..=1 << 20).contains(&self.queue_max), "queue_max must be between 1 and 2^20"),
            (
                (1..=1 << 16).contains(&self.batch_requests_max),
                "batch_requests_max must be between 1 and 2^16",
            ),
            (self.cache_bytes >= 1 << 20, "cache_bytes must be at least 1 MiB"),
            (self.dirty_bytes_max >= 1 << 20, "dirty_bytes_max must be at least 1 MiB"),
            (self.copy_cells > 0, "copy_cells must be at least 1"),
            ((64..=1 << 24).contains(&self.recent_ids), "recent_ids must be between 64 and 2^24"),
            (self.segment_bytes >= 1 << 20, "segment_bytes must be at least 1 MiB"),
            (
                (256..=1 << 30).contains(&self.filter_row_bytes),
                "filter_row_bytes must be between 256 and 2^30",
            ),
            (self.log_bytes >= 1 << 16, "log_bytes must be at least 64 KiB"),
            (self.relaxed_interval <= Duration::from_secs(60), "relaxed_interval must be at most 60 s"),
        ];
        let wrong = limits.into_iter().find(|(holds, _)| !holds);
        wrong.map_or(Ok(()), |(_, why)| Err(format!("engine options: {why}")))
    }
}
