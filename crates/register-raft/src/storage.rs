//! The storage of a member, on disk or in memory: its identity, the Raft log, and the last snapshot.

use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;
use jeton_wal::disk::Disk;
use jeton_wal::{Blob, Error, Wal};

use crate::journal::{Journal, Record, ReplayedLog};
use crate::log_storage::LogStorage;
use crate::node_identity::{self, LogIdentity};
use crate::open_error::OpenError;
use crate::types::{SnapshotMeta, Vote};

/// The blob of the snapshot.
const BLOB: &str = "snapshot";

/// The storage of a member.
pub struct Storage<D: Disk> {
    pub identity: u64,
    pub log: LogStorage<D>,
    pub snapshots: Arc<SnapshotStore<D>>,
}

impl<D: Disk> Storage<D> {
    /// Opens the storage on this disk, or creates it.
    pub fn on_disk(disk: D, options: jeton_wal::Options, member: u64) -> Result<Self, OpenError> {
        let (mut journal, mut log) = Journal::open(disk, options)?;
        let snapshots = Arc::new(SnapshotStore::Disk(Arc::clone(&journal.wal)));
        let snapshot = futures_executor::block_on(snapshots.get())?;
        let damaged = |why: &str| Err(OpenError::Damaged(why.into()));
        let identity = match log.identity {
            Some(identity) => identity,
            None if !journal.is_new() => return damaged("the log has no identity"),
            // A new identity must not have a past.
            None if snapshot.is_some() => return damaged("there is a snapshot, but its log is missing"),
            None => {
                let identity = LogIdentity::new(member)?;
                futures_executor::block_on(journal.append(&[Record::Identity(identity)]))?;
                identity
            }
        };
        identity.check(member)?;
        if log.purged.is_some() && snapshot.is_none() {
            return damaged("the log starts after a snapshot that is missing");
        }
        log.identity = Some(identity);
        log.vote = log.vote.map(|vote| uncommitted_vote(vote, identity.identity));
        Ok(Self { identity: identity.identity, log: LogStorage::new(log, Some(journal)), snapshots })
    }

    /// Creates an empty storage with a new identity.
    pub fn in_memory() -> Result<Self, OpenError> {
        Ok(Self {
            identity: node_identity::draw()?,
            log: LogStorage::new(ReplayedLog::default(), None),
            snapshots: Arc::new(SnapshotStore::Memory(Mutex::default())),
        })
    }
}

/// The vote after a restart. With a committed vote for itself openraft would continue as the leader of the
/// same term. If the end of its log was lost, it would assign an index and a term a second time, to another
/// entry, and no member could tell the two apart. With an uncommitted vote it needs an election in a new
/// term, which it loses against members that have more of the log.
fn uncommitted_vote(vote: Vote, identity: u64) -> Vote {
    if vote.committed && vote.leader_id.node_id == identity {
        return Vote::new(vote.leader_id.term, identity);
    }
    vote
}

/// The store of the last snapshot.
pub enum SnapshotStore<D: Disk> {
    Disk(Arc<Wal<D>>),
    Memory(Mutex<Option<(SnapshotMeta, Bytes)>>),
}

impl<D: Disk> SnapshotStore<D> {
    pub async fn put(&self, meta: &SnapshotMeta, bytes: Bytes) -> Result<(), Error> {
        match self {
            Self::Memory(snapshot) => {
                *snapshot.lock().unwrap_or_else(PoisonError::into_inner) = Some((meta.clone(), bytes));
            }
            Self::Disk(wal) => {
                let invalid = |error: postcard::Error| Error::Invalid(format!("a snapshot: {error}"));
                let meta_bytes = postcard::to_allocvec(meta).map_err(invalid)?;
                let mut content = (meta_bytes.len() as u32).to_le_bytes().to_vec();
                content.extend_from_slice(&meta_bytes);
                content.extend_from_slice(&bytes);
                // A stored snapshot with a higher index is not replaced.
                let version = meta.last_log_id.map_or(0, |last| last.index + 1);
                let (wal, blob) = (Arc::clone(wal), Blob { version, bytes: content.into() });
                blocking(move || wal.put_blob(BLOB, &blob)).await?;
            }
        }
        Ok(())
    }

    pub async fn get(&self) -> Result<Option<(SnapshotMeta, Bytes)>, Error> {
        match self {
            Self::Memory(snapshot) => Ok(snapshot.lock().unwrap_or_else(PoisonError::into_inner).clone()),
            Self::Disk(wal) => {
                let wal = Arc::clone(wal);
                let Some(blob) = blocking(move || wal.get_blob(BLOB)).await? else { return Ok(None) };
                let snapshot = split(blob.bytes);
                snapshot.map(Some).ok_or_else(|| Error::Damaged(format!("blob {BLOB}: it has no header")))
            }
        }
    }
}

/// Runs a blocking call, on a blocking thread if there is a runtime.
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
    use crate::state_machine::{SharedState, StateMachine};
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

    impl StoreBuilder<Types, LogStorage<FaultDisk>, StateMachine<FaultDisk>> for Fresh {
        async fn build(&self) -> Result<((), LogStorage<FaultDisk>, StateMachine<FaultDisk>), StorageError> {
            let storage = match self.on_disk {
                true => open(FaultDisk::new()),
                false => Storage::in_memory().unwrap(),
            };
            let machine = StateMachine::new(SharedState::new(usize::MAX), storage.snapshots).unwrap();
            Ok(((), storage.log, machine))
        }
    }

    #[test]
    fn storage_passes_the_suite_of_openraft() {
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

    /// The ids of the entries, the purge point, and the vote.
    async fn content(log: &mut LogStorage<FaultDisk>) -> (Vec<RaftLogId>, Option<RaftLogId>, Option<Vote>) {
        let entries = log.try_get_log_entries(..).await.unwrap();
        for entry in &entries {
            let EntryPayload::Normal(proposal) = &entry.payload else { panic!("not a proposal") };
            assert_eq!(proposal.session, entry.log_id.leader_id.term, "the entry of another term");
        }
        let purged = log.get_log_state().await.unwrap().last_purged_log_id;
        (entries.into_iter().map(|entry| entry.log_id).collect(), purged, log.read_vote().await.unwrap())
    }

    /// The power fails after each step.
    #[test]
    fn acknowledged_steps_survive_a_power_failure() {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
        let mut rng = jeton_testkit::Rng::new(1);
        let mut random = move || rng.next_u64();
        for _ in 0..10 {
            let mut disk = FaultDisk::new();
            let identity = open(disk.clone()).identity;
            for step in 0..60u64 {
                let mut storage = open(disk.clone());
                assert_eq!(storage.identity, identity);
                let log = &mut storage.log;
                let (ids, purged, _) = runtime.block_on(content(log));
                let next = ids.last().or(purged.as_ref()).map_or(0, |last| last.index + 1);
                let middle = ids.get(ids.len() / 2).copied();
                let expected = runtime.block_on(async {
                    match (random() % 8, middle) {
                        (0, _) => log.save_vote(&Vote::new(step + 1, 7)).await.unwrap(),
                        (1, Some(middle)) if ids.len() > 1 => log.truncate(middle).await.unwrap(),
                        (2, Some(middle)) => {
                            let meta = SnapshotMeta { last_log_id: Some(middle), ..SnapshotMeta::default() };
                            storage.snapshots.put(&meta, Bytes::from_static(b"state")).await.unwrap();
                            log.purge(middle).await.unwrap();
                        }
                        // Some are larger than a piece, and than a batch of the wal.
                        (kind, _) => {
                            let bytes = if kind == 3 { 150_000 } else { 3000 };
                            let end = next + 1 + random() % 4;
                            let entries = (next..end).map(|index| entry(step + 1, index, bytes));
                            log.blocking_append(entries).await.unwrap();
                        }
                    }
                    content(log).await
                });
                drop(storage);
                disk = disk.crash(&mut random);
                let mut storage = open(disk.clone());
                assert_eq!(runtime.block_on(content(&mut storage.log)), expected, "step {step}");
            }
        }
    }

    #[test]
    fn snapshot_without_its_log_is_refused() {
        let disk = FaultDisk::new();
        let options = jeton_wal::Options::small(SEGMENT_BYTES);
        let snapshots = SnapshotStore::Disk(Arc::new(Wal::open(disk.clone(), options.clone()).unwrap()));
        let meta = SnapshotMeta::default();
        futures_executor::block_on(snapshots.put(&meta, Bytes::from_static(b"state"))).unwrap();
        drop(snapshots);
        let Err(OpenError::Damaged(why)) = Storage::on_disk(disk, options, 1) else {
            panic!("it was opened")
        };
        assert!(why.contains("log is missing"), "{why}");
    }
}
