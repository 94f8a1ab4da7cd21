//! The state machine of openraft: the replicated state, the index up to which it is applied, and its
//! snapshots.
//!
//! The state is in memory. Invariant: a snapshot is durable before openraft is notified, which then purges
//! the log before it.

use std::collections::BTreeMap;
use std::io::Cursor;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use jeton_register::{Blob, Extent, LogId, Slot, WriteResult};
use jeton_wal::Error;
use jeton_wal::disk::Disk;
use openraft::storage::RaftStateMachine;
use openraft::{AnyError, EntryPayload, OptionalSend, RaftSnapshotBuilder};
use serde::{Deserialize, Serialize};
use tokio::sync::{Notify, watch};

use crate::command::{Applied, LogName};
use crate::dedup::Sessions;
use crate::state::State;
use crate::storage::SnapshotStore;
use crate::types::{
    Entry, Membership, RaftLogId, Snapshot, SnapshotMeta, StorageError, StorageIoError, Types,
};

/// The version of the format of a snapshot.
const VERSION: u8 = 1;

/// The replicated state, shared by the state machine and the readers.
pub struct SharedState {
    inner: Mutex<Inner>,
    /// The index of the last entry applied, plus one.
    applied: watch::Sender<u64>,
    /// Notified when a snapshot is due.
    pub snapshot_due: Notify,
    snapshot_bytes: usize,
    /// The memory that the state takes, readable without the lock.
    bytes: AtomicUsize,
}

#[derive(Default)]
struct Inner {
    state: State,
    applied: Option<RaftLogId>,
    membership: Membership,
    /// The bytes of the entries applied since the last snapshot.
    bytes_since: usize,
}

impl SharedState {
    pub fn new(snapshot_bytes: usize) -> Arc<Self> {
        Arc::new(Self {
            inner: Mutex::default(),
            applied: watch::channel(0).0,
            snapshot_due: Notify::new(),
            snapshot_bytes,
            bytes: AtomicUsize::new(0),
        })
    }

    /// No panic leaves the state inconsistent.
    fn inner(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub fn with<T>(&self, read: impl FnOnce(&State) -> T) -> T {
        read(&self.inner().state)
    }

    /// Resolves when the entry at this index is applied.
    pub async fn await_applied(&self, index: u64) {
        let mut applied = self.applied.subscribe();
        // The sender is `self`, so it is not dropped.
        let _ = applied.wait_for(|&next| next > index).await;
    }

    /// The memory that the state takes, about.
    pub fn bytes(&self) -> usize {
        self.bytes.load(Ordering::Relaxed)
    }

    fn replace(&self, state: State, applied: Option<RaftLogId>, membership: Membership) {
        let mut inner = self.inner();
        *inner = Inner { state, applied, membership, bytes_since: 0 };
        self.publish(&inner);
    }

    fn publish(&self, inner: &Inner) {
        self.bytes.store(inner.state.bytes(), Ordering::Relaxed);
        if let Some(applied) = inner.applied {
            self.applied.send_replace(applied.index + 1);
        }
    }
}

/// The state machine.
pub struct StateMachine<D: Disk> {
    shared: Arc<SharedState>,
    snapshots: Arc<SnapshotStore<D>>,
}

impl<D: Disk> StateMachine<D> {
    /// Loads the stored snapshot, if there is one.
    pub fn new(shared: Arc<SharedState>, snapshots: Arc<SnapshotStore<D>>) -> Result<Self, Error> {
        if let Some((meta, bytes)) = futures_executor::block_on(snapshots.get())? {
            let state = decode(&bytes).map_err(|why| Error::Damaged(format!("the snapshot: {why}")))?;
            shared.replace(state, meta.last_log_id, meta.last_membership);
        }
        Ok(Self { shared, snapshots })
    }
}

impl<D: Disk> RaftStateMachine<Types> for StateMachine<D> {
    type SnapshotBuilder = SnapshotBuilder<D>;

    async fn applied_state(&mut self) -> Result<(Option<RaftLogId>, Membership), StorageError> {
        let inner = self.shared.inner();
        Ok((inner.applied, inner.membership.clone()))
    }

    async fn apply<I>(&mut self, entries: I) -> Result<Vec<Applied>, StorageError>
    where
        I: IntoIterator<Item = Entry> + OptionalSend,
        I::IntoIter: OptionalSend,
    {
        let mut inner = self.shared.inner();
        let mut results = Vec::new();
        for entry in entries {
            inner.applied = Some(entry.log_id);
            results.push(match entry.payload {
                EntryPayload::Blank => Applied::Nothing,
                EntryPayload::Normal(proposal) => {
                    inner.bytes_since += proposal.cost();
                    inner.state.apply(&proposal)
                }
                EntryPayload::Membership(membership) => {
                    inner.membership = Membership::new(Some(entry.log_id), membership);
                    Applied::Nothing
                }
            });
        }
        self.shared.publish(&inner);
        if inner.bytes_since > self.shared.snapshot_bytes {
            inner.bytes_since = 0;
            self.shared.snapshot_due.notify_one();
        }
        Ok(results)
    }

    async fn get_snapshot_builder(&mut self) -> SnapshotBuilder<D> {
        let inner = self.shared.inner();
        SnapshotBuilder {
            state: inner.state.clone(),
            applied: inner.applied,
            membership: inner.membership.clone(),
            snapshots: Arc::clone(&self.snapshots),
        }
    }

    async fn begin_receiving_snapshot(&mut self) -> Result<Box<Cursor<Vec<u8>>>, StorageError> {
        Ok(Box::default())
    }

    async fn install_snapshot(
        &mut self,
        meta: &SnapshotMeta,
        snapshot: Box<Cursor<Vec<u8>>>,
    ) -> Result<(), StorageError> {
        let bytes = Bytes::from(snapshot.into_inner());
        let state =
            decode(&bytes).map_err(|why| StorageIoError::read_snapshot(None, AnyError::error(why)))?;
        self.snapshots.put(meta, bytes).await.map_err(snapshot_error)?;
        self.shared.replace(state, meta.last_log_id, meta.last_membership.clone());
        Ok(())
    }

    async fn get_current_snapshot(&mut self) -> Result<Option<Snapshot>, StorageError> {
        let stored = self.snapshots.get().await.map_err(snapshot_error)?;
        Ok(stored.map(|(meta, bytes)| Snapshot { meta, snapshot: Box::new(Cursor::new(bytes.to_vec())) }))
    }
}

/// Makes a snapshot of the state at the time of [`RaftStateMachine::get_snapshot_builder`].
pub struct SnapshotBuilder<D: Disk> {
    state: State,
    applied: Option<RaftLogId>,
    membership: Membership,
    snapshots: Arc<SnapshotStore<D>>,
}

impl<D: Disk> RaftSnapshotBuilder<Types> for SnapshotBuilder<D> {
    async fn build_snapshot(&mut self) -> Result<Snapshot, StorageError> {
        let state = std::mem::take(&mut self.state);
        // Encoding a large state would block the other tasks of the thread.
        let encoded = tokio::task::spawn_blocking(move || encode(&state)).await;
        let bytes = encoded
            .map_err(|error| error.to_string())
            .flatten()
            .map_err(|why| StorageIoError::write_snapshot(None, AnyError::error(why)))?;
        let meta = SnapshotMeta {
            last_log_id: self.applied,
            last_membership: self.membership.clone(),
            snapshot_id: self.applied.map_or_else(|| "empty".into(), |applied| applied.to_string()),
        };
        self.snapshots.put(&meta, bytes.clone().into()).await.map_err(snapshot_error)?;
        Ok(Snapshot { meta, snapshot: Box::new(Cursor::new(bytes)) })
    }
}

fn snapshot_error(error: Error) -> StorageError {
    StorageIoError::write_snapshot(None, AnyError::new(&error)).into()
}

/// A serialised log: its name, its trim point, the highest slot ever written, and the values.
type LogImage = (LogName, u64, u64, Vec<(u64, Bytes)>);

/// The serialised state.
#[derive(Serialize, Deserialize)]
struct Image {
    logs: Vec<LogImage>,
    /// The logs of each kind below this id are retired.
    retired: Vec<LogName>,
    blobs: Vec<(String, u64, Bytes)>,
    sessions: Sessions,
}

fn encode(state: &State) -> Result<Vec<u8>, String> {
    let registers = &state.registers;
    let mut logs = BTreeMap::<LogName, LogImage>::new();
    let image = |log: LogId| {
        let Extent { trimmed, last } = registers.extent(log);
        (LogName(log), trimmed.0, last.0, Vec::new())
    };
    for (log, _) in registers.trims_after(None) {
        logs.insert(LogName(log), image(log));
    }
    for ((log, slot), value) in registers.values_after(None) {
        logs.entry(LogName(log)).or_insert_with(|| image(log)).3.push((slot.0, value.clone()));
    }
    let blobs = state.blobs.iter().map(|(name, blob)| (name.clone(), blob.version, blob.bytes.clone()));
    let image = Image {
        logs: logs.into_values().collect(),
        retired: registers.retired().map(|(kind, id)| LogName(LogId { kind, id })).collect(),
        blobs: blobs.collect(),
        sessions: state.sessions.clone(),
    };
    postcard::to_extend(&image, vec![VERSION]).map_err(|error| error.to_string())
}

fn decode(bytes: &[u8]) -> Result<State, String> {
    let image: Image = match bytes.split_first() {
        Some((&VERSION, rest)) => postcard::from_bytes(rest).map_err(|error| error.to_string())?,
        Some((version, _)) => return Err(format!("version {version}, this program reads {VERSION}")),
        None => return Err("it is empty".into()),
    };
    let mut state = State::default();
    state.sessions = image.sessions;
    for LogName(log) in image.retired {
        state.registers.retire(log.kind, log.id);
    }
    for (LogName(log), trimmed, last, values) in image.logs {
        if trimmed > 0 {
            state.registers.restore_trim(log, Slot(trimmed), Slot(last));
        }
        for (slot, value) in values {
            if state.registers.restore(log, Slot(slot), value) != WriteResult::Fresh {
                return Err(format!("{log} slot {slot} is trimmed or repeated"));
            }
        }
    }
    for (name, version, bytes) in image.blobs {
        state.put_blob(&name, Blob { version, bytes });
    }
    Ok(state)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::command::{Command, Proposal, Write};

    #[test]
    fn decoded_snapshot_is_the_encoded_state() {
        let log = |number: u64| LogName(LogId::transaction(u128::from(number)));
        let mut state = State::default();
        for sequence in 1..2000 {
            let number = 1 + sequence * 7 % 40 + sequence / 50;
            let command = match sequence % 10 {
                0 => Command::Trim { log: log(number), through: sequence % 90 },
                1 => Command::Retire { below: log(sequence / 60) },
                2 => Command::PutBlob {
                    name: format!("blob-{}", sequence % 3),
                    version: sequence % 5,
                    bytes: vec![7; (sequence % 60) as usize].into(),
                },
                _ => Command::Write(vec![Write {
                    log: log(number),
                    slot: 1 + sequence % 80,
                    value: vec![sequence as u8; (sequence % 100) as usize].into(),
                }]),
            };
            state.apply(&Proposal { session: sequence % 3, sequence, commands: vec![command] });
        }
        let bytes = encode(&state).unwrap();
        let decoded = decode(&bytes).unwrap();
        assert!(state.registers.len() > 50 && !state.blobs.is_empty(), "{state:?}");
        assert_eq!(decoded.bytes(), state.bytes());
        assert_eq!(encode(&decoded).unwrap(), bytes);
        for number in 0..100 {
            let log = log(number).0;
            assert_eq!(decoded.registers.extent(log), state.registers.extent(log), "{log}");
        }
        assert!(decode(&[]).is_err() && decode(&[9]).is_err() && decode(&bytes[..bytes.len() / 2]).is_err());
    }
}
