//! The tables of a store. A change builds the next catalogue, stores it, then publishes it.
//!
//! Invariant: a published catalogue is stored, so that no log entry names a table or an era that the next
//! start does not know. The reverse is harmless: a shard with the previous catalogue may log an entry of a
//! dropped era, and the replay has nothing to remember of it.
//!
//! The catalogue may be shared with other stores, which change it too:
//! - A change that another store made first is adopted, and the own change is repeated after it.
//! - A change ends an era by the clock of the store that made it. A store that adopts the change later has
//!   accepted ids in that era until then, so it ends the era at its own time ([`Catalog::adopt`]). A store
//!   that takes a log over ends eras at the latest time in it ([`Catalog::taken_over_at`]). A replay finds
//!   the era of an entry by its number and does not ask when it ended. So no id is lost or counted twice,
//!   whatever the clocks show.
//! - Expired eras are dropped only after the time by which clocks may differ (`clock_ahead_max`).

use std::sync::atomic::{AtomicU64, Ordering};
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
    /// How far the clocks of stores that share the catalogue may differ.
    clocks_differ_max: Duration,
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

/// A cached reference to the current catalogue.
#[derive(Debug)]
pub struct TablesView(arc_swap::Cache<Arc<ArcSwap<Catalog>>, Arc<Catalog>>);

impl TablesView {
    /// The current catalogue.
    pub fn look(&mut self) -> &Arc<Catalog> {
        self.0.load()
    }
}

/// Attempts of a change that other stores are faster with.
const ATTEMPTS_MAX: usize = 16;

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
        let catalog = Arc::new(ArcSwap::new(catalog));
        let tables = Self { blobs, catalog, version: Mutex::new(version), clocks_differ_max: Duration::ZERO };
        if let Some(adopted) = tables.shared() {
            adopted.fetch_max(version, Ordering::Relaxed);
        }
        tables
    }

    /// For a catalogue that is shared with stores whose clocks differ by at most this.
    #[must_use]
    pub(crate) fn with_clocks_that_differ(self, clocks_differ_max: Duration) -> Self {
        Self { clocks_differ_max, ..self }
    }

    /// The version that the log names, if the catalogue is shared with other stores.
    pub(crate) fn shared(&self) -> Option<&AtomicU64> {
        self.blobs.shared_catalog()
    }

    /// A view of the catalogue that costs nearly nothing per look while no table changes.
    pub fn view(&self) -> TablesView {
        TablesView(arc_swap::Cache::new(Arc::clone(&self.catalog)))
    }

    /// The version of the current catalogue.
    pub fn version(&self) -> u64 {
        *self.freeze()
    }

    /// Adopts a later catalogue of another store, if there is one; this one has decided until `now`. Returns
    /// the version.
    pub fn refresh(&self, now: impl FnOnce() -> Timestamp) -> Result<u64, LogError> {
        let mut version = self.freeze();
        if self.shared().is_some() {
            self.adopt_later(&mut version, now)?;
        }
        Ok(*version)
    }

    fn adopt_later(&self, version: &mut u64, now: impl FnOnce() -> Timestamp) -> Result<(), LogError> {
        if let Some(blob) = self.blobs.get_blob(CATALOG)?.filter(|blob| blob.version > *version) {
            let next = self.catalog.load().adopt(&blob.bytes, now());
            let next = next.map_err(|error| LogError::Damaged(error.to_string()))?;
            self.publish(version, blob.version, next);
        }
        Ok(())
    }

    /// The log names a version before any entry is decided under it: who replays the entry adopts it first.
    fn publish(&self, version: &mut u64, next: u64, catalog: Catalog) -> Arc<Catalog> {
        if let Some(adopted) = self.shared() {
            adopted.fetch_max(next, Ordering::Relaxed);
        }
        *version = next;
        let catalog = Arc::new(catalog);
        self.catalog.store(catalog.clone());
        catalog
    }

    /// Prepares the catalogue for decisions after the log was taken over; `logged` is the latest time in it.
    pub(crate) fn take_over(&self, logged: Timestamp) {
        let mut version = self.freeze();
        if self.shared().is_some() {
            let kept = self.without_expired(&self.catalog.load(), logged);
            let catalog = kept.unwrap_or_else(|| Catalog::clone(&self.catalog.load())).taken_over_at(logged);
            let current = *version;
            self.publish(&mut version, current, catalog);
        }
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
        self.change(
            || now,
            |catalog| {
                if let Some(deleted) = catalog.reservation(name, now) {
                    let (name, until) =
                        (name.to_owned(), deleted.reserved_until.max(now.after(REMOVAL_PAUSE)));
                    return Err(TableError::NameReserved { name, until, now });
                }
                Ok(Some(catalog.create(name, settings.clone(), now)?))
            },
        )?;
        Ok(())
    }

    /// Deletes a table, durably. Its cells are removed later. No shard may accept an operation or prepare a
    /// branch of the table meanwhile. Returns the time until which its name is reserved.
    pub fn delete(&self, name: &str, now: impl Fn() -> Timestamp) -> Result<Timestamp, TableError> {
        let missing = || TableError::Refused(EngineError::NoSuchTable(name.into()));
        let (_, after) =
            self.change(&now, |catalog| catalog.delete(name, now()).map(Some).ok_or_else(missing))?;
        let deleted = after.reservation(name, Timestamp::ZERO);
        Ok(deleted.map(|deleted| deleted.reserved_until).unwrap_or_default())
    }

    /// Records, durably, that the cells of a deleted table are removed.
    pub fn set_removed(&self, table: TableId) -> Result<(), LogError> {
        self.change(|| Timestamp::ZERO, |catalog| Ok::<_, LogError>(Some(catalog.removed(table))))?;
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
        let expired = self.expired_by(logged);
        self.change(&now, |catalog| {
            let table = catalog.find(name).ok_or_else(|| EngineError::NoSuchTable(name.into()))?;
            // Expired eras are dropped first: the number of eras is limited.
            let current = table.without_past(expired);
            let table: &Table = current.as_ref().unwrap_or(table);
            // Read under the lock: the guarantees of the old settings extend to what they accept until now.
            Ok::<_, TableError>(Some(catalog.replaced(table.change(settings.clone(), now())?)))
        })?;
        Ok(())
    }

    /// Eras whose last record expired before this are dropped.
    fn expired_by(&self, logged: Timestamp) -> Timestamp {
        if self.shared().is_none() {
            return logged;
        }
        let differ = u64::try_from(self.clocks_differ_max.as_nanos()).unwrap_or(u64::MAX);
        Timestamp::from_nanos(logged.as_nanos().saturating_sub(differ))
    }

    fn without_expired(&self, catalog: &Catalog, logged: Timestamp) -> Option<Catalog> {
        let early = Duration::from_secs(if mutated!(DropErasEarly) { 600 } else { 0 });
        let expired = self.expired_by(logged).after(early);
        let changed: Vec<Table> = catalog.iter().filter_map(|table| table.without_past(expired)).collect();
        (!changed.is_empty()).then(|| changed.into_iter().fold(catalog.clone(), |all, one| all.replaced(one)))
    }

    /// Drops the eras that have expired by the time of the log, and returns their number. Their stored
    /// filters are emptied by the next versions of the filters. A shared catalogue is not changed in the
    /// blobs: each store drops them by its own time.
    pub fn drop_expired(&self, logged: Timestamp) -> Result<usize, LogError> {
        // Mostly there is nothing to do: check without the lock first.
        if self.without_expired(&self.catalog.load(), logged).is_none() {
            return Ok(0);
        }
        let eras = |catalog: &Catalog| catalog.iter().map(|table| table.eras().count()).sum::<usize>();
        if self.shared().is_some() {
            let mut version = self.freeze();
            let before = self.catalog.load_full();
            let Some(next) = self.without_expired(&before, logged) else { return Ok(0) };
            let current = *version;
            return Ok(eras(&before) - eras(&self.publish(&mut version, current, next)));
        }
        let without_expired = |catalog: &Catalog| Ok::<_, LogError>(self.without_expired(catalog, logged));
        let (before, after) = self.change(|| logged, without_expired)?;
        Ok(eras(&before) - eras(&after))
    }

    /// Stores and publishes the catalogue that `change` returns, if any. Returns the catalogues before and
    /// after. If another store has changed the shared catalogue, the change is repeated after that one, which
    /// is adopted at `now`.
    fn change<E: From<LogError>>(
        &self,
        now: impl Fn() -> Timestamp,
        change: impl Fn(&Catalog) -> Result<Option<Catalog>, E>,
    ) -> Result<(Arc<Catalog>, Arc<Catalog>), E> {
        let mut version = self.freeze();
        for _ in 0..ATTEMPTS_MAX {
            let before = self.catalog.load_full();
            let Some(next) = change(&before)? else { return Ok((before.clone(), before)) };
            let blob = Blob { version: *version + 1, bytes: Bytes::from(next.encode()) };
            if self.blobs.put_blob(CATALOG, &blob)? || self.shared().is_none() {
                return Ok((before, self.publish(&mut version, blob.version, next)));
            }
            self.adopt_later(&mut version, &now)?;
        }
        Err(LogError::Busy("other nodes change the tables".into()).into())
    }
}
