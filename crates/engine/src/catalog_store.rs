//! The tables of a store, and the one way to change them: make the next catalogue, store it, let it be seen.
//!
//! What must hold: a catalogue is seen only when it is stored, so that no entry of the log names a table or an era that the next
//! start does not know. The other way round is harmless: a shard that still works with the catalogue before may log an entry of an
//! era that is gone, and whoever replays it has nothing to remember of it.

use std::sync::{Arc, Mutex, MutexGuard};

use arc_swap::ArcSwap;
use bytes::Bytes;
use jeton_core::{Catalog, SettingsError, Table, TableSettings, Timestamp, mutated};
use jeton_wal::{Blob, Error as LogError};

use crate::engine::lock;
use crate::partition_log::BlobStore;
use crate::recovery::CATALOG;
use crate::response::EngineError;

/// The tables of a store.
pub struct Tables<B> {
    blobs: Arc<B>,
    catalog: Arc<ArcSwap<Catalog>>,
    /// The version of the catalogue's row; held while the catalogue is changed, or must not be.
    version: Mutex<u64>,
}

/// Why a table could not be made or changed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TableError {
    /// What was asked for cannot be.
    #[error(transparent)]
    Settings(#[from] SettingsError),
    /// It could not be stored, or there is no such table.
    #[error(transparent)]
    Refused(#[from] EngineError),
}

impl From<LogError> for TableError {
    fn from(failure: LogError) -> Self {
        Self::Refused(EngineError::Storage(failure.to_string()))
    }
}

impl<B: BlobStore> Tables<B> {
    /// The tables of this catalogue, whose row has this version.
    pub fn new(blobs: Arc<B>, catalog: Arc<Catalog>, version: u64) -> Self {
        Self { blobs, catalog: Arc::new(ArcSwap::new(catalog)), version: Mutex::new(version) }
    }

    /// The catalogue as it is, now and later.
    pub fn catalog(&self) -> &Arc<ArcSwap<Catalog>> {
        &self.catalog
    }

    /// While this is held, the catalogue stays as it is.
    pub fn hold(&self) -> MutexGuard<'_, u64> {
        lock(&self.version)
    }

    /// Makes a table. It is there for good when this returns.
    pub fn create(&self, name: &str, settings: TableSettings) -> Result<(), TableError> {
        self.change(|catalog| Ok::<_, TableError>(Some(catalog.create(name, settings)?)))?;
        Ok(())
    }

    /// Gives a table other settings, from `now` on. Every promise already made is kept. `logged` is the latest time in the log.
    pub fn alter(
        &self,
        name: &str,
        settings: TableSettings,
        now: impl FnOnce() -> Timestamp,
        logged: Timestamp,
    ) -> Result<(), TableError> {
        self.change(|catalog| {
            let table = catalog.find(name).ok_or_else(|| EngineError::NoSuchTable(name.into()))?;
            // What is over by the log's time makes room for one more era.
            let lighter = table.without_past(logged);
            let table: &Table = lighter.as_ref().unwrap_or(table);
            // Read now that nobody else changes anything: what the old settings took until now must be promised for.
            Ok::<_, TableError>(Some(catalog.replaced(table.change(settings, now())?)))
        })?;
        Ok(())
    }

    /// Lets go of the eras that are over by the time of the log. How many.
    ///
    /// Their stored filters go with the next versions of the filters, which have no use for them.
    pub fn drop_expired(&self, logged: Timestamp) -> Result<usize, LogError> {
        let early = std::time::Duration::from_secs(if mutated!(DropErasEarly) { 600 } else { 0 });
        let lighter = |catalog: &Catalog| {
            let over: Vec<Table> =
                catalog.iter().filter_map(|table| table.without_past(logged.after(early))).collect();
            (!over.is_empty()).then(|| over.into_iter().fold(catalog.clone(), |all, one| all.replaced(one)))
        };
        // A first look without the lock: mostly there is nothing to do.
        if lighter(&self.catalog.load()).is_none() {
            return Ok(0);
        }
        let eras = |catalog: &Catalog| catalog.iter().map(|table| table.eras().count()).sum::<usize>();
        let (before, after) = self.change(|catalog| Ok::<_, LogError>(lighter(catalog)))?;
        Ok(eras(&before) - eras(&after))
    }

    /// Stores the catalogue that `change` makes of the present one, if it makes one, and lets it be seen. The catalogues before and
    /// after.
    fn change<E: From<LogError>>(
        &self,
        change: impl FnOnce(&Catalog) -> Result<Option<Catalog>, E>,
    ) -> Result<(Arc<Catalog>, Arc<Catalog>), E> {
        let mut version = self.hold();
        let before = self.catalog.load_full();
        let Some(next) = change(&before)? else { return Ok((before.clone(), before)) };
        let blob = Blob { version: *version + 1, bytes: Bytes::from(next.encode()) };
        self.blobs.put_blob(CATALOG, &blob)?;
        *version += 1;
        let after = Arc::new(next);
        self.catalog.store(after.clone());
        Ok((before, after))
    }
}
