//! The state machine of Raft: the state, how far it has come, and its snapshots.
//!
//! The state is in memory. What must hold: a snapshot is durable before Raft hears of it, because Raft then forgets the log before it.

use std::io::Cursor;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use jeton_register::{Blob, Extent, LogKind, Slot};
use jeton_wal::Error;
use jeton_wal::disk::Disk;
use openraft::storage::RaftStateMachine;
use openraft::{EntryPayload, OptionalSend, RaftSnapshotBuilder};
use serde::{Deserialize, Serialize};
use tokio::sync::{Notify, watch};

use crate::command::{Applied, LogName};
use crate::dedup::Sessions;
use crate::state::{SlotMap, State};
use crate::storage::SnapshotStore;
use crate::types::{
    Entry, Membership, RaftLogId, Snapshot, SnapshotMeta, StorageError, StorageIoError, Types,
};

/// The version of the bytes of a snapshot.
const VERSION: u8 = 1;

/// What all that look at the state share.
pub struct Shared {
    inner: Mutex<Inner>,
    /// The index of the last entry applied, plus one.
    applied: watch::Sender<u64>,
    /// Told when a snapshot is due.
    pub snapshot_due: Notify,
    snapshot_bytes: usize,
    /// What the state takes. Apart from it, so that who asks does not wait for who changes it.
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

impl Shared {
    pub fn new(snapshot_bytes: usize) -> Arc<Self> {
        let (applied, _) = watch::channel(0);
        Arc::new(Self {
            inner: Mutex::default(),
            applied,
            snapshot_due: Notify::new(),
            snapshot_bytes,
            bytes: AtomicUsize::new(0),
        })
    }

    /// Applying a proposal has no step that can fail half way.
    fn inner(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Looks at the state.
    pub fn with<T>(&self, look: impl FnOnce(&State) -> T) -> T {
        look(&self.inner().state)
    }

    /// Until the entry of this index is applied.
    pub async fn reach(&self, index: u64) {
        let mut applied = self.applied.subscribe();
        // The sender is `self`, so it is not gone.
        let _ = applied.wait_for(|&next| next > index).await;
    }

    /// What the state takes in memory, about.
    pub fn bytes(&self) -> usize {
        self.bytes.load(Ordering::Relaxed)
    }

    /// Tells how far the state has come.
    fn tell(&self, inner: &Inner) {
        self.bytes.store(inner.state.bytes, Ordering::Relaxed);
        if let Some(applied) = inner.applied {
            self.applied.send_replace(applied.index + 1);
        }
    }
}

/// The state machine that Raft drives.
pub struct Machine<D: Disk> {
    shared: Arc<Shared>,
    shelf: Arc<SnapshotStore<D>>,
}

impl<D: Disk> Machine<D> {
    /// A machine in the state of the snapshot on the shelf, if one is there.
    pub fn new(shared: Arc<Shared>, shelf: Arc<SnapshotStore<D>>) -> Result<Self, Error> {
        if let Some((meta, bytes)) = futures_executor::block_on(shelf.get())? {
            let state = decode(&bytes).map_err(|why| Error::Damaged(format!("the snapshot: {why}")))?;
            let mut inner = shared.inner();
            *inner =
                Inner { state, applied: meta.last_log_id, membership: meta.last_membership, bytes_since: 0 };
            shared.tell(&inner);
        }
        Ok(Self { shared, shelf })
    }
}

impl<D: Disk> RaftStateMachine<Types> for Machine<D> {
    type SnapshotBuilder = Builder<D>;

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
        let mut answers = Vec::new();
        for entry in entries {
            inner.applied = Some(entry.log_id);
            answers.push(match entry.payload {
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
        self.shared.tell(&inner);
        if inner.bytes_since > self.shared.snapshot_bytes {
            inner.bytes_since = 0;
            self.shared.snapshot_due.notify_one();
        }
        Ok(answers)
    }

    async fn get_snapshot_builder(&mut self) -> Builder<D> {
        let inner = self.shared.inner();
        Builder {
            state: inner.state.clone(),
            applied: inner.applied,
            membership: inner.membership.clone(),
            shelf: Arc::clone(&self.shelf),
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
        let state = decode(&bytes).map_err(|why| {
            StorageError::from(StorageIoError::read_snapshot(None, openraft::AnyError::error(why)))
        })?;
        self.shelf.put(meta, bytes).await.map_err(snapshot_error)?;
        let mut inner = self.shared.inner();
        let (applied, membership) = (meta.last_log_id, meta.last_membership.clone());
        *inner = Inner { state, applied, membership, bytes_since: 0 };
        self.shared.tell(&inner);
        Ok(())
    }

    async fn get_current_snapshot(&mut self) -> Result<Option<Snapshot>, StorageError> {
        let there = self.shelf.get().await.map_err(snapshot_error)?;
        Ok(there.map(|(meta, bytes)| Snapshot { meta, snapshot: Box::new(Cursor::new(bytes.to_vec())) }))
    }
}

/// Makes a snapshot of the state as it was when this was made.
pub struct Builder<D: Disk> {
    state: State,
    applied: Option<RaftLogId>,
    membership: Membership,
    shelf: Arc<SnapshotStore<D>>,
}

impl<D: Disk> RaftSnapshotBuilder<Types> for Builder<D> {
    async fn build_snapshot(&mut self) -> Result<Snapshot, StorageError> {
        let state = std::mem::take(&mut self.state);
        // It may take long: not where others wait for their turn.
        let encoded = tokio::task::spawn_blocking(move || encode(state)).await;
        let bytes = encoded.map_err(|error| error.to_string()).flatten().map_err(|why| {
            StorageError::from(StorageIoError::write_snapshot(None, openraft::AnyError::error(why)))
        })?;
        let place = self.applied.map_or_else(|| "empty".into(), |applied| applied.to_string());
        let meta = SnapshotMeta {
            last_log_id: self.applied,
            last_membership: self.membership.clone(),
            snapshot_id: place,
        };
        self.shelf.put(&meta, bytes.clone().into()).await.map_err(snapshot_error)?;
        Ok(Snapshot { meta, snapshot: Box::new(Cursor::new(bytes)) })
    }
}

fn snapshot_error(failure: Error) -> StorageError {
    StorageIoError::write_snapshot(None, openraft::AnyError::new(&failure)).into()
}

/// A log as it travels: its name, its trim point, the last slot ever written, and what is left.
type LogImage = (LogName, u64, u64, Vec<(u64, Bytes)>);

/// The state as it travels.
#[derive(Serialize, Deserialize)]
struct Image {
    logs: Vec<LogImage>,
    retired: Vec<LogName>,
    rows: Vec<(String, u64, Bytes)>,
    sessions: Sessions,
}

fn encode(state: State) -> Result<Vec<u8>, String> {
    let cells = |(log, cells): (_, SlotMap)| {
        let values = cells.values.into_iter().map(|(slot, value)| (slot.0, value)).collect();
        (LogName(log), cells.extent.trimmed.0, cells.extent.last.0, values)
    };
    let mark = |(space, id)| LogName(jeton_register::LogId { kind: space, id });
    let image = Image {
        logs: state.logs.into_iter().map(cells).collect(),
        retired: state.retired.into_iter().map(mark).collect(),
        rows: state.rows.into_iter().map(|(name, row)| (name, row.version, row.bytes)).collect(),
        sessions: state.sessions,
    };
    postcard::to_extend(&image, vec![VERSION]).map_err(|error| error.to_string())
}

fn decode(bytes: &[u8]) -> Result<State, String> {
    let image: Image = match bytes.split_first() {
        Some((&VERSION, rest)) => postcard::from_bytes(rest).map_err(|error| error.to_string())?,
        Some((version, _)) => return Err(format!("version {version}, this program reads {VERSION}")),
        None => return Err("it is empty".into()),
    };
    let cells = |(log, trimmed, last, values): LogImage| {
        let extent = Extent { trimmed: Slot(trimmed), last: Slot(last) };
        let values = values.into_iter().map(|(slot, value)| (Slot(slot), value)).collect();
        (log.0, SlotMap { extent, values })
    };
    let row = |(name, version, bytes): (String, u64, Bytes)| (name, Blob { version, bytes });
    let mut state = State {
        logs: image.logs.into_iter().map(cells).collect(),
        retired: image
            .retired
            .into_iter()
            .map(|mark| -> (LogKind, u128) { (mark.0.kind, mark.0.id) })
            .collect(),
        rows: image.rows.into_iter().map(row).collect(),
        sessions: image.sessions,
        bytes: 0,
    };
    state.bytes = state.count_bytes();
    Ok(state)
}
