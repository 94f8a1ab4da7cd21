//! The maintenance thread: compacts values and ids, drops expired data.

use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::sync::{Arc, RwLock};
use std::time::Duration;

use jeton_wal::Error as LogError;
use jeton_wal::disk::Disk;

use crate::catalog_store::Tables;
use crate::clock::{StoreTime, SystemClock};
use crate::health::Health;
use crate::ids;
use crate::partition_log::BlobStore;
use crate::shard::Stores;
use crate::values::{Values, ValuesError};

/// Interval between rounds.
const PAUSE: Duration = Duration::from_millis(250);

/// Bytes of runs that it merges before it looks at the value store again.
const MERGE_BYTES: u64 = 8 << 20;

/// Generations are dropped this long after they expired, because other threads may use a slightly earlier
/// time.
const SLACK_MS: u64 = 60_000;

pub(crate) struct Maintenance<B, V, D: Disk> {
    pub stores: Stores<V, D>,
    pub tables: Arc<Tables<B>>,
    pub time: Arc<StoreTime<SystemClock>>,
    pub health: Arc<Health>,
    pub stores_in_use: Arc<RwLock<()>>,
    /// Disconnected when the engine closes.
    pub stopped: Receiver<()>,
}

#[derive(Debug, thiserror::Error)]
enum MaintenanceError {
    #[error(transparent)]
    Values(#[from] ValuesError),
    #[error("id index: {0}")]
    Ids(#[from] ids::Error),
    #[error("expired eras: {0}")]
    Eras(#[from] LogError),
    #[error("tables: {0}")]
    Tables(LogError),
}

impl<B: BlobStore, V: Values, D: Disk> Maintenance<B, V, D> {
    pub fn run(self) {
        while self.stopped.recv_timeout(PAUSE) == Err(RecvTimeoutError::Timeout) {
            // After an error reads and writes continue, and the next round retries.
            self.health.set_maintenance_error(self.run_once().err().map(|error| error.to_string()));
        }
    }

    fn run_once(&self) -> Result<(), MaintenanceError> {
        // The time of the log, not of the clock: an id dropped by a time that no entry has could be new again
        // after a restart with the clock set back.
        let now = self.health.logged_time();
        let millis = now.as_nanos() / 1_000_000;
        for table in self.tables.catalog().load().iter() {
            for era in table.eras() {
                era.maintain(now);
            }
        }
        // An error here does not stop the rest of the round.
        let refreshed = match self.health.take_tables_behind() {
            true => self.tables.refresh(|| self.time.now()).map(drop),
            false => Ok(()),
        };
        // Until this node takes over, it does not know when an era ended.
        let eras_dropped = if self.health.following() { Ok(0) } else { self.tables.drop_expired(now) };
        {
            let _in_use = self.stores_in_use.read();
            self.stores.ids.drop_expired(millis.saturating_sub(SLACK_MS))?;
        }
        // One piece at a time, so that a backup does not wait for all of it.
        loop {
            let _in_use = self.stores_in_use.read();
            let expired = self.health.expiry_horizon().as_nanos() / 1_000_000;
            // An error in one does not stop the other.
            let values = self.stores.values.compact(expired);
            let ids = self.stores.ids.merge(MERGE_BYTES);
            self.health.compacted();
            let more = values? | ids?;
            if !more || self.health.closing() {
                eras_dropped?;
                return refreshed.map_err(MaintenanceError::Tables);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use jeton_core::{Catalog, Format, Formats, TableSettings, Timestamp};
    use jeton_wal::disk::FaultDisk;
    use jeton_wal::{Blob, Wal};

    use super::*;
    use crate::ids::IdIndex;
    use crate::recovery::CATALOG;
    use crate::values::MemoryValues;

    const START: u64 = 1_700_000_000;

    #[derive(Debug, Clone, Copy, PartialEq)]
    enum BlobFault {
        None,
        /// A blob is not stored.
        Refused,
        /// A blob is stored, and the response is lost.
        Lost,
    }

    /// Blobs of a WAL, with injected faults.
    struct FaultyBlobs {
        wal: Wal<FaultDisk>,
        fault: std::sync::Mutex<BlobFault>,
        /// If other stores share the catalogue.
        shared: Option<std::sync::atomic::AtomicU64>,
    }

    impl BlobStore for FaultyBlobs {
        fn put_blob(&self, name: &str, blob: &Blob) -> Result<bool, LogError> {
            let fault = *self.fault.lock().unwrap();
            if fault == BlobFault::Refused {
                return Err(LogError::Full("injected".into()));
            }
            let stored = self.wal.put_blob(name, blob)?;
            if fault == BlobFault::Lost { Err(LogError::Unknown("injected".into())) } else { Ok(stored) }
        }

        fn get_blob(&self, name: &str) -> Result<Option<Blob>, LogError> {
            self.wal.get_blob(name)
        }

        fn shared_catalog(&self) -> Option<&std::sync::atomic::AtomicU64> {
            self.shared.as_ref()
        }
    }

    struct Scenario {
        blobs: Arc<FaultyBlobs>,
        maintenance: Maintenance<FaultyBlobs, MemoryValues, FaultDisk>,
    }

    fn settings(window: u64) -> TableSettings {
        let (formats, window) = (Formats::only(Format::Opaque), Duration::from_secs(window));
        TableSettings {
            formats,
            dated_window: window,
            opaque_window: window,
            skew: Duration::ZERO,
            ..TableSettings::default()
        }
    }

    impl Scenario {
        /// Three tables of two eras each; the windows of the earlier eras are one, two and three hours.
        fn new(shared: bool) -> Self {
            let wal = Wal::open(FaultDisk::new(), jeton_wal::Options::small(64 << 10)).unwrap();
            let blobs = Arc::new(FaultyBlobs {
                wal,
                fault: BlobFault::None.into(),
                shared: shared.then(Default::default),
            });
            let (ids, _) = IdIndex::open(Arc::new(FaultDisk::new()), "ids").unwrap();
            let tables = Tables::new(blobs.clone(), Arc::default(), 0);
            let tables = tables.with_clocks_that_differ(Duration::from_secs(3_600));
            for (name, hours) in [("one", 1), ("two", 2), ("three", 3)] {
                tables.create(name, settings(3_600 * hours), Timestamp::ZERO).unwrap();
                tables.alter(name, settings(60), || Timestamp::from_secs(START), Timestamp::ZERO).unwrap();
            }
            let maintenance = Maintenance {
                stores: Stores { values: Arc::new(MemoryValues::default()), ids: Arc::new(ids) },
                tables: Arc::new(tables),
                time: Arc::new(StoreTime::follow(SystemClock::default(), Timestamp::ZERO)),
                health: Arc::new(Health::new(1, 0, Timestamp::from_secs(START))),
                stores_in_use: Arc::default(),
                stopped: std::sync::mpsc::channel().1,
            };
            Self { blobs, maintenance }
        }

        /// Makes the time of the log `hours` hours after the start.
        fn reach(&self, hours: f64) {
            let time = Timestamp::from_secs(START).after(Duration::from_secs_f64(hours * 3_600.0));
            self.maintenance.health.reached(time);
        }

        /// The number of eras of each table, in memory and as stored.
        fn eras(&self) -> (Vec<usize>, Vec<usize>) {
            let count = |catalog: &Catalog| catalog.iter().map(|table| table.eras().count()).collect();
            let row = self.blobs.get_blob(CATALOG).unwrap().unwrap();
            let stored = Catalog::decode(&row.bytes).unwrap();
            (count(&self.maintenance.tables.catalog().load()), count(&stored))
        }
    }

    #[test]
    fn eras_are_dropped_by_log_time() {
        let scenario = Scenario::new(false);
        for (hours, left) in [(0.0, [2, 2, 2]), (1.1, [2, 2, 2]), (1.2, [1, 2, 2]), (4.0, [1, 1, 1])] {
            scenario.reach(hours);
            scenario.maintenance.run_once().unwrap();
            assert_eq!(scenario.eras(), (left.into(), left.into()), "after {hours} hours");
        }
        // Versions continue from there.
        let tables = &scenario.maintenance.tables;
        tables.alter("two", settings(9), || Timestamp::from_secs(START), Timestamp::ZERO).unwrap();
        assert_eq!(scenario.eras(), (vec![1, 2, 1], vec![1, 2, 1]));
    }

    /// Other stores may need what this one drops, and a follower does not know when an era ended.
    #[test]
    fn eras_of_a_shared_catalogue_are_dropped_in_memory() {
        let scenario = Scenario::new(true);
        // An hour later than without another clock.
        for (hours, following, left) in [(2.1, false, 2), (2.2, true, 2), (2.2, false, 1)] {
            scenario.reach(hours);
            scenario.maintenance.health.set_following(following);
            scenario.maintenance.run_once().unwrap();
            assert_eq!(scenario.eras(), (vec![left, 2, 2], vec![2, 2, 2]), "after {hours} hours");
        }
    }

    #[test]
    fn failed_era_drop_is_reported_and_retried() {
        // If the response is lost, it is unknown whether the write was stored; until it is known, the change
        // stays invisible.
        for (fault, stored) in [(BlobFault::Refused, vec![2, 2, 2]), (BlobFault::Lost, vec![1, 2, 2])] {
            let scenario = Scenario::new(false);
            scenario.reach(1.2);
            *scenario.blobs.fault.lock().unwrap() = fault;
            let error = scenario.maintenance.run_once().unwrap_err();
            assert!(error.to_string().contains("eras"), "{error}");
            *scenario.blobs.fault.lock().unwrap() = BlobFault::None;
            assert_eq!(scenario.eras(), (vec![2, 2, 2], stored));
            scenario.maintenance.run_once().unwrap();
            assert_eq!(scenario.eras(), (vec![1, 2, 2], vec![1, 2, 2]));
        }
    }
}
