//! Recovery: loads the stores and replays the log into shards that contain everything ever acknowledged.
//!
//! The value store, the id index and the filters have watermarks. The log is replayed from the lowest. If the
//! log begins after it, a store has lost what the log was trimmed for, and the store is not opened.

use std::collections::BTreeSet;
use std::sync::Arc;

use bytes::Bytes;
use jeton_core::codec::Reader;
use jeton_core::{
    Budget, Catalog, CatalogError, FilterRestoreError, Partition, PartitionId, Secret, StoredEras, TableId,
    Timestamp, limits, mutated,
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
pub const STORE: &str = "store";
/// The blob with the tables.
pub const CATALOG: &str = "catalog";

/// Version 1 recorded an id for a table and a partition, and version 2 records it for a routing key: under
/// version 2 the ids of version 1 would not be found, and would count again.
pub const STORE_VERSION: u8 = 2;

/// Stored filters may exceed the memory limit by this part of it.
const STORED_EXCESS: usize = 4;

/// Why a store cannot be opened. The store is unchanged.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RecoveryError {
    #[error("log: {0}")]
    Log(#[from] LogError),
    #[error(transparent)]
    Values(#[from] ValuesError),
    #[error("id index: {0}")]
    Ids(#[from] ids::Error),
    /// Stored bytes are not what was written.
    #[error("damaged: {0}")]
    Damaged(String),
    /// The filters do not fit into the memory limit.
    #[error(
        "not enough memory: {0}. The store is not damaged: raise memory_max, if the machine has that memory"
    )]
    Memory(String),
    /// Another version of the program wrote the store.
    #[error(
        "the store has version {version}, and this program opens version {STORE_VERSION} only{advice}. Nothing was changed",
        advice = version_advice(*version)
    )]
    Version { version: u8 },
    /// The value store cannot be read for the replay of an entry.
    #[error(
        "entry {slot} of partition {partition} cannot be replayed, because the previous value of a cell cannot be read: \
         {why}"
    )]
    Unread { partition: u16, slot: u64, why: EngineError },
    /// A store is older than the start of the log.
    #[error(
        "the {what} of partition {partition} is complete up to slot {has} only, but the log begins after slot {begins}: \
         the entries between are lost, so the store is not opened. Restore {what} or the whole store from a backup"
    )]
    Behind { what: &'static str, partition: u16, has: u64, begins: u64 },
    /// A store is ahead of the log.
    #[error(
        "the {what} of partition {partition} is at slot {has}, beyond the log's end at slot {ends}: the log has lost its end \
         or belongs to another store, so the store is not opened. Restore the whole store from a backup"
    )]
    Ahead { what: &'static str, partition: u16, has: u64, ends: u64 },
}

fn version_advice(version: u8) -> &'static str {
    if version >= STORE_VERSION {
        return ": run the later version of Jeton that wrote it";
    }
    ", because the ids of an earlier store would not be found and could count twice. Run the version of Jeton that wrote \
     it; or copy its counters into a new data directory: read them with GET /v1/tables/{table}/counters, set them with \
     jeton import, and let clients use the new store only for operations that they never sent to the old one"
}

pub(crate) fn damaged(what: &str) -> impl Fn(jeton_core::codec::DecodeError) -> RecoveryError {
    move |error| RecoveryError::Damaged(format!("{what}: {error}"))
}

/// What is on disk, before the replay.
pub struct LoadedState {
    pub secret: Secret,
    /// The tables with their stored filters.
    pub catalog: Catalog,
    pub catalog_version: u64,
    /// The tables with filters that did not fit into memory. All their ids are looked up in the id index.
    pub without_filters: Vec<String>,
    /// The partitions as in the value store, with sessions and prepared branches.
    pub partitions: Vec<Partition>,
    pub positions: CheckpointPositions,
    pub filters: StoredFilters,
}

/// Reads what is on disk. `memory_max` limits the filters; `new_secret` returns the secret of a new store.
pub fn find<L: PartitionLog + BlobStore, V: Values, D: Disk>(
    log: &L,
    stores: &Stores<V, D>,
    ids_note: &[u8],
    memory_max: usize,
    new_secret: impl FnOnce() -> [u8; 16],
) -> Result<LoadedState, RecoveryError> {
    let secret = match log.get_blob(STORE)? {
        Some(blob) => read_store(&blob.bytes)?,
        None => {
            let secret = Secret::new(new_secret());
            let mut bytes = vec![STORE_VERSION];
            bytes.extend_from_slice(secret.as_bytes());
            log.put_blob(STORE, &Blob { version: 1, bytes: Bytes::from(bytes) })?;
            secret
        }
    };
    let (partitions, values) = read_partitions(&*stores.values)?;
    let ids = ids_watermarks(ids_note)?;
    let filters = StoredFilters::find(log)?.unwrap_or_default();
    // The time of the log, not of the clock: if the clock is ahead and is set back later, ids that the
    // filters dropped by its time would be new again.
    let now = partitions.iter().map(Partition::time).max().unwrap_or_default();
    let budget = Budget::new(memory_max);
    let (catalog, without_filters, catalog_version) = match log.get_blob(CATALOG)? {
        Some(blob) => {
            let (catalog, without) = restore_catalog(log, &filters, &blob.bytes, &budget, now)?;
            (catalog, without, blob.version)
        }
        None => (Catalog::within(&budget), Vec::new(), 0),
    };
    let positions = CheckpointPositions { values, ids, filters: filters.watermarks.clone() };
    for partition in PartitionId::all() {
        check(log, partition, &positions)?;
    }
    Ok(LoadedState { secret, catalog, catalog_version, without_filters, partitions, positions, filters })
}

/// Reads the tables with their stored filters. An era that began later has none: the log contains all of its
/// ids. If the filters exceed the budget, those of exact tables that do not fit are left out. Returns the
/// names of their tables.
fn restore_catalog<B: BlobStore>(
    blobs: &B,
    filters: &StoredFilters,
    bytes: &[u8],
    budget: &Budget,
    now: Timestamp,
) -> Result<(Catalog, Vec<String>), RecoveryError> {
    struct Stored<'a, B>(&'a B, &'a StoredFilters, BTreeSet<(TableId, u32)>);
    impl<B: BlobStore> StoredEras for Stored<'_, B> {
        fn open(&self, table: TableId, era: u32) -> Option<impl std::io::Read> {
            self.1.reader(self.0, table, era)
        }

        fn omits(&self, table: TableId, era: u32) -> bool {
            self.2.contains(&(table, era))
        }
    }
    // Filters that shrank while later ones were written may exceed the limit together.
    let limit = budget.limit();
    budget.set_limit(limit.saturating_add(limit / STORED_EXCESS));
    let mut stored = Stored(blobs, filters, BTreeSet::new());
    let (mut candidates, mut tried) = (filters.stored_eras(), BTreeSet::new());
    let mut excess = String::new();
    let restored = loop {
        let (era, why) = match Catalog::restore(bytes, budget, now, &stored) {
            Err(CatalogError::Filters { table, era, why }) => (era, (table, why)),
            other => break other.map_err(|error| RecoveryError::Damaged(error.to_string())),
        };
        match why {
            (_, FilterRestoreError::Required) => drop(stored.2.remove(&era)),
            (table, why @ (FilterRestoreError::OverBudget(_) | FilterRestoreError::Settings(_))) => {
                excess = CatalogError::Filters { table, era, why }.to_string();
            }
            (table, why) => {
                break Err(RecoveryError::Damaged(CatalogError::Filters { table, era, why }.to_string()));
            }
        }
        // The one that does not fit; if it is needed, all others.
        let next = if tried.insert(era) { Some(era) } else { candidates.pop() };
        let Some(next) = next else { break Err(RecoveryError::Memory(excess)) };
        tried.insert(next);
        stored.2.insert(next);
    };
    budget.set_limit(limit);
    let catalog = restored?;
    let mut without: Vec<String> =
        stored.2.iter().filter_map(|(table, _)| Some(catalog.get(*table)?.name.clone())).collect();
    without.dedup();
    Ok((catalog, without))
}

fn read_store(bytes: &[u8]) -> Result<Secret, RecoveryError> {
    match bytes {
        [STORE_VERSION, secret @ ..] if secret.len() == 16 => {
            let mut bytes = [0; 16];
            bytes.copy_from_slice(secret);
            Ok(Secret::new(bytes))
        }
        [STORE_VERSION, ..] | [] => {
            Err(RecoveryError::Damaged("the blob of the store has a wrong length".into()))
        }
        [version, ..] => Err(RecoveryError::Version { version: *version }),
    }
}

/// The watermarks in the note of the id index.
pub(crate) fn ids_watermarks(note: &[u8]) -> Result<Watermarks, RecoveryError> {
    if note.is_empty() {
        return Ok(Watermarks::default());
    }
    Watermarks::decode(&mut Reader::new(note)).map_err(damaged("the note of the id index"))
}

fn read_partitions<V: Values>(values: &V) -> Result<(Vec<Partition>, Watermarks), RecoveryError> {
    let mut partitions: Vec<Partition> = PartitionId::all().map(Partition::new).collect();
    let mut failed = None;
    for kind in [RowKey::PARTITIONS, RowKey::SESSIONS, RowKey::BRANCHES] {
        values.scan(kind, &mut |key, row| {
            let restored = match RowKey::read(key) {
                Some(key) if usize::from(key.partition().0) < partitions.len() => {
                    restore_row(&mut partitions[usize::from(key.partition().0)], key, row)
                }
                _ => Err(RecoveryError::Damaged(format!("a row of the value store: {}", key.escape_ascii()))),
            };
            if let Err(error) = restored {
                failed = Some(error);
            }
        })?;
    }
    for partition in &mut partitions {
        partition.branches().restored().map_err(damaged("a partition's row"))?;
    }
    let mut watermarks = Watermarks::default();
    watermarks.raise(&partitions.iter().map(|partition| (partition.id(), partition.slot())).collect());
    failed.map_or(Ok((partitions, watermarks)), Err)
}

/// Adds a row of the value store to its partition. The row of the partition comes before its other rows.
fn restore_row(partition: &mut Partition, key: RowKey, row: &[u8]) -> Result<(), RecoveryError> {
    match key {
        RowKey::Partition(id) => {
            *partition = Partition::decode(id, row).map_err(damaged("a partition's row"))?;
            Ok(())
        }
        RowKey::Session(_, client) => {
            partition.sessions().restore(client, row).map_err(damaged("a session's row"))
        }
        RowKey::Branch(id, name) => {
            partition.branches().restore(id, name.as_bytes(), row).map_err(damaged("a branch's row"))
        }
    }
}

/// Checks that the stores are neither older than the start of the log nor ahead of its end.
fn check<L: PartitionLog>(
    log: &L,
    partition: PartitionId,
    positions: &CheckpointPositions,
) -> Result<(), RecoveryError> {
    let extent = log.extent(partition)?;
    // A log without entries, as in a backup, ends where it is trimmed to.
    let (begins, ends) = (extent.trimmed.0, extent.end().0);
    let CheckpointPositions { values, ids, filters } = positions;
    for (what, watermarks) in [("value store", values), ("id index", ids), ("filters", filters)] {
        let has = watermarks.get(partition);
        if has < begins && !mutated!(IgnoreBehind) {
            return Err(RecoveryError::Behind { what, partition: partition.0, has, begins });
        }
        if has > ends {
            return Err(RecoveryError::Ahead { what, partition: partition.0, has, ends });
        }
    }
    Ok(())
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Replayed {
    pub entries: u64,
    pub bytes: u64,
}

/// The state after the replay.
pub struct Recovered<V, D: Disk> {
    /// The shards; partition p of those in the options belongs to number p modulo their count.
    pub shards: Vec<Shard<V, D>>,
    pub replayed: Replayed,
    /// The latest time in the log and the catalogue.
    pub logged: Timestamp,
}

/// Divides the partitions among shards, and replays the entries that the stores lack, in the order of the
/// log.
pub fn replay_log<L: PartitionLog, V: Values, D: Disk>(
    log: &L,
    stores: &Stores<V, D>,
    catalog: &Arc<Catalog>,
    (secret, mut partitions, positions): (Secret, Vec<Partition>, &CheckpointPositions),
    options: &Options,
) -> Result<Recovered<V, D>, RecoveryError> {
    let cache = options.cache_bytes / options.shards;
    let entry = limits::ENTRY_BYTES_MAX.min(log.limits().entry_bytes_max);
    let mut shards = Vec::with_capacity(options.shards);
    for number in 0..options.shards {
        let of_shard = |partition: &mut Partition| {
            let id = partition.id().0;
            options.partitions.contains(&id) && usize::from(id) % options.shards == number
        };
        let mut owned: Vec<Partition> = partitions.extract_if(.., of_shard).collect();
        owned.iter_mut().for_each(|partition| partition.sessions().limit(options.session_bytes_max()));
        shards.push(Shard::new(secret, owned, stores.clone(), cache, entry));
    }
    // The next slot of each partition.
    let mut next: Vec<u64> = PartitionId::all().map(|id| positions.least(id) + 1).collect();
    let mut replayed = Replayed::default();
    log.replay(|at, log, slot, bytes| {
        let id = PartitionId(log.0);
        let owned = next.get_mut(usize::from(log.0)).filter(|_| options.partitions.contains(&log.0));
        let Some(next) = owned else {
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
        let index_has = slot.0 <= positions.ids.get(id);
        let shard = usize::from(id.0) % options.shards;
        shards[shard].replay(catalog, (at, id, slot.0), bytes, index_has)?;
        replayed.entries += 1;
        replayed.bytes += bytes.len() as u64;
        Ok(())
    })?;
    shards.iter_mut().try_for_each(|shard| shard.finish_replay(catalog))?;
    let logged = shards.iter().map(Shard::time).max().unwrap_or_default().max(catalog.time());
    Ok(Recovered { shards, replayed, logged })
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test may panic")]
mod tests {
    use jeton_core::{
        Cell, Change, Column, DedupLocation, LogPosition, Operation, OperationDecision, OperationResult,
        TableId, TableSettings, Value, log_entry,
    };
    use jeton_wal::Location;
    use jeton_wal::disk::FaultDisk;

    use super::*;
    use crate::ids::IdIndex;
    use crate::partition_log::EntryLocation;
    use crate::values::{MemoryValues, Rows, cell_key};

    const STEP: LogPosition = LogPosition { slot: 1, time: Timestamp::from_millis(5) };

    fn secret() -> Secret {
        Secret::new([1; 16])
    }

    fn cell() -> Cell {
        Cell::new(&secret(), TableId(1), b"row", &Column::unnamed()).unwrap()
    }

    /// Replays an entry that appends `x` to `text`, in a shard whose partition is at `slot`. Returns the
    /// bytes of changed cells.
    fn replay_append(values: MemoryValues, slot: u64) -> Result<usize, RecoveryError> {
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
        let catalog = Catalog::default().create("t", TableSettings::default(), Timestamp::ZERO).unwrap();
        let at = EntryLocation::File(Location::default());
        shard.replay(&catalog, (at, cell().partition(), 1), &bytes, true)?;
        shard.finish_replay(&catalog)?;
        Ok(shard.cell_bytes().0)
    }

    fn unreadable() -> MemoryValues {
        let values = MemoryValues::default();
        values.set_unreadable(true);
        values
    }

    fn with_text(text: &str) -> MemoryValues {
        let (values, mut rows) = (MemoryValues::default(), Rows::default());
        let value = Value::Bytes(text.as_bytes().into());
        rows.push(|key| cell_key(&cell(), key), Some(|row: &mut Vec<u8>| value.encode(row)));
        values.replace(&rows).unwrap();
        values
    }

    #[test]
    fn an_entry_is_applied_unless_the_store_contains_it() {
        assert!(replay_append(with_text("text"), 0).unwrap() > 0);
        assert_eq!(replay_append(with_text("textx"), 1).unwrap(), 0);
    }

    #[test]
    fn an_entry_that_cannot_be_applied_is_named() {
        let partition = cell().partition().0;
        let place = format!("entry 1 of partition {partition}");
        let unread = replay_append(unreadable(), 0).unwrap_err();
        assert!(matches!(unread, RecoveryError::Unread { .. }), "{unread:?}");
        for part in [&place, "unreadable"] {
            assert!(unread.to_string().contains(part), "{unread}");
        }
        for values in [MemoryValues::default(), with_text("textx")] {
            let contradicted = replay_append(values, 0).unwrap_err();
            assert!(matches!(contradicted, RecoveryError::Damaged(_)), "{contradicted:?}");
            assert!(contradicted.to_string().contains(&place), "{contradicted}");
        }
        // The store contains the entry: nothing is read.
        assert_eq!(replay_append(unreadable(), 1).unwrap(), 0);
    }
}
