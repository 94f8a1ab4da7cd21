//! What a member keeps, on disk or in memory: its identity, its log, and the last snapshot on a shelf.

use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;
use jeton_wal::disk::Disk;
use jeton_wal::{Blob, Error, Wal};

use crate::journal::{Journal, Record, ReplayedLog};
use crate::log_storage::Entries;
use crate::node_identity::{self, LogIdentity};
use crate::open_error::OpenError;
use crate::types::{SnapshotMeta, Vote};

/// The blob of the snapshot.
const BLOB: &str = "snapshot";

/// What a member keeps.
pub struct Storage<D: Disk> {
    pub identity: u64,
    pub entries: Entries<D>,
    pub shelf: Arc<SnapshotStore<D>>,
}

impl<D: Disk> Storage<D> {
    /// On this disk: what is there already, if something is.
    pub fn on_disk(disk: D, options: jeton_wal::Options, member: u64) -> Result<Self, OpenError> {
        let (mut journal, mut content) = Journal::open(disk, options)?;
        let shelf = Arc::new(SnapshotStore::Disk(Arc::clone(&journal.wal)));
        let snapshot = futures_executor::block_on(shelf.get())?;
        let damaged = |why: &str| Err(OpenError::Damaged(why.into()));
        let plate = match content.plate {
            Some(plate) => plate,
            None if !journal.is_new() => return damaged("the log does not say whose it is"),
            // Going on would give the new identity a past that it did not see.
            None if snapshot.is_some() => return damaged("a snapshot is there, but its log is not"),
            None => {
                let plate = LogIdentity::new(member)?;
                futures_executor::block_on(journal.append(&[Record::LogIdentity(plate)]))?;
                plate
            }
        };
        plate.check(member)?;
        if content.purged.is_some() && snapshot.is_none() {
            return damaged("the log begins after a snapshot, which is not there");
        }
        content.plate = Some(plate);
        content.vote = content.vote.map(|vote| after_a_start(vote, plate.identity));
        Ok(Self { identity: plate.identity, entries: Entries::new(content, Some(journal)), shelf })
    }

    /// In memory: nothing yet, and nobody yet.
    pub fn in_memory() -> Result<Self, OpenError> {
        Ok(Self {
            identity: node_identity::draw()?,
            entries: Entries::new(ReplayedLog::default(), None),
            shelf: Arc::new(SnapshotStore::Memory(Mutex::default())),
        })
    }
}

/// Raft goes on as the leader that it was, in the same term, if its vote says that it was elected. If the end of its log is lost, it would then give an
/// index and a term a second time, to another entry, and nobody could tell the two apart. So whoever led asks for a new term, and those who
/// have more than it has do not elect it.
fn after_a_start(vote: Vote, identity: u64) -> Vote {
    if vote.committed && vote.leader_id.node_id == identity {
        return Vote::new(vote.leader_id.term, identity);
    }
    vote
}

/// Where the last snapshot is.
pub enum SnapshotStore<D: Disk> {
    Disk(Arc<Wal<D>>),
    Memory(Mutex<Option<(SnapshotMeta, Bytes)>>),
}

impl<D: Disk> SnapshotStore<D> {
    pub async fn put(&self, meta: &SnapshotMeta, bytes: Bytes) -> Result<(), Error> {
        match self {
            Self::Memory(shelf) => {
                *shelf.lock().unwrap_or_else(PoisonError::into_inner) = Some((meta.clone(), bytes));
            }
            Self::Disk(wal) => {
                let invalid = |error: postcard::Error| Error::Invalid(format!("a snapshot: {error}"));
                let meta_bytes = postcard::to_allocvec(meta).map_err(invalid)?;
                let mut content = (meta_bytes.len() as u32).to_le_bytes().to_vec();
                content.extend_from_slice(&meta_bytes);
                content.extend_from_slice(&bytes);
                let version = meta.last_log_id.map_or(0, |last| last.index + 1);
                // One that reaches further may be there already; then it is the better one.
                let (wal, blob) = (Arc::clone(wal), Blob { version, bytes: content.into() });
                blocking(move || wal.put_blob(BLOB, &blob)).await?;
            }
        }
        Ok(())
    }

    pub async fn get(&self) -> Result<Option<(SnapshotMeta, Bytes)>, Error> {
        match self {
            Self::Memory(shelf) => Ok(shelf.lock().unwrap_or_else(PoisonError::into_inner).clone()),
            Self::Disk(wal) => {
                let wal = Arc::clone(wal);
                let Some(blob) = blocking(move || wal.get_blob(BLOB)).await? else { return Ok(None) };
                split(blob.bytes)
                    .map(Some)
                    .ok_or_else(|| Error::Damaged(format!("blob {BLOB}: it has no header")))
            }
        }
    }
}

/// Runs a blocking call: on a thread for it if there is a runtime.
async fn blocking<T: Send + 'static>(
    call: impl FnOnce() -> Result<T, Error> + Send + 'static,
) -> Result<T, Error> {
    match tokio::runtime::Handle::try_current() {
        Ok(runtime) => {
            runtime.spawn_blocking(call).await.map_err(|error| Error::Unknown(error.to_string()))?
        }
        Err(_) => call(),
    }
}

fn split(mut content: Bytes) -> Option<(SnapshotMeta, Bytes)> {
    let length = u32::from_le_bytes(content.get(..4)?.try_into().ok()?) as usize;
    let meta = postcard::from_bytes(content.get(4..4 + length)?).ok()?;
    Some((meta, content.split_off(4 + length)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::command::{Command, LogName, Proposal, Write};
    use crate::state_machine::{Machine, Shared};
    use crate::types::{Entry, RaftLogId, StorageError, Types};
    use jeton_register::LogId;
    use jeton_wal::disk::FaultDisk;
    use openraft::storage::{RaftLogStorage, RaftLogStorageExt};
    use openraft::testing::{StoreBuilder, Suite};
    use openraft::{CommittedLeaderId, EntryPayload, RaftLogReader};

    const SEGMENT_BYTES: u32 = 256 << 10;

    fn open(disk: FaultDisk) -> Storage<FaultDisk> {
        Storage::on_disk(disk, jeton_wal::Options::small(SEGMENT_BYTES), 1).unwrap()
    }

    struct Fresh {
        on_disk: bool,
    }

    impl StoreBuilder<Types, Entries<FaultDisk>, Machine<FaultDisk>> for Fresh {
        async fn build(&self) -> Result<((), Entries<FaultDisk>, Machine<FaultDisk>), StorageError> {
            let storage = match self.on_disk {
                true => open(FaultDisk::new()),
                false => Storage::in_memory().unwrap(),
            };
            let machine = Machine::new(Shared::new(usize::MAX), storage.shelf).unwrap();
            Ok(((), storage.entries, machine))
        }
    }

    #[test]
    fn it_passes_the_suite_of_raft() {
        for on_disk in [true, false] {
            Suite::test_all(Fresh { on_disk }).unwrap();
        }
    }

    fn id(term: u64, index: u64) -> RaftLogId {
        RaftLogId::new(CommittedLeaderId::new(term, 7), index)
    }

    fn entry(term: u64, index: u64, bytes: usize) -> Entry {
        let write = Write {
            log: LogName(LogId::partition(1)),
            slot: index + 1,
            value: vec![term as u8; bytes].into(),
        };
        let proposal =
            Proposal { session: term, sequence: index, commands: vec![Command::Write(vec![write])] };
        Entry { log_id: id(term, index), payload: EntryPayload::Normal(proposal) }
    }

    /// What a log says of itself.
    async fn look(entries: &mut Entries<FaultDisk>) -> (Vec<RaftLogId>, Option<RaftLogId>, Option<Vote>) {
        let all = entries.try_get_log_entries(..).await.unwrap();
        for kept in &all {
            let EntryPayload::Normal(proposal) = &kept.payload else { panic!("a proposal was stored") };
            assert_eq!(proposal.session, kept.log_id.leader_id.term, "the entry of another term");
        }
        let purged = entries.get_log_state().await.unwrap().last_purged_log_id;
        (all.into_iter().map(|kept| kept.log_id).collect(), purged, entries.read_vote().await.unwrap())
    }

    /// The power fails after each step. Whatever was answered is there, with the same identity.
    #[test]
    fn what_was_answered_survives_a_power_cut() {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
        let mut chance = 0u64;
        let mut random = move || {
            chance = chance.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            chance >> 20
        };
        for _ in 0..10 {
            let mut disk = FaultDisk::new();
            let identity = open(disk.clone()).identity;
            for step in 0..60u64 {
                let mut storage = open(disk.clone());
                assert_eq!(storage.identity, identity);
                let entries = &mut storage.entries;
                let before = runtime.block_on(look(entries));
                let next = before.0.last().or(before.1.as_ref()).map_or(0, |last| last.index + 1);
                let expected = runtime.block_on(async {
                    match random() % 8 {
                        0 => entries.save_vote(&Vote::new(step + 1, 7)).await.unwrap(),
                        1 if before.0.len() > 1 => {
                            entries.truncate(before.0[before.0.len() / 2]).await.unwrap();
                        }
                        2 if !before.0.is_empty() => {
                            let last = before.0[before.0.len() / 2];
                            let meta = SnapshotMeta { last_log_id: Some(last), ..SnapshotMeta::default() };
                            storage.shelf.put(&meta, Bytes::from_static(b"state")).await.unwrap();
                            entries.purge(last).await.unwrap();
                        }
                        // Some larger than a piece, and than a batch, of the store.
                        kind => {
                            let bytes = if kind == 3 { 150_000 } else { 3000 };
                            let more =
                                (next..next + 1 + random() % 4).map(|index| entry(step + 1, index, bytes));
                            entries.blocking_append(more).await.unwrap();
                        }
                    }
                    look(entries).await
                });
                drop(storage);
                disk = disk.crash(&mut random);
                let mut storage = open(disk.clone());
                assert_eq!(runtime.block_on(look(&mut storage.entries)), expected, "step {step}");
            }
        }
    }

    #[test]
    fn a_snapshot_without_its_log_is_refused() {
        let disk = FaultDisk::new();
        let wal = Wal::open(disk.clone(), jeton_wal::Options::small(SEGMENT_BYTES)).unwrap();
        let shelf = SnapshotStore::Disk(Arc::new(wal));
        futures_executor::block_on(shelf.put(&SnapshotMeta::default(), Bytes::from_static(b"state")))
            .unwrap();
        drop(shelf);
        let options = jeton_wal::Options::small(SEGMENT_BYTES);
        let Err(OpenError::Damaged(why)) = Storage::on_disk(disk, options, 1) else {
            panic!("it was opened")
        };
        assert!(why.contains("its log is not"), "{why}");
    }
}
