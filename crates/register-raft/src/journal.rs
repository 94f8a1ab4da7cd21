//! The log of Raft on disk: a stream of records, each one or more registers of an embedded store.
//!
//! Raft overwrites the end of its log when a leader finds that it differs; a register is written once. So what is stored is not the
//! log but what happened to it, in order: an entry, a cut, a forgotten beginning, a vote. Whoever opens it does the same again. The
//! stream is only ever extended at its end and trimmed at its beginning, which is what the embedded store is made for: it syncs what is given
//! together once, cuts a torn end, and refuses damage before that with the place.
//!
//! What must hold:
//! - Records are durable in the order they are given, and a record is there whole or not at all: it is split into pieces that know whether
//!   they are the first and the last, and what has no last piece was never acknowledged.
//! - What is trimmed says nothing that is still needed: whose log it is, the vote and the forgotten beginning are written again before.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use jeton_register::disk::Disk;
use jeton_register::embedded::{self, Embedded, READ_REGISTERS_MAX};
use jeton_register::{Batch, Failure, Log, Registers, Slot, block_on};
use serde::{Deserialize, Serialize};

use crate::identity::Plate;
use crate::open_error::OpenError;
use crate::types::{Entry, LogId, Vote};

/// The only log of the store.
const STREAM: Log = Log::partition(0);
/// The first byte of a piece.
const FIRST: u8 = 1;
const LAST: u8 = 2;
/// How long to wait for room on the disk before asking again. Meanwhile this member answers nobody, and the others go on without it.
const ROOM_PAUSE: Duration = Duration::from_millis(100);

/// Something that happened to the log.
#[derive(Debug, Serialize, Deserialize)]
pub enum Record {
    Entry(Entry),
    /// All entries from this index on are gone.
    Cut(u64),
    /// All entries up to this one are in a snapshot.
    Purged(LogId),
    Vote(Vote),
    /// Whose log it is: the first record of all.
    Plate(Plate),
}

/// An entry, and where its record begins.
#[derive(Debug)]
pub struct Kept {
    pub entry: Entry,
    pub slot: u64,
    pub bytes: usize,
}

/// What a log is in the end.
#[derive(Debug, Default)]
pub struct Content {
    pub entries: BTreeMap<u64, Kept>,
    pub purged: Option<LogId>,
    pub vote: Option<Vote>,
    pub plate: Option<Plate>,
}

impl Content {
    fn take(&mut self, record: Record, slot: u64, bytes: usize) {
        match record {
            Record::Entry(entry) => {
                self.entries.insert(entry.log_id.index, Kept { entry, slot, bytes });
            }
            Record::Cut(from) => drop(self.entries.split_off(&from)),
            Record::Purged(through) => {
                self.entries = self.entries.split_off(&(through.index + 1));
                self.purged = Some(through);
            }
            Record::Vote(vote) => self.vote = Some(vote),
            Record::Plate(plate) => self.plate = Some(plate),
        }
    }
}

/// The stream, at work.
pub struct Journal<D: Disk> {
    pub store: Arc<Embedded<D>>,
    next: Slot,
    piece_bytes_max: usize,
    batch_bytes_max: usize,
}

impl<D: Disk> Journal<D> {
    /// Opens the stream in this store, and does again what it says.
    pub fn open(disk: D, options: embedded::Options) -> Result<(Self, Content), OpenError> {
        let limits = options.limits();
        let store = Arc::new(Embedded::open(disk, options)?);
        let extent = block_on(store.extent(STREAM))?;
        let mut content = Content::default();
        let mut from = extent.trimmed.next();
        let mut whole = Vec::new();
        let mut first = None;
        loop {
            let pieces = block_on(store.read(STREAM, from, READ_REGISTERS_MAX))?;
            let Some((last, _)) = pieces.last() else { break };
            from = last.next();
            for (slot, piece) in pieces {
                let Some((&flags, bytes)) = piece.split_first() else {
                    return Err(strange(slot, "is empty"));
                };
                if flags & FIRST != 0 {
                    whole.clear();
                    first = Some(slot);
                }
                // The rest of one whose beginning is trimmed: the record that the log begins with is still to come.
                let Some(begin) = first else { continue };
                whole.extend_from_slice(bytes);
                if flags & LAST != 0 {
                    let record = postcard::from_bytes(&whole)
                        .map_err(|error| strange(begin, &format!("is no record: {error}")))?;
                    content.take(record, begin.0, whole.len());
                    first = None;
                }
            }
        }
        let next = extent.last.max(extent.trimmed).next();
        let journal = Self {
            store,
            next,
            piece_bytes_max: limits.value_bytes_max - 1,
            batch_bytes_max: limits.batch_bytes_max,
        };
        Ok((journal, content))
    }

    /// Whether nothing was ever stored.
    pub fn is_new(&self) -> bool {
        self.next == Slot(1)
    }

    /// Stores records. When it returns they are durable, unless it fails. Where each begins, and how long it is.
    pub async fn append(&mut self, records: &[Record]) -> Result<Vec<(u64, usize)>, Failure> {
        let mut places = Vec::with_capacity(records.len());
        let mut batch = Batch::new();
        for record in records {
            let bytes = postcard::to_allocvec(record)
                .map_err(|error| Failure::Invalid(format!("a record cannot be stored: {error}")))?;
            places.push((self.next.0, bytes.len()));
            let count = bytes.len().div_ceil(self.piece_bytes_max);
            for (index, piece) in bytes.chunks(self.piece_bytes_max).enumerate() {
                if batch.value_bytes() + piece.len() + 1 > self.batch_bytes_max || batch.len() == 4096 {
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

    async fn write(&self, batch: Batch) -> Result<(), Failure> {
        if batch.is_empty() {
            return Ok(());
        }
        let permit = loop {
            match self.store.admit(batch.len(), batch.value_bytes()) {
                Ok(permit) => break permit,
                Err(Failure::Busy(_) | Failure::Full(_)) => tokio::time::sleep(ROOM_PAUSE).await,
                Err(failure) => return Err(failure),
            }
        };
        self.store.write(batch, permit).await?;
        Ok(())
    }

    /// Forgets the stream before this slot.
    pub async fn forget_before(&self, slot: u64) -> Result<(), Failure> {
        self.store.trim(STREAM, Slot(slot.saturating_sub(1))).await
    }
}

fn strange(slot: Slot, why: &str) -> OpenError {
    OpenError::Damaged(format!("{STREAM}, slot {slot}: {why}"))
}
