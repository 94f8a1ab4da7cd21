//! The generations of a dated filter: consecutive periods of the ids' own time, each with its slices.

use std::sync::Arc;

use crate::key::Fingerprint;
use crate::slice::Slice;

/// The slices of one generation, oldest first. Usually one; more after a surge; none before the first id.
pub(crate) type Slices = Vec<Arc<Slice>>;

/// Consecutive generations. Those before `first` have expired.
#[derive(Clone)]
pub(crate) struct Generations {
    pub(crate) first: u64,
    pub(crate) list: Vec<Slices>,
}

impl Generations {
    /// The slices of a generation; `None` if it has expired, empty if it has no ids.
    pub(crate) fn get(&self, number: u64) -> Option<&[Arc<Slice>]> {
        let index = usize::try_from(number.checked_sub(self.first)?).unwrap_or(usize::MAX);
        Some(self.list.get(index).map_or(&[], Vec::as_slice))
    }

    /// The slices of a generation that has not expired. Extends the list up to it.
    pub(crate) fn get_mut(&mut self, number: u64) -> Option<&mut Slices> {
        let index = usize::try_from(number.checked_sub(self.first)?).ok()?;
        if index >= self.list.len() {
            self.list.resize_with(index + 1, Vec::new);
        }
        self.list.get_mut(index)
    }

    /// Drops the generations before `first`; returns whether `first` changed.
    pub(crate) fn retire_before(&mut self, first: u64) -> bool {
        if first <= self.first {
            return false;
        }
        let gone = usize::try_from(first - self.first).unwrap_or(usize::MAX).min(self.list.len());
        self.list.drain(..gone);
        self.first = first;
        true
    }

    pub(crate) fn slices(&self) -> impl Iterator<Item = &Arc<Slice>> {
        self.list.iter().flatten()
    }
}

/// Whether one of the slices has all bits of the id. Searches the newest slice first, because it is the
/// largest.
#[inline]
pub(crate) fn any_contains(slices: &[Arc<Slice>], fingerprint: Fingerprint) -> bool {
    slices.iter().rev().any(|slice| slice.contains(fingerprint))
}
