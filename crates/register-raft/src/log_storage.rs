//! The log storage of openraft: all entries since the last snapshot in memory, and on disk unless durability
//! is `Memory`.
//!
//! Invariant: unless durability is `Memory`, an entry, truncation, purge or vote is durable before openraft
//! is notified. A call waits for one fsync for each batch of the WAL that it needs; a purge also for its
//! trim.

use std::fmt::Debug;
use std::ops::RangeBounds;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use jeton_wal::Error;
use jeton_wal::disk::Disk;
use openraft::storage::{LogFlushed, RaftLogStorage};
use openraft::{LogState, OptionalSend, RaftLogReader};

use crate::command::COMMAND_OVERHEAD;
use crate::journal::{Journal, Record, ReplayedLog};
use crate::types::{Entry, RaftLogId, StorageError, StorageIoError, Types, Vote};

/// Entries are sent to another member in groups of about this many bytes.
const GROUP_BYTES_MAX: usize = 2 << 20;

/// The log. A handle: clones are the same log.
pub struct LogStorage<D: Disk> {
    log: Arc<Mutex<ReplayedLog>>,
    journal: Option<Arc<tokio::sync::Mutex<Journal<D>>>>,
}

impl<D: Disk> Clone for LogStorage<D> {
    fn clone(&self) -> Self {
        Self { log: Arc::clone(&self.log), journal: self.journal.clone() }
    }
}

impl<D: Disk> LogStorage<D> {
    pub fn new(log: ReplayedLog, journal: Option<Journal<D>>) -> Self {
        let journal = journal.map(|journal| Arc::new(tokio::sync::Mutex::new(journal)));
        Self { log: Arc::new(Mutex::new(log)), journal }
    }

    /// Locks the log. Poisoning is ignored, because no panic leaves the log half changed.
    fn log(&self) -> MutexGuard<'_, ReplayedLog> {
        self.log.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Makes records durable and applies them to the log in memory. Returns the slot of the first record.
    async fn store(&self, records: Vec<Record>) -> Result<u64, StorageError> {
        let error = |error: Error| StorageIoError::write_logs(openraft::AnyError::new(&error));
        let places = match &self.journal {
            Some(journal) => journal.lock().await.append(&records).await.map_err(error)?,
            None => records.iter().map(|record| (0, cost(record))).collect(),
        };
        let first = places.first().map_or(0, |place| place.0);
        let mut log = self.log();
        for (record, (slot, bytes)) in records.into_iter().zip(places) {
            log.apply(record, slot, bytes);
        }
        Ok(first)
    }

    fn range(&self, range: impl RangeBounds<u64>, bytes_max: usize) -> Vec<Entry> {
        let log = self.log();
        let mut bytes = 0;
        let mut entries = Vec::new();
        for (_, stored) in log.entries.range(range) {
            bytes += stored.bytes;
            if !entries.is_empty() && bytes > bytes_max {
                break;
            }
            entries.push(stored.entry.clone());
        }
        entries
    }
}

/// The bytes that a record would take on disk, about.
fn cost(record: &Record) -> usize {
    match record {
        Record::Entry(Entry { payload: openraft::EntryPayload::Normal(proposal), .. }) => {
            COMMAND_OVERHEAD + proposal.cost()
        }
        _ => COMMAND_OVERHEAD,
    }
}

impl<D: Disk> RaftLogReader<Types> for LogStorage<D> {
    async fn try_get_log_entries<R: RangeBounds<u64> + Clone + Debug + OptionalSend>(
        &mut self,
        range: R,
    ) -> Result<Vec<Entry>, StorageError> {
        Ok(self.range(range, usize::MAX))
    }

    async fn limited_get_log_entries(&mut self, start: u64, end: u64) -> Result<Vec<Entry>, StorageError> {
        Ok(self.range(start..end, GROUP_BYTES_MAX))
    }
}

impl<D: Disk> RaftLogStorage<Types> for LogStorage<D> {
    type LogReader = Self;

    async fn get_log_state(&mut self) -> Result<LogState<Types>, StorageError> {
        let log = self.log();
        let last = log.entries.last_key_value().map(|(_, stored)| stored.entry.log_id);
        Ok(LogState { last_purged_log_id: log.purged, last_log_id: last.or(log.purged) })
    }

    async fn get_log_reader(&mut self) -> Self {
        self.clone()
    }

    async fn save_vote(&mut self, vote: &Vote) -> Result<(), StorageError> {
        self.store(vec![Record::Vote(*vote)]).await.map(drop)
    }

    async fn read_vote(&mut self) -> Result<Option<Vote>, StorageError> {
        Ok(self.log().vote)
    }

    async fn append<I>(&mut self, entries: I, callback: LogFlushed<Types>) -> Result<(), StorageError>
    where
        I: IntoIterator<Item = Entry> + OptionalSend,
        I::IntoIter: OptionalSend,
    {
        self.store(entries.into_iter().map(Record::Entry).collect()).await?;
        callback.log_io_completed(Ok(()));
        Ok(())
    }

    async fn truncate(&mut self, from: RaftLogId) -> Result<(), StorageError> {
        self.store(vec![Record::Truncate(from.index)]).await.map(drop)
    }

    async fn purge(&mut self, through: RaftLogId) -> Result<(), StorageError> {
        // Identity and vote are written again, because the trim drops their records.
        let records: Vec<Record> = {
            let log = self.log();
            let identity = log.identity.map(Record::Identity);
            identity.into_iter().chain(log.vote.map(Record::Vote)).chain([Record::Purge(through)]).collect()
        };
        let first = self.store(records).await?;
        let first_entry = self.log().entries.first_key_value().map(|(_, stored)| stored.slot);
        if let Some(journal) = &self.journal {
            let trimmed = journal.lock().await.trim_before(first_entry.unwrap_or(first)).await;
            trimmed.map_err(|error| StorageIoError::write_logs(openraft::AnyError::new(&error)))?;
        }
        Ok(())
    }
}
