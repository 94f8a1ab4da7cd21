//! Replay of log entries after a restart.
//!
//! Entries are decoded and hashed first and applied many at a time, so that the processor overlaps the cache
//! misses of filters and cells.

use jeton_core::codec::DecodeError;
use jeton_core::{
    Catalog, Hashes, LogItem, LogPosition, PartitionId, PayloadHash, RecomputeError, complete, log_entry,
    mutated, restore_branch_dedup, restore_dedup,
};
use jeton_wal::disk::Disk;

use super::memory::ReplayWriter;
use super::{PREFETCH_REQUESTS_MAX, Shard, owned};
use crate::partition_log::EntryLocation;
use crate::recovery::RecoveryError;
use crate::values::Values;

/// Decoded entries that are not applied yet.
#[derive(Default)]
pub(super) struct ReplayQueue {
    entries: Vec<Head>,
    items: Vec<(LogItem, Option<Hashes>)>,
}

struct Head {
    location: EntryLocation,
    partition: PartitionId,
    step: LogPosition,
    index_has: bool,
    /// Number of its items.
    items: usize,
}

impl<V: Values, D: Disk> Shard<V, D> {
    /// Queues a log entry and replays many at a time; [`finish_replay`](Self::finish_replay) replays the
    /// rest.
    /// Entries come in the order of their slots. `index_has` says whether the id index contains the entry
    /// already; the value store contains it if the partition is at its slot or beyond.
    pub fn replay(
        &mut self,
        catalog: &Catalog,
        (location, partition, slot): (EntryLocation, PartitionId, u64),
        bytes: &[u8],
        index_has: bool,
    ) -> Result<(), RecoveryError> {
        let place = |error: DecodeError| damaged(location, partition, slot, &error);
        let new = slot > owned(&mut self.partitions, partition).partition.slot();
        let entry = log_entry::Entry::read(slot, bytes).map_err(place)?;
        let (step, first) = (entry.step(), self.replaying.items.len());
        for item in entry {
            let item = item.map_err(place)?;
            let hashes = match &item {
                LogItem::Branch(_) => None,
                LogItem::Operation(operation, _) if new || !index_has => {
                    Some(Hashes::of(operation, &self.secret, &mut self.scratch))
                }
                // Only the filter needs it.
                LogItem::Operation(operation, _) => {
                    let (cell, scratch) = (operation.first_cell(), &mut self.scratch);
                    let key = operation.id().map(|id| self.secret.id_key(cell, id, scratch));
                    Some(Hashes { key, payload: PayloadHash(0), principal: 0 })
                }
            };
            self.replaying.items.push((item, hashes));
        }
        let items = self.replaying.items.len() - first;
        self.replaying.entries.push(Head { location, partition, step, index_has, items });
        let full = self.replaying.items.len() >= PREFETCH_REQUESTS_MAX;
        if full { self.finish_replay(catalog) } else { Ok(()) }
    }

    /// Applies the queued entries.
    pub fn finish_replay(&mut self, catalog: &Catalog) -> Result<(), RecoveryError> {
        let mut queue = std::mem::take(&mut self.replaying);
        let mut hints = std::mem::take(&mut self.hints);
        let operations = queue.items.iter().map(|(item, hashes)| match (item, hashes) {
            (LogItem::Operation(operation, _), Some(hashes)) => Some((operation, *hashes)),
            _ => None,
        });
        let cells = operations.clone().map(|one| one.map(|(operation, _)| operation.first_cell()));
        self.prefetch(catalog, operations.flatten(), cells, &mut hints);
        let mut items = queue.items.drain(..).zip(hints.drain(..));
        for head in queue.entries.drain(..) {
            self.apply_replayed(catalog, &head, items.by_ref().take(head.items))?;
        }
        drop(items);
        (self.replaying, self.hints) = (queue, hints);
        Ok(())
    }

    fn apply_replayed(
        &mut self,
        catalog: &Catalog,
        head: &Head,
        items: impl Iterator<Item = ((LogItem, Option<Hashes>), Option<u32>)>,
    ) -> Result<(), RecoveryError> {
        let Head { location, partition: id, step, index_has, .. } = *head;
        let slot = step.slot;
        let place = |error: &dyn std::fmt::Display| damaged(location, id, slot, error);
        let owned = owned(&mut self.partitions, id);
        let new = slot > owned.partition.slot();
        if new {
            owned.partition.advance(step).map_err(|error| place(&error))?;
        }
        for ((item, hashes), hint) in items {
            if let Some(hint) = hint {
                self.memory.cache.hint(hint);
            }
            let (operation, mut decision, hashes) = match (item, hashes) {
                (LogItem::Operation(operation, decision), Some(hashes)) => (operation, decision, hashes),
                (LogItem::Operation(..), None) => unreachable!("operations are hashed"),
                (LogItem::Branch(branch_step), _) => {
                    let key = self.secret.branch_key(branch_step.name()).in_partition(id);
                    let mut writer = ReplayWriter { catalog, memory: &mut self.memory, index_has };
                    if new {
                        let applied = owned.partition.apply_branch(&branch_step, key, &mut writer);
                        applied.map_err(|error| place(&error))?;
                    } else {
                        restore_branch_dedup(&branch_step, key, slot, step.time, &mut writer);
                    }
                    continue;
                }
            };
            if catalog.was_deleted(operation.table()) {
                continue;
            }
            let table = catalog
                .get(operation.table())
                .ok_or_else(|| place(&format_args!("{} is not in the catalogue", operation.table())))?;
            if new {
                for _ in 0..=usize::from(mutated!(ReplayTwice)) {
                    // The old contents: the value store has them as of the partition's slot, the cache what
                    // was replayed since.
                    complete(&operation, &mut decision, &mut self.memory).map_err(|error| match error {
                        RecomputeError::Contradicted => place(&error),
                        RecomputeError::Read(why) => RecoveryError::Unread { partition: id.0, slot, why },
                    })?;
                    let mut writer = ReplayWriter { catalog, memory: &mut self.memory, index_has };
                    let applied = owned.partition.apply(table, &operation, hashes, &decision, &mut writer);
                    applied.map_err(|error| place(&error))?;
                }
            } else if !mutated!(ReplaySkipsFilter) {
                let mut writer = ReplayWriter { catalog, memory: &mut self.memory, index_has };
                restore_dedup(table, &operation, hashes, &decision, step.time, &mut writer)
                    .map_err(|error| place(&error))?;
            }
        }
        Ok(())
    }
}

fn damaged(
    location: EntryLocation,
    id: PartitionId,
    slot: u64,
    error: &dyn std::fmt::Display,
) -> RecoveryError {
    RecoveryError::Damaged(format!("{location}: entry {slot} of partition {}: {error}", id.0))
}
