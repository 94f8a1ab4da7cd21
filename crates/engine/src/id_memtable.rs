//! The id memtable: the dedup records that the id index on disk lacks.
//!
//! Records are stored in the encoding of the index, in the order of arrival, and found through a hash index.
//! So an insertion appends to two buffers, an id costs about 80 bytes instead of twice as many, and nothing
//! is encoded again when the ids are stored.

use std::collections::BTreeMap;
use std::sync::Arc;

use hashbrown::HashTable;
use hashbrown::hash_table::Entry;
use jeton_core::{DedupRecord, Generation, IdKey};

/// Ids and their dedup records, in the order of arrival.
#[derive(Debug, Default)]
pub struct Ids {
    places: HashTable<u32>,
    heads: Vec<Head>,
    /// The encoded records, concatenated.
    remembered: Vec<u8>,
}

#[derive(Debug, Clone, Copy)]
struct Head {
    key: IdKey,
    /// The generation in the id index.
    generation: Generation,
    /// The batch that accepted the id.
    batch: u64,
    /// Offset of its record; the record ends where the next begins.
    begins: usize,
}

/// Keys are keyed hashes already, so half of a key is a good hash. Not the half that the filter uses: its
/// bits made the id a filter hit.
fn hash(key: IdKey) -> u64 {
    (key.0 >> 64) as u64
}

impl Ids {
    fn find(&self, key: IdKey) -> Option<u32> {
        self.places.find(hash(key), |at| self.heads[*at as usize].key == key).copied()
    }

    fn get(&self, key: IdKey) -> Option<(&[u8], u64)> {
        let at = self.find(key)? as usize;
        Some((self.bytes(at), self.heads[at].batch))
    }

    fn bytes(&self, at: usize) -> &[u8] {
        let end = self.heads.get(at + 1).map_or(self.remembered.len(), |next| next.begins);
        &self.remembered[self.heads[at].begins..end]
    }

    /// Inserts an id. An id that is here already was used again after its window, in a later generation,
    /// which replaces it.
    fn put(&mut self, key: IdKey, generation: Generation, batch: u64, remembered: &DedupRecord) {
        let Self { places, heads, .. } = self;
        let at = u32::try_from(heads.len()).expect("fewer than 2^32 ids wait for the index");
        let is_it = |at: &u32| heads[*at as usize].key == key;
        match places.entry(hash(key), is_it, |at| hash(heads[*at as usize].key)) {
            Entry::Vacant(place) => drop(place.insert(at)),
            Entry::Occupied(mut place) => *place.get_mut() = at,
        }
        heads.push(Head { key, generation, batch, begins: self.remembered.len() });
        remembered.encode(&mut self.remembered);
    }

    pub fn len(&self) -> usize {
        self.heads.len()
    }

    /// The ids with their records, in the order of arrival.
    pub fn iter(&self) -> impl Iterator<Item = (IdKey, Generation, &[u8])> {
        self.heads.iter().enumerate().map(|(at, head)| (head.key, head.generation, self.bytes(at)))
    }

    fn clear(&mut self) {
        self.places.clear();
        self.heads.clear();
        self.remembered.clear();
    }
}

/// The ids that the index does not have yet.
#[derive(Debug, Default)]
pub struct IdMemtable {
    live: Ids,
    /// Ids on their way to the index, by the number of their freeze.
    frozen: BTreeMap<u64, Arc<Ids>>,
    frozen_len: usize,
    freezes: u64,
    /// Buffers to be reused: allocating them anew costs more than all the rest.
    spare: Option<Ids>,
}

impl IdMemtable {
    /// The encoded record of an id, and the batch that accepted it.
    pub fn get(&self, key: IdKey) -> Option<(&[u8], u64)> {
        self.live.get(key).or_else(|| self.frozen.values().rev().find_map(|ids| ids.get(key)))
    }

    /// Whether the id arrived since the last freeze; called only to prefetch its place.
    pub fn prefetch(&self, key: IdKey) -> bool {
        self.live.find(key).is_some()
    }

    pub fn put(&mut self, key: IdKey, generation: Generation, batch: u64, remembered: &DedupRecord) {
        self.live.put(key, generation, batch, remembered);
    }

    /// Number of ids since the last freeze.
    pub fn live_len(&self) -> usize {
        self.live.len()
    }

    pub fn total_len(&self) -> usize {
        self.live.len() + self.frozen_len
    }

    /// Hands out the ids since the last freeze; they can still be looked up here.
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

#[cfg(test)]
mod tests {
    use jeton_core::{OperationResult, PayloadHash, Values};

    use super::*;

    fn remembered(number: u64) -> DedupRecord {
        let answer = OperationResult {
            applied: true,
            slot: number,
            millis: 1,
            values: Values::One(Some(i64::try_from(number).expect("small"))),
        };
        DedupRecord { payload: PayloadHash(number), answer }
    }

    /// Keys that collide in the hash index.
    fn key(number: u64) -> IdKey {
        IdKey(u128::from(number))
    }

    #[test]
    fn ids_are_found_until_the_index_has_them() {
        let mut recent = IdMemtable::default();
        let known = |recent: &IdMemtable, number: u64| {
            recent.get(key(number)).map(|(bytes, batch)| (DedupRecord::decode(bytes).expect("whole"), batch))
        };
        for number in 0..300 {
            recent.put(key(number), Generation(number % 3), number, &remembered(number));
        }
        let (first, ids) = recent.freeze();
        for number in 300..500 {
            recent.put(key(number), Generation(0), number, &remembered(number));
        }
        assert_eq!((recent.live_len(), recent.total_len()), (200, 500));
        for number in 0..500 {
            assert_eq!(known(&recent, number), Some((remembered(number), number)));
        }
        assert_eq!(known(&recent, 500), None);
        for ((id, generation, bytes), number) in ids.iter().zip(0..) {
            assert_eq!((id, generation), (key(number), Generation(number % 3)));
            assert_eq!(DedupRecord::decode(bytes), Ok(remembered(number)));
        }
        drop(ids);
        recent.complete(first);
        assert_eq!(recent.total_len(), 200);
        assert_eq!((known(&recent, 299), known(&recent, 300)), (None, Some((remembered(300), 300))));
        // The buffers of the first freeze are reused, and hold none of its ids.
        let (_, second) = recent.freeze();
        assert_eq!(second.len(), 200);
        assert_eq!((recent.live_len(), known(&recent, 5)), (0, None));
    }

    #[test]
    fn a_reused_id_is_found_in_the_later_generation() {
        let mut recent = IdMemtable::default();
        recent.put(key(1), Generation(0), 1, &remembered(1));
        recent.put(key(1), Generation(9), 2, &remembered(2));
        let (bytes, batch) = recent.get(key(1)).expect("known");
        assert_eq!((DedupRecord::decode(bytes), batch), (Ok(remembered(2)), 2));
        let (_, ids) = recent.freeze();
        let generations: Vec<u64> = ids.iter().map(|(_, generation, _)| generation.0).collect();
        assert_eq!(generations, [0, 9]);
    }
}
