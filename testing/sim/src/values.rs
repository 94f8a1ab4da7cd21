//! The value store of the simulated machine: rows in memory that survive a crash.
//!
//! Invariant: after a crash exactly the completed calls of [`Values::replace`] are there, and possibly the
//! one in flight. Each call is an operation of the simulated disk, so the power can fail during it.

use std::collections::VecDeque;
use std::sync::{Mutex, PoisonError};

use jeton_engine::values::{CellKeys, MemoryValues, Rows, Values, ValuesError};
use jeton_wal::disk::{Disk, FaultDisk};

/// Number of earlier states for [`SimValues::roll_back`].
const EARLIER_MAX: usize = 6;

pub struct SimValues {
    state: Mutex<State>,
}

struct State {
    rows: MemoryValues,
    disk: FaultDisk,
    /// Whether a call in flight at a disk error takes effect.
    keep_torn: bool,
    refuses: bool,
    /// The latest is last.
    earlier: VecDeque<MemoryValues>,
}

impl SimValues {
    pub fn new(disk: FaultDisk) -> Self {
        let state = State {
            rows: MemoryValues::default(),
            disk,
            keep_torn: false,
            refuses: false,
            earlier: VecDeque::new(),
        };
        Self { state: Mutex::new(state) }
    }

    fn with<T>(&self, act: impl FnOnce(&mut State) -> T) -> T {
        act(&mut self.state.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// The machine restarted with this disk.
    pub fn move_to(&self, disk: FaultDisk) {
        self.with(|state| state.disk = disk);
    }

    pub fn set_keep_torn(&self, keep: bool) {
        self.with(|state| state.keep_torn = keep);
    }

    pub fn set_refuses(&self, refuses: bool) {
        self.with(|state| state.refuses = refuses);
    }

    /// Undoes the last calls, as if the store were restored from an old copy. Returns whether there were any.
    pub fn roll_back(&self, steps: usize) -> bool {
        self.with(|state| {
            let keep = state.earlier.len().saturating_sub(steps);
            let Some(rows) = state.earlier.drain(keep..).next() else { return false };
            state.rows = rows;
            true
        })
    }
}

impl Values for SimValues {
    fn get(&self, key: &[u8]) -> Result<Option<Vec<u8>>, ValuesError> {
        self.with(|state| state.rows.get(key))
    }

    fn scan(&self, first: u8, each: &mut dyn FnMut(&[u8], &[u8])) -> Result<(), ValuesError> {
        self.with(|state| state.rows.scan(first, each))
    }

    fn keys(&self, keys: &CellKeys, limit: usize, each: &mut dyn FnMut(&[u8])) -> Result<(), ValuesError> {
        self.with(|state| state.rows.keys(keys, limit, each))
    }

    fn replace(&self, rows: &Rows) -> Result<(), ValuesError> {
        self.with(|state| {
            if state.refuses {
                return Err(ValuesError("no room".into()));
            }
            let before = state.rows.copy();
            let synced = state.disk.sync_names("values");
            if synced.is_ok() || state.keep_torn {
                state.rows.replace(rows)?;
                state.earlier.push_back(before);
                if state.earlier.len() > EARLIER_MAX {
                    state.earlier.pop_front();
                }
            }
            synced.map_err(|error| ValuesError(error.to_string()))
        })
    }

    fn compact(&self, reached: u64) -> Result<bool, ValuesError> {
        self.with(|state| state.rows.compact(reached))
    }

    fn pending_compactions(&self) -> usize {
        0
    }
}
