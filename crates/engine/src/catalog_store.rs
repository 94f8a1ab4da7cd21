//! The tables of a store. A change builds the next catalogue, stores it, then publishes it.
//!
//! Invariant: a published catalogue is stored, so that no log entry names a table or an era that the next
//! start does not know. The reverse is harmless: a shard with the previous catalogue may log an entry of a
//! dropped era, and the replay has nothing to remember of it.

use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use arc_swap::ArcSwap;
use bytes::Bytes;
use jeton_core::{Catalog, SettingsError, Table, TableId, TableSettings, Timestamp, mutated, rfc3339};
use jeton_wal::{Blob, Error as LogError};

use crate::lock::lock;
use crate::partition_log::BlobStore;
use crate::recovery::CATALOG;
use crate::response::EngineError;

pub struct Tables<B> {
    blobs: Arc<B>,
    catalog: Arc<ArcSwap<Catalog>>,
    /// The version of the catalogue's blob. Locked while the catalogue changes or must not change.
    version: Mutex<u64>,
}

#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TableError {
    /// The settings are invalid.
    #[error(transparent)]
    Settings(#[from] SettingsError),
    /// The catalogue could not be stored, or there is no such table.
    #[error(transparent)]
    Refused(#[from] EngineError),
    /// A table with prepared branches cannot be deleted: they must be able to commit.
    #[error("branches of transactions are prepared in the table {0:?}")]
    Prepared(String),
    /// The name belonged to a deleted table. Until then a retry of an operation of that table could count.
    #[error(
        "the name {name:?} is reserved until {}, because a late retry of an operation of the deleted table could count \
         in a new one, or because its counters are still being removed",
        rfc3339::format_seconds(until.as_nanos() / 1_000_000)
    )]
    NameReserved { name: String, until: Timestamp, now: Timestamp },
}

/// Attempts to store a change while other engines store theirs.
const CHANGE_ATTEMPTS_MAX: usize = 16;

/// A cached reference to the current catalogue.
#[derive(Debug)]
pub struct TablesView(arc_swap::Cache<Arc<ArcSwap<Catalog>>, Arc<Catalog>>);

impl TablesView {
    /// The current catalogue.
    pub fn look(&mut self) -> &Arc<Catalog> {
        self.0.load()
    }
}

/// While the cells of a deleted table are removed, its name is reserved for at least this long.
const REMOVAL_PAUSE: Duration = Duration::from_secs(1);

impl From<LogError> for TableError {
    fn from(failure: LogError) -> Self {
        Self::Refused(EngineError::Storage(failure.to_string()))
    }
}

impl<B: BlobStore> Tables<B> {
    /// The tables of this catalogue, whose blob has this version.
    pub fn new(blobs: Arc<B>, catalog: Arc<Catalog>, version: u64) -> Self {
        Self { blobs, catalog: Arc::new(ArcSwap::new(catalog)), version: Mutex::new(version) }
    }

    /// The current catalogue; changes are visible through it.
    pub fn catalog(&self) -> &Arc<ArcSwap<Catalog>> {
        &self.catalog
    }

    /// The catalogue does not change while the guard exists.
    pub fn freeze(&self) -> MutexGuard<'_, u64> {
        lock(&self.version)
    }

    /// Creates a table, durably.
    pub fn create(&self, name: &str, settings: TableSettings, now: Timestamp) -> Result<(), TableError> {
        self.change(|catalog| {
            if let Some(deleted) = catalog.reservation(name, now) {
                let (name, until) = (name.to_owned(), deleted.reserved_until.max(now.after(REMOVAL_PAUSE)));
                return Err(TableError::NameReserved { name, until, now });
            }
            Ok(Some(catalog.create(name, settings.clone(), now)?))
        })?;
        Ok(())
    }

    /// Deletes a table, durably. Its cells are removed later. No shard may accept an operation or prepare a
    /// branch of the table meanwhile. Returns the time until which its name is reserved.
    pub fn delete(&self, name: &str, now: impl Fn() -> Timestamp) -> Result<Timestamp, TableError> {
        let missing = || TableError::Refused(EngineError::NoSuchTable(name.into()));
        let (_, after) = self.change(|catalog| catalog.delete(name, now()).map(Some).ok_or_else(missing))?;
        let deleted = after.reservation(name, Timestamp::ZERO);
        Ok(deleted.map(|deleted| deleted.reserved_until).unwrap_or_default())
    }

    /// Records, durably, that the cells of a deleted table are removed.
    pub fn set_removed(&self, table: TableId) -> Result<(), LogError> {
        self.change(|catalog| Ok::<_, LogError>(Some(catalog.removed(table))))?;
        Ok(())
    }

    /// Changes the settings of a table from `now` on, durably. Every guarantee given before is kept. `logged`
    /// is the latest time in the log.
    pub fn alter(
        &self,
        name: &str,
        settings: TableSettings,
        now: impl Fn() -> Timestamp,
        logged: Timestamp,
    ) -> Result<(), TableError> {
        self.change(|catalog| {
            let table = catalog.find(name).ok_or_else(|| EngineError::NoSuchTable(name.into()))?;
            // Expired eras are dropped first: the number of eras is limited.
            let current = table.without_past(logged);
            let table: &Table = current.as_ref().unwrap_or(table);
            // Read under the lock: the guarantees of the old settings extend to what they accept until now.
            Ok::<_, TableError>(Some(catalog.replaced(table.change(settings.clone(), now())?)))
        })?;
        Ok(())
    }

    /// Drops the eras that have expired by the time of the log, and returns their number. Their stored
    /// filters are emptied by the next versions of the filters.
    pub fn drop_expired(&self, logged: Timestamp) -> Result<usize, LogError> {
        let early = Duration::from_secs(if mutated!(DropErasEarly) { 600 } else { 0 });
        let without_expired = |catalog: &Catalog| {
            let changed: Vec<Table> =
                catalog.iter().filter_map(|table| table.without_past(logged.after(early))).collect();
            (!changed.is_empty())
                .then(|| changed.into_iter().fold(catalog.clone(), |all, one| all.replaced(one)))
        };
        // Mostly there is nothing to do: check without the lock first.
        if without_expired(&self.catalog.load()).is_none() {
            return Ok(0);
        }
        let eras = |catalog: &Catalog| catalog.iter().map(|table| table.eras().count()).sum::<usize>();
        let (before, after) = self.change(|catalog| Ok::<_, LogError>(without_expired(catalog)))?;
        Ok(eras(&before) - eras(&after))
    }

    /// The version of the catalogue.
    pub fn version(&self) -> u64 {
        *self.freeze()
    }

    /// A view of the catalogue that costs nearly nothing per look while no table changes.
    pub fn view(&self) -> TablesView {
        TablesView(arc_swap::Cache::new(Arc::clone(&self.catalog)))
    }

    /// Publishes the stored catalogue, if another engine has stored a later one. Returns its version.
    pub fn refresh(&self) -> Result<u64, LogError> {
        let mut version = self.freeze();
        self.adopt(&mut version)?;
        Ok(*version)
    }

    fn adopt(&self, version: &mut u64) -> Result<(), LogError> {
        let Some(stored) = self.blobs.get_blob(CATALOG)?.filter(|stored| stored.version > *version) else {
            return Ok(());
        };
        let next = self.catalog.load().updated(&stored.bytes);
        self.catalog.store(Arc::new(next.map_err(|error| LogError::Damaged(error.to_string()))?));
        *version = stored.version;
        Ok(())
    }

    /// Stores and publishes the catalogue that `change` returns, if any. Returns the catalogues before and
    /// after.
    fn change<E: From<LogError>>(
        &self,
        change: impl Fn(&Catalog) -> Result<Option<Catalog>, E>,
    ) -> Result<(Arc<Catalog>, Arc<Catalog>), E> {
        let mut version = self.freeze();
        for _ in 0..CHANGE_ATTEMPTS_MAX {
            let before = self.catalog.load_full();
            let Some(next) = change(&before)? else { return Ok((before.clone(), before)) };
            let blob = Blob { version: *version + 1, bytes: Bytes::from(next.encode()) };
            if self.blobs.put_blob(CATALOG, &blob)? {
                *version += 1;
                let after = Arc::new(next);
                self.catalog.store(after.clone());
                return Ok((before, after));
            }
            // Another engine has stored a version.
            self.adopt(&mut version)?;
        }
        Err(LogError::Busy("other nodes change the tables".into()).into())
    }
}
