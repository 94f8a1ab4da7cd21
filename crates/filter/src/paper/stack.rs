//! The constituent filters, newest first, as lanes of blocks of cache lines.
//!
//! Eight filters share a block: bit `p` of the filter in lane `l` is bit `p % 64` of word `l` of line `p / 64`.
//! What must hold: a filter that enters the stack is empty, and moving through the roles copies nothing.

use std::collections::{BTreeSet, VecDeque};

use super::settings::PaperError;
use crate::line::{Access, Exclusive, LANES, LINE_BYTES, Lines};
use crate::sync::Ordering;

const WORD_BITS: usize = 64;

/// A lane, counted over all blocks.
type Slot = usize;

pub(super) struct Stack {
    rows: usize,
    blocks: Vec<Lines>,
    /// Index 0 is the future, 1 the present, 2 the newest past.
    order: VecDeque<Slot>,
    free: BTreeSet<Slot>,
}

impl Stack {
    pub(super) fn new(bits: usize, filters: usize) -> Result<Self, PaperError> {
        let mut stack = Self {
            rows: bits.div_ceil(WORD_BITS),
            blocks: Vec::new(),
            order: VecDeque::new(),
            free: BTreeSet::new(),
        };
        stack.append_empty(filters)?;
        Ok(stack)
    }

    pub(super) fn len(&self) -> usize {
        self.order.len()
    }

    /// Bytes of the filters in the stack, without the lanes that wait for use.
    pub(super) fn bytes(&self) -> usize {
        self.len() * self.rows * size_of::<u64>()
    }

    /// Adds empty filters behind the oldest. On failure nothing has changed.
    pub(super) fn append_empty(&mut self, filters: usize) -> Result<(), PaperError> {
        self.reserve(filters)?;
        for _ in 0..filters {
            if let Some(slot) = self.take_empty() {
                self.order.push_back(slot);
            }
        }
        Ok(())
    }

    /// Drops the oldest filter and gives the memory back where a whole block has become free.
    pub(super) fn drop_oldest(&mut self) {
        if let Some(slot) = self.order.pop_back() {
            self.free.insert(slot);
        }
        while let Some(last) = self.blocks.len().checked_sub(1)
            && last > 0
            && self.free.range(last * LANES..).count() == LANES
        {
            self.blocks.pop();
            self.free.split_off(&(last * LANES));
        }
    }

    /// The refresh: the oldest filter goes, an empty one becomes the newest, the others move one on.
    pub(super) fn shift(&mut self) {
        if let Some(slot) = self.order.pop_back() {
            self.free.insert(slot);
        }
        if let Some(slot) = self.take_empty() {
            self.order.push_front(slot);
        }
    }

    pub(super) fn set(&mut self, filter: usize, position: usize) {
        if let Some((block, lane)) = self.lane(filter) {
            Exclusive::or(&block.row(position / WORD_BITS).0[lane], 1 << (position % WORD_BITS));
        }
    }

    pub(super) fn contains(&self, filter: usize, mut positions: impl Iterator<Item = usize>) -> bool {
        self.lane(filter).is_some_and(|(block, lane)| {
            positions.all(|position| {
                let word = block.row(position / WORD_BITS).0[lane].load(Ordering::Relaxed);
                word >> (position % WORD_BITS) & 1 == 1
            })
        })
    }

    /// The words of a filter, lowest positions first.
    pub(super) fn words(&self, filter: usize) -> impl Iterator<Item = u64> + '_ {
        self.lane(filter).into_iter().flat_map(|(block, lane)| {
            (0..self.rows).map(move |row| block.row(row).0[lane].load(Ordering::Relaxed))
        })
    }

    fn lane(&self, filter: usize) -> Option<(&Lines, usize)> {
        let slot = *self.order.get(filter)?;
        Some((self.blocks.get(slot / LANES)?, slot % LANES))
    }

    fn reserve(&mut self, filters: usize) -> Result<(), PaperError> {
        let missing_blocks = filters.saturating_sub(self.free.len()).div_ceil(LANES);
        let mut fresh = Vec::new();
        for _ in 0..missing_blocks {
            let bytes = missing_blocks.saturating_mul(self.rows).saturating_mul(LINE_BYTES);
            fresh.push(Lines::zeroed(self.rows).map_err(|_| PaperError::OutOfMemory { bytes })?);
        }
        for block in fresh {
            let first = self.blocks.len() * LANES;
            self.blocks.push(block);
            self.free.extend(first..first + LANES);
        }
        Ok(())
    }

    /// The lowest free lane, wiped: low lanes first, so that the last block is the first to become free again.
    fn take_empty(&mut self) -> Option<Slot> {
        let slot = self.free.pop_first()?;
        let block = self.blocks.get(slot / LANES)?;
        for row in 0..self.rows {
            block.row(row).0[slot % LANES].store(0, Ordering::Relaxed);
        }
        Some(slot)
    }
}
