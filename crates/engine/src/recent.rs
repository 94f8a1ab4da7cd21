//! The ids that came last: what became of them, until the id index on disk has it.

use std::collections::{BTreeMap, HashMap};
use std::hash::{BuildHasherDefault, Hasher};
use std::sync::Arc;

use jeton_core::{Generation, IdKey, Remembered};

/// Ids and what became of them.
pub type Ids = HashMap<IdKey, RecentId, BuildHasherDefault<AsItIs>>;

/// What became of an id.
#[derive(Debug, Clone)]
pub struct RecentId {
    /// Where the index is to keep it.
    pub generation: Generation,
    /// The batch that took it.
    pub batch: u64,
    /// What became of it.
    pub remembered: Remembered,
}

/// The ids that the index does not have yet.
#[derive(Debug, Default)]
pub struct Recent {
    live: Ids,
    /// On their way to the index, by the number of their freeze.
    frozen: BTreeMap<u64, Arc<Ids>>,
    frozen_len: usize,
    freezes: u64,
    /// Memory to be used again: taking it anew from the system costs more than all the rest.
    spare: Option<Ids>,
}

impl Recent {
    /// What became of this id.
    pub fn get(&self, key: IdKey) -> Option<&RecentId> {
        self.live.get(&key).or_else(|| self.frozen.values().rev().find_map(|ids| ids.get(&key)))
    }

    /// Whether the id came since the last freeze; asked only to bring its place near.
    pub fn anticipate(&self, key: IdKey) -> bool {
        self.live.contains_key(&key)
    }

    /// Takes in an id.
    pub fn put(&mut self, key: IdKey, id: RecentId) {
        self.live.insert(key, id);
    }

    /// How many ids came since the last freeze.
    pub fn live_len(&self) -> usize {
        self.live.len()
    }

    /// How many ids are in memory.
    pub fn total_len(&self) -> usize {
        self.live.len() + self.frozen_len
    }

    /// Hands out the ids that came since the last freeze; they stay known here.
    pub fn freeze(&mut self) -> (u64, Arc<Ids>) {
        let ids = Arc::new(std::mem::replace(&mut self.live, self.spare.take().unwrap_or_default()));
        self.freezes += 1;
        self.frozen_len += ids.len();
        self.frozen.insert(self.freezes, ids.clone());
        (self.freezes, ids)
    }

    /// The index has the ids of this freeze.
    pub fn complete(&mut self, freeze: u64) {
        if let Some(ids) = self.frozen.remove(&freeze) {
            self.frozen_len -= ids.len();
            if let Ok(mut ids) = Arc::try_unwrap(ids) {
                ids.clear();
                self.spare = Some(ids);
            }
        }
    }
}

/// Keys are keyed hashes already: half of one is as good a hash as any.
#[derive(Debug, Default, Clone)]
pub struct AsItIs(u64);

impl Hasher for AsItIs {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, _: &[u8]) {
        unreachable!("only ids are hashed here");
    }

    fn write_u128(&mut self, key: u128) {
        // Not the half that the filter uses: its bits are what made the id a "maybe".
        self.0 = (key >> 64) as u64;
    }
}
