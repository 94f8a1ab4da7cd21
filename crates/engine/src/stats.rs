//! Statistics of an engine.

use jeton_core::{Catalog, Status};
use jeton_wal::disk::Disk;

use crate::health::Health;
use crate::ids;
use crate::shard::Stores;
use crate::values::LsmValues;

#[derive(Debug, Clone)]
pub struct Stats {
    /// Log entries that were replayed when the engine was opened.
    pub replayed_entries: u64,
    /// Bytes of log entries since then, and those of the replayed entries.
    pub logged_bytes: u64,
    pub ids: ids::Stats,
    /// Bytes of the value store on disk.
    pub value_bytes: u64,
    /// Bytes charged for filters, and their limit.
    pub filter_memory: (usize, usize),
    pub tables: Vec<TableStats>,
    /// Why checkpoints fail, if they do: writes will be refused soon.
    pub last_error: Option<String>,
    /// Why compaction or removal of expired data fails, if it does.
    pub maintenance_error: Option<String>,
}

#[derive(Debug, Clone)]
pub struct TableStats {
    pub name: String,
    /// The filters of the current era: of dated ids, and of opaque ones.
    pub filters: (Option<Status>, Option<Status>),
    /// Eras that have not expired.
    pub eras: usize,
}

impl Stats {
    /// Of no engine.
    pub fn empty(tables: Vec<TableStats>) -> Self {
        Self {
            replayed_entries: 0,
            logged_bytes: 0,
            ids: ids::Stats::default(),
            value_bytes: 0,
            filter_memory: (0, 0),
            tables,
            last_error: None,
            maintenance_error: None,
        }
    }

    /// Adds the numbers of another engine. The tables stay.
    pub fn add(&mut self, other: &Self) {
        self.replayed_entries += other.replayed_entries;
        self.logged_bytes += other.logged_bytes;
        self.ids.add(&other.ids);
        self.value_bytes += other.value_bytes;
        self.filter_memory.0 += other.filter_memory.0;
        self.filter_memory.1 += other.filter_memory.1;
        self.last_error = self.last_error.take().or_else(|| other.last_error.clone());
        self.maintenance_error = self.maintenance_error.take().or_else(|| other.maintenance_error.clone());
    }

    pub(crate) fn of<D: Disk>(
        catalog: &Catalog,
        stores: &Stores<LsmValues, D>,
        health: &Health,
        replayed_entries: u64,
    ) -> Self {
        let table = |table: &std::sync::Arc<jeton_core::Table>| TableStats {
            name: table.name.clone(),
            filters: table.present().status(),
            eras: table.eras().count(),
        };
        Self {
            replayed_entries,
            logged_bytes: health.logged_bytes(),
            ids: stores.ids.stats(),
            value_bytes: stores.values.disk_bytes(),
            filter_memory: (catalog.budget().used(), catalog.budget().limit()),
            tables: catalog.iter().map(table).collect(),
            last_error: health.last_error(),
            maintenance_error: health.maintenance_error(),
        }
    }
}
