//! The cell cache: bounded memory in front of the value store.
//!
//! Invariant: a cell whose latest state is not in the store is in the cache, and stays until a checkpoint
//! that includes it is complete. Only cells that the store has too are evicted.
//!
//! A checkpoint shows all cells as of its freeze. Copying them takes too long for one step, so it is done
//! incrementally between requests; a cell that changes before it was copied is copied first.

use std::hash::BuildHasher;

use hashbrown::{DefaultHashBuilder, HashTable};
use jeton_core::{Cell, Value, mutated};

use crate::values::{Rows, cell_key};

/// Bytes of a slot apart from heap bytes of cell and value: the slot itself and its index entry.
const SLOT_BYTES: usize = size_of::<Slot>() + 8;

/// Slots that the clock hand inspects for each insertion. The hand needs two rounds, the first of which
/// clears the used bits; so the cache may exceed its budget by a few percent.
const EVICT_STEPS: usize = 64;

#[derive(Debug)]
pub struct Cache {
    places: HashTable<u32>,
    hasher: DefaultHashBuilder,
    slots: Vec<Slot>,
    free: Vec<u32>,
    /// Slots that changed since the last freeze.
    dirty: Vec<u32>,
    /// Slots that the last freeze has yet to copy. Those that changed since are copied already.
    freezing: Vec<u32>,
    frozen: Rows,
    hand: usize,
    bytes: usize,
    dirty_bytes: usize,
    budget: usize,
    /// Checkpoints up to this one are complete.
    complete: u64,
    /// The checkpoint of the next freeze.
    next: u64,
    /// Slot of the last hit: a cell that is read is usually written next.
    last: u32,
}

#[derive(Debug)]
struct Slot {
    /// `None` if the slot is free.
    cell: Option<Cell>,
    value: Option<Value>,
    /// The batch that changed it last.
    batch: u64,
    /// The checkpoint that will include its latest state.
    checkpoint: u64,
    /// Whether that checkpoint has copied it.
    copied: bool,
    /// Used since the clock hand last passed.
    used: bool,
}

impl Slot {
    fn cost(&self) -> usize {
        let cell = self.cell.as_ref().map_or(0, Cell::heap_bytes);
        SLOT_BYTES + cell + self.value.as_ref().map_or(0, Value::heap_bytes)
    }

    /// A slot whose state the store has.
    fn stored(cell: &Cell, value: Option<Value>, batch: u64) -> Self {
        Self { cell: Some(cell.clone()), value, batch, checkpoint: 0, copied: true, used: true }
    }

    /// Copies the row unless it is copied already.
    fn copy(&mut self, rows: &mut Rows) {
        if let (false, Some(cell)) = (self.copied, &self.cell) {
            let content = self.value.as_ref().map(|value| |out: &mut Vec<u8>| value.encode(out));
            rows.push(|out| cell_key(cell, out), content);
            self.copied = true;
        }
    }
}

impl Cache {
    /// A cache that keeps about `budget` bytes of cells that the store has too.
    pub fn new(budget: usize) -> Self {
        Self {
            places: HashTable::new(),
            hasher: DefaultHashBuilder::default(),
            slots: Vec::new(),
            free: Vec::new(),
            dirty: Vec::new(),
            freezing: Vec::new(),
            frozen: Rows::default(),
            hand: 0,
            bytes: 0,
            dirty_bytes: 0,
            budget,
            complete: 0,
            next: 1,
            last: 0,
        }
    }

    fn find(&mut self, cell: &Cell) -> Option<u32> {
        let last = self.slots.get(self.last as usize);
        if last.is_some_and(|slot| slot.cell.as_ref() == Some(cell)) {
            return Some(self.last);
        }
        self.last = self.locate(cell)?;
        Some(self.last)
    }

    fn locate(&self, cell: &Cell) -> Option<u32> {
        let is_it =
            |at: &u32| self.slots.get(*at as usize).is_some_and(|slot| slot.cell.as_ref() == Some(cell));
        self.places.find(self.hasher.hash_one(cell), is_it).copied()
    }

    /// The slot that may hold the cell, by a look at the hash index only. Called for many cells in a row, the
    /// processor overlaps the cache misses.
    pub fn guess(&self, cell: &Cell) -> Option<u32> {
        self.places.find(self.hasher.hash_one(cell), |_| true).copied()
    }

    /// Prefetches a slot. Called for many in a row, as [`guess`](Self::guess).
    pub fn prefetch(&self, at: u32) {
        std::hint::black_box(self.slots.get(at as usize).map(|slot| (slot.batch, slot.used)));
    }

    /// The next lookup may hit this slot. A wrong hint is harmless.
    pub fn hint(&mut self, at: u32) {
        self.last = at;
    }

    /// The content of the cell and the batch that changed it last; `None` if it is not cached.
    pub fn get(&mut self, cell: &Cell) -> Option<(Option<&Value>, u64)> {
        let at = self.find(cell)?;
        let slot = &mut self.slots[at as usize];
        slot.used = true;
        Some((slot.value.as_ref(), slot.batch))
    }

    /// Inserts a cell as read from the store.
    pub fn fill(&mut self, cell: &Cell, value: Option<Value>) {
        debug_assert!(self.find(cell).is_none(), "what is in the cache is newer than the store");
        self.insert(Slot::stored(cell, value, 0));
        self.evict();
    }

    /// Sets the content of a cell, changed by this batch.
    pub fn put(&mut self, cell: &Cell, value: Option<Value>, batch: u64) {
        let found = self.find(cell);
        let at = found.unwrap_or_else(|| self.insert(Slot::stored(cell, None, batch)));
        let next = self.next;
        let slot = &mut self.slots[at as usize];
        let before = slot.cost();
        let dirty = slot.checkpoint == next;
        if !dirty {
            slot.copy(&mut self.frozen);
            (slot.checkpoint, slot.copied) = (next, false);
        }
        (slot.value, slot.batch, slot.used) = (value, batch, true);
        let after = slot.cost();
        self.bytes = self.bytes + after - before;
        if dirty {
            self.dirty_bytes = self.dirty_bytes + after - before;
        } else {
            self.dirty.push(at);
            self.dirty_bytes += after;
        }
        if found.is_none() {
            self.evict();
        }
    }

    fn insert(&mut self, slot: Slot) -> u32 {
        self.bytes += slot.cost();
        let hash = slot.cell.as_ref().map_or(0, |cell| self.hasher.hash_one(cell));
        let at = match self.free.pop() {
            Some(at) => {
                self.slots[at as usize] = slot;
                at
            }
            None => {
                self.slots.push(slot);
                u32::try_from(self.slots.len() - 1).expect("a cache of fewer than 2^32 cells")
            }
        };
        let (slots, hasher) = (&self.slots, &self.hasher);
        self.places.insert_unique(hash, at, |at| {
            slots[*at as usize].cell.as_ref().map_or(0, |cell| hasher.hash_one(cell))
        });
        at
    }

    /// Evicts cells that the store has, least recently used first, until the budget is met. Inspects a few
    /// slots per call, so that no request waits long, and a cache without evictable cells is not scanned
    /// again and again.
    fn evict(&mut self) {
        for _ in 0..EVICT_STEPS.min(self.slots.len()) {
            if self.bytes <= self.budget {
                return;
            }
            self.hand = (self.hand + 1) % self.slots.len();
            let slot = &mut self.slots[self.hand];
            let needed = slot.checkpoint > self.complete;
            if slot.cell.is_none() || needed && !mutated!(EvictDirty) {
                continue;
            }
            if std::mem::take(&mut slot.used) {
                continue;
            }
            self.bytes -= slot.cost();
            let Some(cell) = slot.cell.take() else { continue };
            slot.value = None;
            let (hash, hand) = (self.hasher.hash_one(&cell), self.hand as u32);
            if let Ok(entry) = self.places.find_entry(hash, |at| *at == hand) {
                entry.remove();
            }
            self.free.push(hand);
        }
    }

    /// Bytes of cells whose latest state is neither in the store nor in a freeze.
    pub fn dirty_bytes(&self) -> usize {
        self.dirty_bytes
    }

    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Freezes everything that changed since the last freeze, for the checkpoint whose number is returned.
    /// [`copy_some`](Self::copy_some) copies it.
    pub fn freeze(&mut self) -> u64 {
        assert!(self.freezing.is_empty(), "one freeze at a time");
        std::mem::swap(&mut self.dirty, &mut self.freezing);
        self.dirty_bytes = 0;
        self.next += 1;
        self.next - 1
    }

    /// Copies some of the frozen cells; true when all are copied.
    pub fn copy_some(&mut self, cells: usize) -> bool {
        let frozen = self.next - 1;
        for at in self.freezing.drain(self.freezing.len().saturating_sub(cells)..) {
            let slot = &mut self.slots[at as usize];
            if slot.checkpoint == frozen {
                slot.copy(&mut self.frozen);
            }
        }
        self.freezing.is_empty()
    }

    /// The rows of the last freeze, once all are copied.
    pub fn take_frozen(&mut self) -> Rows {
        assert!(self.freezing.is_empty(), "rows are missing");
        std::mem::take(&mut self.frozen)
    }

    /// The store has everything up to this checkpoint.
    pub fn complete(&mut self, checkpoint: u64) {
        assert!(checkpoint < self.next, "a checkpoint is complete that was never frozen");
        assert!(self.freezing.is_empty(), "a checkpoint is complete that was never copied");
        self.complete = self.complete.max(checkpoint);
        self.evict();
    }
}

#[cfg(test)]
mod tests {
    use jeton_core::{Column, Secret, TableId};

    use super::*;

    fn cell(number: i64) -> Cell {
        let row = number.to_be_bytes();
        Cell::new(&Secret::new([1; 16]), TableId(1), &row, &Column::unnamed()).expect("a cell")
    }

    fn holds(cache: &mut Cache, number: i64) -> bool {
        cache.get(&cell(number)).is_some()
    }

    /// A cache for about `cells` cells.
    fn cache(cells: usize) -> Cache {
        Cache::new(cells * SLOT_BYTES)
    }

    /// Values with an expiry time count like others; otherwise the cache would have no limit.
    #[test]
    fn heap_bytes_count_with_and_without_expiry() {
        let weigh = |value: Value| {
            let mut cache = Cache::new(1 << 20);
            cache.put(&cell(1), Some(value), 1);
            cache.bytes()
        };
        let bytes = Value::Bytes(vec![0; 10_000].into());
        assert!(weigh(bytes.clone()) >= weigh(Value::Counter(1)) + 10_000);
        assert!(weigh(bytes.clone().lasting(Some(7))) > weigh(bytes));
    }

    #[test]
    fn stored_cells_are_evicted_beyond_the_budget() {
        let mut cache = cache(1_000);
        for number in 0..100_000 {
            cache.fill(&cell(number), Some(Value::Counter(number)));
            assert!(cache.bytes() <= 1_100 * SLOT_BYTES, "{} cells", cache.bytes() / SLOT_BYTES);
            // A cell that is in constant use stays.
            assert!(holds(&mut cache, 0), "after {number}");
        }
        let kept = (0..100_000).filter(|number| holds(&mut cache, *number)).count();
        assert!((900..=1_100).contains(&kept), "{kept}");
    }

    #[test]
    fn unstored_cells_are_never_evicted() {
        let mut cache = cache(10);
        for number in 0..1_000 {
            cache.put(&cell(number), Some(Value::Counter(number)), 1);
        }
        let first = cache.freeze();
        assert!(!cache.copy_some(300));
        for number in 0..500 {
            cache.put(&cell(number), Some(Value::Counter(-number)), 2);
        }
        assert!(cache.copy_some(700));
        assert_eq!(counters(cache.take_frozen()), (0..1_000).collect::<Vec<_>>());
        let lacking = |cache: &mut Cache, numbers: std::ops::Range<i64>| {
            numbers.filter(|number| !holds(cache, *number)).count()
        };
        let fill = |cache: &mut Cache, numbers: std::ops::Range<i64>| {
            numbers.for_each(|number| cache.fill(&cell(number), None));
        };
        fill(&mut cache, 1_000..2_000);
        assert_eq!(lacking(&mut cache, 0..1_000), 0, "frozen is not stored");
        cache.complete(first);
        fill(&mut cache, 2_000..3_000);
        assert_eq!(lacking(&mut cache, 0..500), 0, "changed since the freeze");
        assert!(lacking(&mut cache, 500..1_000) > 400, "these the store has");
        assert_eq!(cache.get(&cell(7)).map(|(value, batch)| (value.cloned(), batch)), {
            Some((Some(Value::Counter(-7)), 2))
        });
        cache.freeze();
        assert!(cache.copy_some(usize::MAX));
        let changed: Vec<i64> = (0..500).map(|number| -number).rev().collect();
        assert_eq!(counters(cache.take_frozen()), changed);
    }

    #[test]
    fn a_freeze_has_the_changes_since_the_last_as_of_then() {
        let mut cache = cache(1_000);
        let freeze = |cache: &mut Cache| {
            let number = cache.freeze();
            (number, cache.copy_some(1))
        };
        cache.put(&cell(1), Some(Value::Counter(10)), 1);
        cache.put(&cell(2), Some(Value::Counter(20)), 1);
        let (first, whole) = freeze(&mut cache);
        assert!(!whole);
        // Both change; one was copied, the other not. One changes twice.
        for value in [11, 12] {
            cache.put(&cell(1), Some(Value::Counter(value)), 2);
        }
        cache.put(&cell(2), None, 2);
        assert!(cache.copy_some(1));
        assert_eq!(counters(cache.take_frozen()), [10, 20]);
        cache.complete(first);
        let (second, whole) = freeze(&mut cache);
        assert!(!whole && cache.copy_some(9));
        let rows = cache.take_frozen();
        assert_eq!(rows.iter().filter(|(_, row)| row.is_none()).count(), 1, "the one that was emptied");
        assert_eq!(counters(rows), [12]);
        cache.complete(second);
        assert_eq!((freeze(&mut cache).1, cache.dirty_bytes()), (true, 0));
        assert!(cache.take_frozen().is_empty());
    }

    /// The counters in rows, sorted.
    fn counters(rows: Rows) -> Vec<i64> {
        let value = |row: &[u8]| Value::decode(&mut jeton_core::codec::Reader::new(row)).expect("a value");
        let mut counters: Vec<i64> =
            rows.iter().filter_map(|(_, row)| row).filter_map(|row| value(row).counter()).collect();
        counters.sort_unstable();
        counters
    }
}
