//! The log of Raft, as Raft asks for it: all entries since the last snapshot in memory, and on disk if there is one.
//!
//! What must hold: what was appended, cut, purged or voted is durable before Raft is told so. One call is one sync, however many entries
//! it brings.

use std::fmt::Debug;
use std::ops::RangeBounds;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use jeton_wal::Error;
use jeton_wal::disk::Disk;
use openraft::storage::{LogFlushed, RaftLogStorage};
use openraft::{LogState, OptionalSend, RaftLogReader};

use crate::command::COMMAND_OVERHEAD;
use crate::journal::{Journal, Record, ReplayedLog, StoredEntry};
use crate::types::{Entry, RaftLogId, StorageError, StorageIoError, Types, Vote};

/// Entries are sent to another member in groups of about so many bytes.
const GROUP_BYTES_MAX: usize = 2 << 20;

/// The log. A handle: clones are the same log.
pub struct Entries<D: Disk> {
    content: Arc<Mutex<ReplayedLog>>,
    journal: Option<Arc<tokio::sync::Mutex<Journal<D>>>>,
}

impl<D: Disk> Clone for Entries<D> {
    fn clone(&self) -> Self {
        Self { content: Arc::clone(&self.content), journal: self.journal.clone() }
    }
}

impl<D: Disk> Entries<D> {
    pub fn new(content: ReplayedLog, journal: Option<Journal<D>>) -> Self {
        let journal = journal.map(|journal| Arc::new(tokio::sync::Mutex::new(journal)));
        Self { content: Arc::new(Mutex::new(content)), journal }
    }

    /// Nothing in here is left half done by a panic.
    fn content(&self) -> MutexGuard<'_, ReplayedLog> {
        self.content.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Stores records, if there is a disk. Where each begins, and how long it is.
    async fn store(&self, records: &[Record]) -> Result<Vec<(u64, usize)>, Error> {
        match &self.journal {
            Some(journal) => journal.lock().await.append(records).await,
            None => Ok(records.iter().map(|record| (0, cost(record))).collect()),
        }
    }

    fn range(&self, range: impl RangeBounds<u64>, bytes_max: usize) -> Vec<Entry> {
        let content = self.content();
        let mut bytes = 0;
        let mut entries = Vec::new();
        for kept in content.entries.range(range).map(|(_, kept)| kept) {
            bytes += kept.bytes;
            if !entries.is_empty() && bytes > bytes_max {
                break;
            }
            entries.push(kept.entry.clone());
        }
        entries
    }
}

/// What a record would take on a disk, about.
fn cost(record: &Record) -> usize {
    let Record::Entry(entry) = record else { return COMMAND_OVERHEAD };
    match &entry.payload {
        openraft::EntryPayload::Normal(proposal) => COMMAND_OVERHEAD + proposal.cost(),
        _ => COMMAND_OVERHEAD,
    }
}

fn write_error(failure: Error) -> StorageError {
    StorageIoError::write_logs(openraft::AnyError::new(&failure)).into()
}

impl<D: Disk> RaftLogReader<Types> for Entries<D> {
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

impl<D: Disk> RaftLogStorage<Types> for Entries<D> {
    type LogReader = Self;

    async fn get_log_state(&mut self) -> Result<LogState<Types>, StorageError> {
        let content = self.content();
        let last = content.entries.last_key_value().map(|(_, kept)| kept.entry.log_id);
        Ok(LogState { last_purged_log_id: content.purged, last_log_id: last.or(content.purged) })
    }

    async fn get_log_reader(&mut self) -> Self {
        self.clone()
    }

    async fn save_vote(&mut self, vote: &Vote) -> Result<(), StorageError> {
        self.store(&[Record::Vote(*vote)]).await.map_err(write_error)?;
        self.content().vote = Some(*vote);
        Ok(())
    }

    async fn read_vote(&mut self) -> Result<Option<Vote>, StorageError> {
        Ok(self.content().vote)
    }

    async fn append<I>(&mut self, entries: I, callback: LogFlushed<Types>) -> Result<(), StorageError>
    where
        I: IntoIterator<Item = Entry> + OptionalSend,
        I::IntoIter: OptionalSend,
    {
        let records: Vec<Record> = entries.into_iter().map(Record::Entry).collect();
        let places = self.store(&records).await.map_err(write_error)?;
        let mut content = self.content();
        for (record, (slot, bytes)) in records.into_iter().zip(places) {
            if let Record::Entry(entry) = record {
                content.entries.insert(entry.log_id.index, StoredEntry { entry, slot, bytes });
            }
        }
        drop(content);
        callback.log_io_completed(Ok(()));
        Ok(())
    }

    async fn truncate(&mut self, from: RaftLogId) -> Result<(), StorageError> {
        self.store(&[Record::Cut(from.index)]).await.map_err(write_error)?;
        drop(self.content().entries.split_off(&from.index));
        Ok(())
    }

    async fn purge(&mut self, through: RaftLogId) -> Result<(), StorageError> {
        let (plate, vote) = {
            let content = self.content();
            (content.plate.map(Record::LogIdentity), content.vote.map(Record::Vote))
        };
        // First what must not be lost with what is trimmed.
        let records: Vec<Record> = plate.into_iter().chain(vote).chain([Record::Purged(through)]).collect();
        let places = self.store(&records).await.map_err(write_error)?;
        let needed = {
            let mut content = self.content();
            content.entries = content.entries.split_off(&(through.index + 1));
            content.purged = Some(through);
            let first_entry = content.entries.first_key_value().map(|(_, kept)| kept.slot);
            first_entry.unwrap_or(places[0].0)
        };
        if let Some(journal) = &self.journal {
            journal.lock().await.trim_before(needed).await.map_err(write_error)?;
        }
        Ok(())
    }
}
