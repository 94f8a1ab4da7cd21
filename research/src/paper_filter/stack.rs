//! The constituent filters, newest first, each an array of bits.
//!
//! Invariant: a filter is empty when it enters the stack.

use std::collections::VecDeque;

use super::settings::PaperError;

const WORD_BITS: usize = 64;

pub(super) struct Stack {
    /// Words of one filter.
    words: usize,
    /// Index 0 is the future, 1 the present, 2 the newest past.
    filters: VecDeque<Box<[u64]>>,
}

impl Stack {
    pub(super) fn new(bits: usize, filters: usize) -> Result<Self, PaperError> {
        let mut stack = Self { words: bits.div_ceil(WORD_BITS), filters: VecDeque::new() };
        stack.append_empty(filters)?;
        Ok(stack)
    }

    pub(super) fn len(&self) -> usize {
        self.filters.len()
    }

    pub(super) fn bytes(&self) -> usize {
        self.len() * self.words * size_of::<u64>()
    }

    /// Adds empty filters behind the oldest. On failure nothing has changed.
    pub(super) fn append_empty(&mut self, filters: usize) -> Result<(), PaperError> {
        let bytes = filters.saturating_mul(self.words).saturating_mul(size_of::<u64>());
        let mut added = Vec::new();
        for _ in 0..filters {
            let mut words = Vec::new();
            words.try_reserve_exact(self.words).map_err(|_| PaperError::OutOfMemory { bytes })?;
            words.resize(self.words, 0);
            added.push(words.into_boxed_slice());
        }
        self.filters.extend(added);
        Ok(())
    }

    pub(super) fn drop_oldest(&mut self) {
        self.filters.pop_back();
    }

    /// The refresh: drops the oldest filter and adds an empty one as the newest.
    pub(super) fn shift(&mut self) {
        if let Some(mut oldest) = self.filters.pop_back() {
            oldest.fill(0);
            self.filters.push_front(oldest);
        }
    }

    pub(super) fn set(&mut self, filter: usize, position: usize) {
        if let Some(words) = self.filters.get_mut(filter) {
            words[position / WORD_BITS] |= 1 << (position % WORD_BITS);
        }
    }

    pub(super) fn contains(&self, filter: usize, mut positions: impl Iterator<Item = usize>) -> bool {
        self.filters.get(filter).is_some_and(|words| {
            positions.all(|position| words[position / WORD_BITS] >> (position % WORD_BITS) & 1 == 1)
        })
    }

    /// The words of a filter, lowest positions first.
    pub(super) fn words(&self, filter: usize) -> impl Iterator<Item = u64> + '_ {
        self.filters.get(filter).into_iter().flat_map(|words| words.iter().copied())
    }
}
