//! The Raft log on disk: a sequence of records in a wal.
//!
//! Raft truncates the end of its log when it differs from the leader's; a wal only grows. So the wal contains
//! not the log but the changes to it, in order: entry, truncation, purge, vote, identity. Opening it replays
//! them. The wal grows at its end and is trimmed at its start.
//!
//! Invariants:
//! - Records are durable in the order of the appends, and complete or absent: a record is split into pieces
//!   with flags for the first and the last one, and a record without its last piece was never acknowledged.
//! - A trim drops nothing that is still needed: identity, vote and purge point are written again before it.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use jeton_wal::disk::Disk;
use jeton_wal::{Batch, Error, LogId, Slot, Wal};
use serde::{Deserialize, Serialize};

use crate::node_identity::LogIdentity;
use crate::open_error::OpenError;
use crate::types::{Entry, RaftLogId, Vote};

/// The only log of the wal.
const STREAM: LogId = LogId(0);
/// The first byte of a piece.
const FIRST: u8 = 1;
const LAST: u8 = 2;
/// How long to wait for disk space before a retry. Meanwhile this member does not respond, and the others
/// continue without it.
const SPACE_PAUSE: Duration = Duration::from_millis(100);

/// A change of the log.
#[derive(Debug, Serialize, Deserialize)]
pub enum Record {
    Entry(Entry),
    /// Drops all entries from this index on.
    Truncate(u64),
    /// Drops all entries up to this one, which are in a snapshot.
    Purge(RaftLogId),
    Vote(Vote),
    /// The first record of a log.
    Identity(LogIdentity),
}

/// An entry, and the slot of the first piece of its record.
#[derive(Debug)]
pub struct StoredEntry {
    pub entry: Entry,
    pub slot: u64,
    pub bytes: usize,
}

/// The log after all changes.
#[derive(Debug, Default)]
pub struct ReplayedLog {
    pub entries: BTreeMap<u64, StoredEntry>,
    pub purged: Option<RaftLogId>,
    pub vote: Option<Vote>,
    pub identity: Option<LogIdentity>,
}

impl ReplayedLog {
    pub fn apply(&mut self, record: Record, slot: u64, bytes: usize) {
        match record {
            Record::Entry(entry) => {
                self.entries.insert(entry.log_id.index, StoredEntry { entry, slot, bytes });
            }
            Record::Truncate(from) => drop(self.entries.split_off(&from)),
            Record::Purge(through) => {
                self.entries = self.entries.split_off(&(through.index + 1));
                self.purged = Some(through);
            }
            Record::Vote(vote) => self.vote = Some(vote),
            Record::Identity(identity) => self.identity = Some(identity),
        }
    }
}

pub struct Journal<D: Disk> {
    pub wal: Arc<Wal<D>>,
    next: Slot,
    piece_bytes_max: usize,
    batch_bytes_max: usize,
    batch_entries_max: usize,
}

impl<D: Disk> Journal<D> {
    /// Opens the wal and replays it.
    pub fn open(disk: D, options: jeton_wal::Options) -> Result<(Self, ReplayedLog), OpenError> {
        let wal = Arc::new(Wal::open(disk, options)?);
        let (reader, extents) = wal.snapshot([STREAM])?;
        let mut replayed = ReplayedLog::default();
        let mut whole = Vec::new();
        let mut first = None;
        reader.for_each(|log, slot, piece| {
            let (&flags, bytes) = match piece.split_first() {
                Some(split) if log == STREAM => split,
                _ => return Err(invalid(slot, "is not a piece of a record")),
            };
            if flags & FIRST != 0 {
                whole.clear();
                first = Some(slot);
            }
            // The rest of a record whose start is trimmed is skipped.
            let Some(start) = first else { return Ok(()) };
            whole.extend_from_slice(bytes);
            if flags & LAST != 0 {
                let record = postcard::from_bytes(&whole)
                    .map_err(|error| invalid(start, &format!("is not a record: {error}")))?;
                replayed.apply(record, start.0, whole.len());
                first = None;
            }
            Ok(())
        })?;
        let limits = wal.limits();
        let journal = Self {
            wal,
            next: extents[0].end().next(),
            piece_bytes_max: limits.entry_bytes_max - 1,
            batch_bytes_max: limits.batch_bytes_max,
            batch_entries_max: limits.batch_entries_max,
        };
        Ok((journal, replayed))
    }

    pub fn is_new(&self) -> bool {
        self.next == Slot(1)
    }

    /// Appends records durably. Returns the first slot and the length of each.
    pub async fn append(&mut self, records: &[Record]) -> Result<Vec<(u64, usize)>, Error> {
        let mut places = Vec::with_capacity(records.len());
        let mut batch = Batch::new();
        for record in records {
            let bytes = postcard::to_allocvec(record)
                .map_err(|error| Error::Invalid(format!("a record cannot be stored: {error}")))?;
            places.push((self.next.0, bytes.len()));
            let count = bytes.len().div_ceil(self.piece_bytes_max);
            for (index, piece) in bytes.chunks(self.piece_bytes_max).enumerate() {
                if batch.entry_bytes() + piece.len() + 1 > self.batch_bytes_max
                    || batch.len() == self.batch_entries_max
                {
                    self.write(std::mem::take(&mut batch)).await?;
                }
                let flags = if index == 0 { FIRST } else { 0 } | if index + 1 == count { LAST } else { 0 };
                batch.push_with(STREAM, self.next, |buffer| {
                    buffer.push(flags);
                    buffer.extend_from_slice(piece);
                });
                self.next = self.next.next();
            }
        }
        self.write(batch).await?;
        Ok(places)
    }

    async fn write(&self, batch: Batch) -> Result<(), Error> {
        if batch.is_empty() {
            return Ok(());
        }
        let reservation = with_space(|| self.wal.reserve(batch.len(), batch.entry_bytes())).await?;
        self.wal.append(&batch, reservation)?.await
    }

    /// Trims the records before this slot.
    pub async fn trim_before(&self, slot: u64) -> Result<(), Error> {
        with_space(|| self.wal.trim(&[(STREAM, Slot(slot.saturating_sub(1)))])).await?.await
    }
}

/// Retries while the next segment is being created or the disk is full. An error of the log would end Raft
/// and the process.
async fn with_space<T>(mut request: impl FnMut() -> Result<T, Error>) -> Result<T, Error> {
    loop {
        match request() {
            Err(Error::Busy(_) | Error::Full(_)) => tokio::time::sleep(SPACE_PAUSE).await,
            result => return result,
        }
    }
}

fn invalid(slot: Slot, why: &str) -> OpenError {
    OpenError::Damaged(format!("slot {slot} of the Raft log {why}"))
}

#[cfg(test)]
mod tests {
    use std::pin::pin;
    use std::task::{Context, Poll, Waker};

    use jeton_wal::disk::FaultDisk;

    use super::*;

    #[test]
    fn trim_waits_for_space_instead_of_failing() {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
        let disk = FaultDisk::new();
        // The first segment fits, the next one does not.
        disk.set_free_space(Some(1 << 16));
        let (mut journal, _) = Journal::open(disk.clone(), jeton_wal::Options::small(1 << 16)).unwrap();
        runtime.block_on(journal.append(&[Record::Truncate(1), Record::Truncate(2)])).unwrap();
        // Trims of another log use all space, including the headroom.
        let full = (1..).find_map(|slot| journal.wal.trim(&[(LogId(1), Slot(slot))]).err());
        assert!(matches!(full, Some(Error::Busy(_) | Error::Full(_))), "{full:?}");
        let _context = runtime.enter();
        let mut trim = pin!(journal.trim_before(2));
        let refused = trim.as_mut().poll(&mut Context::from_waker(Waker::noop()));
        assert!(matches!(refused, Poll::Pending), "{refused:?}");
        disk.set_free_space(None);
        runtime.block_on(trim).unwrap();
        assert_eq!(journal.wal.extent(STREAM).unwrap().trimmed, Slot(1));
    }
}
