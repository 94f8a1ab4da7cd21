//! Replay of log entries after a restart.

use jeton_core::{
    Catalog, Hashes, LogItem, PartitionId, RecomputeError, complete, log_entry, mutated,
    restore_branch_dedup, restore_dedup,
};
use jeton_wal::disk::Disk;

use super::Shard;
use super::memory::ReplayWriter;
use crate::recovery::RecoveryError;
use crate::values::Values;

impl<V: Values, D: Disk> Shard<V, D> {
    /// Replays a log entry. Entries come in the order of their slots. `index_has` says whether the id index
    /// contains the entry already; the value store contains it if the partition is at its slot or beyond.
    pub fn replay(
        &mut self,
        catalog: &Catalog,
        id: PartitionId,
        slot: u64,
        bytes: &[u8],
        index_has: bool,
    ) -> Result<(), RecoveryError> {
        let place = |error: &dyn std::fmt::Display| {
            RecoveryError::Damaged(format!("entry {slot} of partition {}: {error}", id.0))
        };
        let Some(owned) = &mut self.partitions[usize::from(id.0)] else {
            return Err(place(&"the partition belongs to another shard"));
        };
        let entry = log_entry::Entry::read(slot, bytes).map_err(|error| place(&error))?;
        let step = entry.step();
        let new = slot > owned.partition.slot();
        if new {
            owned.partition.advance(step).map_err(|error| place(&error))?;
        }
        for decided in entry {
            let (operation, mut decision) = match decided.map_err(|error| place(&error))? {
                LogItem::Operation(operation, decision) => (operation, decision),
                LogItem::Branch(branch_step) => {
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
            let hashes = Hashes::of(&operation, &self.secret, &mut self.scratch);
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
