//! What can be chosen about an engine, with a limit on everything.

use std::time::Duration;

use crate::values::LsmOptions;

/// What can be chosen about an engine.
#[derive(Debug, Clone)]
pub struct Options {
    /// How many own partitions. More than there are processors to spare gains nothing.
    pub shards: usize,
    /// The runtime whose tasks the shards are to be; without one they have threads of their own. As tasks they work beside those who ask
    /// them, and nobody has to wake a thread; whoever shares the runtime waits when a shard reads the disk.
    pub runtime: Option<tokio::runtime::Handle>,
    /// Requests that may wait for a shard. Beyond that callers are told that it is busy.
    pub queue_max: usize,
    /// Requests that a shard decides at a time, at most, before it hands them to the log and looks what became durable.
    pub batch_requests_max: usize,
    /// Memory for cells that the value store has too, of all shards together.
    pub cache_bytes: usize,
    /// Memory for cells that the value store does not have yet, of all shards together. At half of it a checkpoint begins; at
    /// all of it writers must wait.
    pub dirty_bytes_max: usize,
    /// Cells that a checkpoint copies at a time, before requests have their turn again.
    pub copy_cells: usize,
    /// Ids of a shard that are in memory before they are written to the index. At eight times as many writers must wait.
    pub recent_ids: usize,
    /// Bytes of log after which there is a checkpoint, and the filters are stored; these only when the log has grown by twice their size.
    pub log_bytes: u64,
    /// The length of the rows that the filters are stored in.
    pub filter_row_bytes: usize,
    /// The length of a segment of the log.
    pub segment_bytes: u32,
    /// How far after the last entry of the log the wall clock may be when a store is opened. A clock that is further ahead is taken
    /// for wrong, and the store is not opened: its time would be fixed there by the first write.
    pub clock_ahead_max: Duration,
    /// The value store.
    pub lsm: LsmOptions,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            shards: std::thread::available_parallelism().map_or(1, |cores| cores.get().div_ceil(2)),
            runtime: None,
            queue_max: 8192,
            batch_requests_max: 2048,
            cache_bytes: 128 << 20,
            dirty_bytes_max: 64 << 20,
            copy_cells: 512,
            recent_ids: 65_536,
            log_bytes: 64 << 20,
            filter_row_bytes: 256 << 10,
            segment_bytes: 64 << 20,
            clock_ahead_max: Duration::from_secs(90 * 24 * 3600),
            lsm: LsmOptions::default(),
        }
    }
}

impl Options {
    /// Whether these options can be kept.
    pub fn check(&self) -> Result<(), String> {
        let wrong = |what: &str| Err(format!("engine options: {what}"));
        if !(1..=usize::from(jeton_core::limits::PARTITIONS)).contains(&self.shards) {
            return wrong("shards must be between 1 and 256");
        }
        if !(1..=1 << 20).contains(&self.queue_max) || !(1..=1 << 16).contains(&self.batch_requests_max) {
            return wrong("queue_max must be between 1 and 2^20, batch_requests_max between 1 and 2^16");
        }
        if self.dirty_bytes_max < 1 << 20 || self.cache_bytes < 1 << 20 {
            return wrong("cache_bytes and dirty_bytes_max must be at least 1 MiB");
        }
        if self.copy_cells == 0 {
            return wrong("copy_cells must be at least 1");
        }
        if !(64..=1 << 24).contains(&self.recent_ids) {
            return wrong("recent_ids must be between 64 and 2^24");
        }
        if self.segment_bytes < 1 << 20 {
            return wrong("segment_bytes must be at least 1 MiB");
        }
        if !(256..=1 << 30).contains(&self.filter_row_bytes) {
            return wrong("filter_row_bytes must be between 256 bytes and 1 GiB");
        }
        if self.log_bytes < 1 << 16 {
            return wrong("log_bytes must be at least 64 KiB");
        }
        Ok(())
    }
}
