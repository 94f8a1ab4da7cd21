//! The value store of the simulated machine: rows in memory that survive a crash, as far as their steps were complete.
//!
//! What must hold: after a crash exactly the completed [`Values::replace`]s are there, and possibly the one in flight. Each
//! counts as an operation of the simulated disk, so that the power can fail during it, and the disk refuse it.

use std::collections::VecDeque;
use std::sync::{Mutex, PoisonError};

use jeton_engine::values::{CellKeys, MemoryValues, Rows, Values, ValuesError};
use jeton_wal::disk::{Disk, FaultDisk};

/// How many earlier states are kept, for a store that forgets its last steps.
const EARLIER_MAX: usize = 6;

/// Rows that survive a crash.
pub struct SimValues {
    state: Mutex<State>,
}

struct State {
    rows: MemoryValues,
    disk: FaultDisk,
    /// Whether a step in flight at a disk error took effect. The scheduler draws it for each step.
    keep_torn: bool,
    refuses: bool,
    /// The latest last.
    earlier: VecDeque<MemoryValues>,
}

impl SimValues {
    /// An empty store on this disk.
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

    /// The machine was started again, with this handle of its disk.
    pub fn move_to(&self, disk: FaultDisk) {
        self.with(|state| state.disk = disk);
    }

    /// Whether a step that fails was made all the same.
    pub fn set_keep_torn(&self, keep: bool) {
        self.with(|state| state.keep_torn = keep);
    }

    /// Whether every step is refused.
    pub fn set_refuses(&self, refuses: bool) {
        self.with(|state| state.refuses = refuses);
    }

    /// Forgets the last steps, as a store does that was restored from an old copy. Whether there were any.
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
