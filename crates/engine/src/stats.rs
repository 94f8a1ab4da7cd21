//! What the engine tells about itself.

use jeton_core::{Catalog, Status};
use jeton_wal::disk::Disk;

use crate::health::Health;
use crate::ids;
use crate::shard::Stores;
use crate::values::LsmValues;

/// How an engine is doing.
#[derive(Debug, Clone)]
pub struct Stats {
    /// Entries of the log that were replayed when it was opened.
    pub replayed_entries: u64,
    /// Bytes given to the log since then.
    pub logged_bytes: u64,
    /// The id index.
    pub ids: ids::Stats,
    /// Bytes of the value store on disk.
    pub value_bytes: u64,
    /// The tables.
    pub tables: Vec<TableStats>,
    /// Why nothing can be stored at present, if so: writes will be refused before long.
    pub trouble: Option<String>,
    /// Why nothing can be tidied up at present, if so.
    pub upkeep_trouble: Option<String>,
}

/// How a table is doing.
#[derive(Debug, Clone)]
pub struct TableStats {
    /// Its name.
    pub name: String,
    /// The filters of the present era: of dated ids, and of opaque ones.
    pub filters: (Option<Status>, Option<Status>),
    /// Eras with promises to keep, the present one included.
    pub eras: usize,
}

impl Stats {
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
            tables: catalog.iter().map(table).collect(),
            trouble: health.last_error(),
            upkeep_trouble: health.upkeep_trouble(),
        }
    }
}
