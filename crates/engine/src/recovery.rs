//! Recovery: from what is on disk back to shards that know everything ever acknowledged.
//!
//! The value store, the id index and the filters each say up to which slot they speak. The log has everything from the lowest of
//! them on; it is replayed from there. If it begins later, something that it was trimmed for is gone, and nothing is served.

use std::sync::Arc;

use bytes::Bytes;
use jeton_core::codec::Reader;
use jeton_core::{
    Catalog, Era, Partition, PartitionId, RefillError, Secret, Table, Timestamp, limits, mutated,
};
use jeton_wal::disk::Disk;
use jeton_wal::{Blob, Error as LogError};

use crate::checkpointer::CheckpointPositions;
use crate::filter_store::StoredFilters;
use crate::ids;
use crate::options::Options;
use crate::partition_log::{BlobStore, PartitionLog};
use crate::response::EngineError;
use crate::shard::{Shard, Stores};
use crate::values::{RowKey, Values, ValuesError};
use crate::watermarks::Watermarks;

/// The blob with the secret of the store.
pub(crate) const STORE: &str = "store";
/// The blob with the tables.
pub const CATALOG: &str = "catalog";

const STORE_VERSION: u8 = 1;

/// Why a store cannot be opened. Nothing was changed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RecoveryError {
    /// The log or the blobs failed.
    #[error("log: {0}")]
    Log(#[from] LogError),
    /// The value store failed.
    #[error(transparent)]
    Values(#[from] ValuesError),
    /// The id index failed.
    #[error("id index: {0}")]
    Ids(#[from] ids::Error),
    /// Something stored is not what was written.
    #[error("damaged: {0}")]
    Damaged(String),
    /// The value store failed when an entry of the log was to be applied to what it has.
    #[error(
        "entry {slot} of partition {partition} cannot be replayed, because what a cell held before it cannot be read: {why}"
    )]
    Unread {
        /// Of which partition.
        partition: u16,
        /// Its slot.
        slot: u64,
        /// What the store said.
        why: EngineError,
    },
    /// A store is older than the log's begin: what lies between is gone.
    #[error(
        "the {what} of partition {partition} is complete up to slot {has} only, but the log begins after slot {begins}: \
         what lies between is lost, so the store is not opened. Restore {what} or the whole store from a backup"
    )]
    Behind {
        /// Which store.
        what: &'static str,
        /// Of which partition.
        partition: u16,
        /// Up to where it speaks.
        has: u64,
        /// Where the log begins.
        begins: u64,
    },
    /// A store is ahead of the log: the log has lost its end, or belongs to another store.
    #[error(
        "the {what} of partition {partition} is at slot {has}, beyond the log's end at slot {ends}: the log has lost its end \
         or belongs to another store, so the store is not opened. Restore the whole store from a backup"
    )]
    Ahead {
        /// Which store.
        what: &'static str,
        /// Of which partition.
        partition: u16,
        /// Up to where it speaks.
        has: u64,
        /// Where the log ends.
        ends: u64,
    },
}

fn damaged(what: &str) -> impl Fn(jeton_core::codec::DecodeError) -> RecoveryError {
    move |error| RecoveryError::Damaged(format!("{what}: {error}"))
}

/// What was found on disk, before any replay.
pub struct LoadedState {
    /// The store's secret.
    pub secret: Secret,
    /// The tables, filters filled as far as they were stored.
    pub catalog: Catalog,
    /// The version of the catalogue's row.
    pub catalog_version: u64,
    /// The partitions, sessions included, as the value store has them.
    pub partitions: Vec<Partition>,
    /// How far each store speaks.
    pub kept: CheckpointPositions,
    /// The filters on disk.
    pub filters: StoredFilters,
}

/// Reads what is on disk. `draw` gives the secret of a store that is new.
pub fn find<L: PartitionLog + BlobStore, V: Values, D: Disk>(
    log: &L,
    stores: &Stores<V, D>,
    ids_note: &[u8],
    draw: impl FnOnce() -> [u8; 16],
) -> Result<LoadedState, RecoveryError> {
    let secret = match log.get_blob(STORE)? {
        Some(blob) => read_store(&blob.bytes)?,
        None => {
            let secret = Secret::new(draw());
            let mut bytes = vec![STORE_VERSION];
            bytes.extend_from_slice(secret.as_bytes());
            log.put_blob(STORE, &Blob { version: 1, bytes: Bytes::from(bytes) })?;
            secret
        }
    };
    let (partitions, values) = read_partitions(&*stores.values)?;
    let ids = if ids_note.is_empty() {
        Watermarks::default()
    } else {
        Watermarks::decode(&mut Reader::new(ids_note)).map_err(damaged("the note of the id index"))?
    };
    let (mut catalog, mut catalog_version) = (Catalog::default(), 0);
    if let Some(blob) = log.get_blob(CATALOG)? {
        catalog = Catalog::decode(&blob.bytes).map_err(damaged("the catalogue"))?;
        catalog_version = blob.version;
    }
    let filters = StoredFilters::find(log)?.unwrap_or_default();
    // Not the clock's, which may be set back before anything is decided: what the filters let go by it would be new again.
    let now = partitions.iter().map(Partition::time).max().unwrap_or_default();
    for table in catalog.clone().iter() {
        catalog = catalog.replaced(restore_filters(log, &filters, table, now)?);
    }
    let kept = CheckpointPositions { values, ids, filters: filters.marks.clone() };
    for partition in PartitionId::all() {
        check(log, partition, &kept)?;
    }
    Ok(LoadedState { secret, catalog, catalog_version, partitions, kept, filters })
}

/// The table with its filters as they were stored. An era that began later has none: all of its ids are in the log.
fn restore_filters<B: BlobStore>(
    blobs: &B,
    filters: &StoredFilters,
    table: &Table,
    now: Timestamp,
) -> Result<Table, RecoveryError> {
    let broken = |error: &dyn std::fmt::Display| {
        RecoveryError::Damaged(format!("the filters of {}: {error}", table.name))
    };
    let fill = |era: &mut Era| match filters.reader(blobs, table.id, era.number) {
        Some(mut input) => era.read_filters(&mut input, now).map_err(|error| broken(&error)),
        None => Ok(()),
    };
    table.refilled(fill).map_err(|error| match error {
        RefillError::Fill(error) => error,
        RefillError::Begin(error) => broken(&error),
    })
}

fn read_store(bytes: &[u8]) -> Result<Secret, RecoveryError> {
    match bytes {
        [STORE_VERSION, secret @ ..] if secret.len() == 16 => {
            let mut bytes = [0; 16];
            bytes.copy_from_slice(secret);
            Ok(Secret::new(bytes))
        }
        [STORE_VERSION, ..] | [] => Err(RecoveryError::Damaged("the store row has a wrong length".into())),
        [version, ..] => Err(RecoveryError::Damaged(format!(
            "the store is of version {version}, and this program knows version {STORE_VERSION} only"
        ))),
    }
}

fn read_partitions<V: Values>(values: &V) -> Result<(Vec<Partition>, Watermarks), RecoveryError> {
    let mut partitions: Vec<Partition> = PartitionId::all().map(Partition::new).collect();
    let mut marks = Watermarks::default();
    let mut failed = None;
    let unknown =
        |key: &[u8]| RecoveryError::Damaged(format!("a row of the value store: {}", key.escape_ascii()));
    values.scan(RowKey::PARTITIONS, &mut |key, row| {
        let read = match RowKey::read(key) {
            Some(RowKey::Partition(id)) if usize::from(id.0) < partitions.len() => {
                Partition::decode(id, row).map_err(damaged("a partition's row"))
            }
            _ => Err(unknown(key)),
        };
        match read {
            Ok(partition) => {
                marks.raise(&vec![(partition.id(), partition.slot())]);
                let at = usize::from(partition.id().0);
                partitions[at] = partition;
            }
            Err(error) => failed = Some(error),
        }
    })?;
    values.scan(RowKey::SESSIONS, &mut |key, row| {
        let restored = match RowKey::read(key) {
            Some(RowKey::Session(id, client)) if usize::from(id.0) < partitions.len() => {
                let sessions = partitions[usize::from(id.0)].sessions();
                sessions.restore(client, row).map_err(damaged("a session's row"))
            }
            _ => Err(unknown(key)),
        };
        if let Err(error) = restored {
            failed = Some(error);
        }
    })?;
    values.scan(RowKey::BRANCHES, &mut |key, row| {
        let restored = match RowKey::read(key) {
            Some(RowKey::Branch(id, name)) if usize::from(id.0) < partitions.len() => {
                let branches = partitions[usize::from(id.0)].branches();
                branches.restore(id, name.as_bytes(), row).map_err(damaged("a branch's row"))
            }
            _ => Err(unknown(key)),
        };
        if let Err(error) = restored {
            failed = Some(error);
        }
    })?;
    for partition in &mut partitions {
        partition.branches().restored().map_err(damaged("a partition's row"))?;
    }
    failed.map_or(Ok((partitions, marks)), Err)
}

/// Whether log and stores belong together.
fn check<L: PartitionLog>(
    log: &L,
    partition: PartitionId,
    kept: &CheckpointPositions,
) -> Result<(), RecoveryError> {
    let extent = log.extent(partition)?;
    for (what, marks) in [("value store", &kept.values), ("id index", &kept.ids), ("filters", &kept.filters)]
    {
        // A log that was only ever trimmed, as a copy's may be, ends where it was trimmed to.
        let (begins, ends) = (extent.trimmed.0, extent.end().0);
        let has = marks.get(partition);
        if has < begins && !mutated!(IgnoreBehind) {
            return Err(RecoveryError::Behind { what, partition: partition.0, has, begins });
        }
        if has > ends {
            return Err(RecoveryError::Ahead { what, partition: partition.0, has, ends });
        }
    }
    Ok(())
}

/// What was replayed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Replayed {
    /// Entries.
    pub entries: u64,
    /// Their bytes.
    pub bytes: u64,
}

/// Shards that know everything ever acknowledged.
pub struct Recovered<V, D: Disk> {
    /// The shards; partition p belongs to number p modulo their count.
    pub shards: Vec<Shard<V, D>>,
    /// What was replayed.
    pub replayed: Replayed,
    /// The latest time in the log.
    pub logged: Timestamp,
}

/// Divides the partitions among shards, and replays the entries that the stores lack, in the order of the log.
pub fn replay_log<L: PartitionLog, V: Values, D: Disk>(
    log: &L,
    stores: &Stores<V, D>,
    catalog: &Arc<Catalog>,
    (secret, mut partitions, kept): (Secret, Vec<Partition>, &CheckpointPositions),
    options: &Options,
) -> Result<Recovered<V, D>, RecoveryError> {
    let cache = options.cache_bytes / options.shards;
    let entry = limits::ENTRY_BYTES_MAX.min(log.limits().entry_bytes_max);
    let mut shards = Vec::with_capacity(options.shards);
    for number in 0..options.shards {
        let ours = |partition: &mut Partition| usize::from(partition.id().0) % options.shards == number;
        let ours: Vec<Partition> = partitions.extract_if(.., ours).collect();
        shards.push(Shard::new(secret, ours, stores.clone(), cache, entry));
    }
    // The slot of the next entry of every partition.
    let mut next: Vec<u64> = PartitionId::all().map(|id| kept.least(id) + 1).collect();
    let mut replayed = Replayed::default();
    log.replay(|at, log, slot, bytes| {
        let id = PartitionId(log.0);
        let Some(next) = next.get_mut(usize::from(log.0)) else {
            return Err(RecoveryError::Damaged(format!("{at}: the log has entries of {log}")));
        };
        if slot.0 < *next {
            return Ok(());
        }
        if slot.0 != *next && !mutated!(IgnoreBehind) {
            let why = format!("{at}: the log of partition {} lacks slot {next}", id.0);
            return Err(RecoveryError::Damaged(why));
        }
        *next = slot.0 + 1;
        let index_has = slot.0 <= kept.ids.get(id);
        let shard = usize::from(id.0) % options.shards;
        let applied = shards[shard].replay(catalog, id, slot.0, bytes, index_has);
        applied.map_err(|error| match error {
            RecoveryError::Damaged(why) => RecoveryError::Damaged(format!("{at}: {why}")),
            other => other,
        })?;
        replayed.entries += 1;
        replayed.bytes += bytes.len() as u64;
        Ok(())
    })?;
    let logged = shards.iter().map(Shard::time).max().unwrap_or(Timestamp::ZERO);
    Ok(Recovered { shards, replayed, logged })
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test may panic")]
mod tests {
    use jeton_core::{
        Cell, Change, Column, DedupLocation, LogPosition, Operation, OperationDecision, OperationResult,
        TableId, TableSettings, Value, log_entry,
    };
    use jeton_wal::disk::FaultDisk;

    use super::*;
    use crate::ids::IdIndex;
    use crate::values::{CellKeys, MemoryValues, Rows, cell_key};

    const STEP: LogPosition = LogPosition { slot: 1, time: Timestamp::from_millis(5) };

    /// A store that cannot be read.
    struct Unreadable;

    impl Values for Unreadable {
        fn get(&self, _: &[u8]) -> Result<Option<Vec<u8>>, ValuesError> {
            Err(ValuesError("no handles".into()))
        }

        fn scan(&self, _: u8, _: &mut dyn FnMut(&[u8], &[u8])) -> Result<(), ValuesError> {
            Ok(())
        }

        fn keys(&self, _: &CellKeys, _: usize, _: &mut dyn FnMut(&[u8])) -> Result<(), ValuesError> {
            Ok(())
        }

        fn replace(&self, _: &Rows) -> Result<(), ValuesError> {
            Ok(())
        }

        fn compact(&self, _: u64) -> Result<bool, ValuesError> {
            Ok(false)
        }

        fn pending_compactions(&self) -> usize {
            0
        }
    }

    fn secret() -> Secret {
        Secret::new([1; 16])
    }

    fn cell() -> Cell {
        Cell::new(&secret(), TableId(1), b"row", &Column::unnamed()).unwrap()
    }

    /// Replays an entry that appends `x` to `text`, in a shard whose partition has come this far. How many bytes of cells it then has
    /// that the store lacks.
    fn replay_append<V: Values>(values: V, slot: u64) -> Result<usize, RecoveryError> {
        let operation = Operation::single(None, cell(), Change::Append((*b"x").into())).unwrap();
        let answer =
            OperationResult { applied: true, slot: 1, millis: 5, values: jeton_core::Values::One(Some(5)) };
        let mut bytes = Vec::new();
        log_entry::begin(STEP, &mut bytes);
        log_entry::push(
            &operation,
            &OperationDecision { answer, memory: DedupLocation::None, effects: None },
            &mut bytes,
        );

        let (ids, _) = IdIndex::open(Arc::new(FaultDisk::new()), "ids").unwrap();
        let stores = Stores { values: Arc::new(values), ids: Arc::new(ids) };
        let mut partition = Partition::new(cell().partition());
        if slot > 0 {
            partition.advance(STEP).unwrap();
        }
        let mut shard = Shard::new(secret(), vec![partition], stores, 1 << 20, 1 << 20);
        let catalog = Catalog::default().create("t", TableSettings::default()).unwrap();
        shard.replay(&catalog, cell().partition(), 1, &bytes, true)?;
        Ok(shard.cell_bytes().0)
    }

    fn holding(text: &str) -> MemoryValues {
        let (values, mut rows) = (MemoryValues::default(), Rows::default());
        let value = Value::Bytes(text.as_bytes().into());
        rows.push(|key| cell_key(&cell(), key), Some(|row: &mut Vec<u8>| value.encode(row)));
        values.replace(&rows).unwrap();
        values
    }

    #[test]
    fn an_entry_is_applied_to_what_the_store_has_unless_the_store_has_it_too() {
        assert!(replay_append(holding("text"), 0).unwrap() > 0);
        assert_eq!(replay_append(holding("textx"), 1).unwrap(), 0);
    }

    #[test]
    fn an_entry_that_cannot_be_applied_ends_the_start_and_is_named() {
        let partition = cell().partition().0;
        let place = format!("entry 1 of partition {partition}");
        let unread = replay_append(Unreadable, 0).unwrap_err();
        assert!(matches!(unread, RecoveryError::Unread { .. }), "{unread:?}");
        for part in [&place, "no handles"] {
            assert!(unread.to_string().contains(part), "{unread}");
        }
        for values in [MemoryValues::default(), holding("textx")] {
            let contradicted = replay_append(values, 0).unwrap_err();
            assert!(matches!(contradicted, RecoveryError::Damaged(_)), "{contradicted:?}");
            assert!(contradicted.to_string().contains(&place), "{contradicted}");
        }
        // The store has it: nothing is looked at.
        assert_eq!(replay_append(Unreadable, 1).unwrap(), 0);
    }
}
