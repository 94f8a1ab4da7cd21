//! The thread that tidies up: merges tables and runs, lets go of what has expired.

use std::sync::{Arc, Condvar, Mutex, PoisonError, RwLock};
use std::time::Duration;

use arc_swap::ArcSwap;
use jeton_core::Catalog;
use jeton_register::disk::Disk;

use crate::health::Health;
use crate::ids::{self, IdIndex};
use crate::shard::Stores;
use crate::values::{Values, ValuesError};

/// How often it looks for something to do when nobody wakes it.
const PAUSE: Duration = Duration::from_millis(250);

/// Bytes of runs that are merged before it looks at the tables again.
const MERGE_BYTES: u64 = 8 << 20;

/// Generations are dropped this long after they expired: threads may still work by a slightly earlier time.
const SLACK_MS: u64 = 60_000;

/// Lets the thread sleep until it is time to look, or to end.
#[derive(Debug, Default)]
pub(crate) struct Bell {
    ended: Mutex<bool>,
    rung: Condvar,
}

impl Bell {
    pub fn end(&self) {
        *self.ended.lock().unwrap_or_else(PoisonError::into_inner) = true;
        self.rung.notify_all();
    }

    /// Waits; false when it is time to end.
    fn wait(&self) -> bool {
        let ended = self.ended.lock().unwrap_or_else(PoisonError::into_inner);
        let waited = self.rung.wait_timeout_while(ended, PAUSE, |ended| !*ended);
        let (ended, _) = waited.unwrap_or_else(PoisonError::into_inner);
        !*ended
    }
}

pub(crate) struct Upkeep<V, D: Disk> {
    pub stores: Stores<V, D>,
    pub catalog: Arc<ArcSwap<Catalog>>,
    pub health: Arc<Health>,
    pub stores_in_use: Arc<RwLock<()>>,
    pub bell: Arc<Bell>,
}

#[derive(Debug, thiserror::Error)]
enum Trouble {
    #[error(transparent)]
    Values(#[from] ValuesError),
    #[error("id index: {0}")]
    Ids(#[from] ids::Error),
}

impl<V: Values, D: Disk> Upkeep<V, D> {
    pub fn run(self) {
        while self.bell.wait() {
            if let Err(trouble) = self.tidy() {
                // Reads and writes go on without; the reason is shown, and it is tried again.
                self.health.set_upkeep_trouble(Some(trouble.to_string()));
            } else {
                self.health.set_upkeep_trouble(None);
            }
        }
    }

    fn tidy(&self) -> Result<(), Trouble> {
        // Not the clock's: what is forgotten by a time that no entry has can be asked for again after a restart with the clock set
        // back, and would be new.
        let now = self.health.logged_time();
        for table in self.catalog.load().iter() {
            for era in table.eras() {
                era.maintain(now);
            }
        }
        {
            let _in_use = self.stores_in_use.read();
            self.index().drop_expired((now.as_nanos() / 1_000_000).saturating_sub(SLACK_MS))?;
        }
        // One piece at a time, so that a backup need not wait for all of it.
        loop {
            let _in_use = self.stores_in_use.read();
            // Neither waits for the other to be well.
            let (tidied, merged) = (self.stores.values.tidy(), self.index().merge(MERGE_BYTES));
            let more = tidied? | merged?;
            if !more || self.health.closing() {
                return Ok(());
            }
        }
    }

    fn index(&self) -> &IdIndex<D> {
        &self.stores.ids
    }
}
