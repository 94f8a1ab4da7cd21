//! Several registers to be written in one go, their values side by side in one buffer.

use std::ops::Range;

use crate::{Log, Slot};

/// Writes that travel together. Each register is decided on its own; the batch only shares the way.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Batch {
    bytes: Vec<u8>,
    writes: Vec<(Log, Slot, Range<usize>)>,
}

impl Batch {
    /// A batch without writes.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a write whose value `fill` appends to the buffer.
    pub fn push_with(&mut self, log: Log, slot: Slot, fill: impl FnOnce(&mut Vec<u8>)) {
        assert!(slot > Slot::ZERO, "slots are numbered from 1");
        let start = self.bytes.len();
        fill(&mut self.bytes);
        assert!(self.bytes.len() >= start, "a value was taken out of the buffer instead of added");
        self.writes.push((log, slot, start..self.bytes.len()));
    }

    /// Adds a write.
    pub fn push(&mut self, log: Log, slot: Slot, value: &[u8]) {
        self.push_with(log, slot, |bytes| bytes.extend_from_slice(value));
    }

    /// The writes, in the order they were added.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = (Log, Slot, &[u8])> {
        self.writes.iter().map(|(log, slot, range)| (*log, *slot, &self.bytes[range.clone()]))
    }

    /// Which register the write with this index is to.
    pub(crate) fn name(&self, index: usize) -> (Log, Slot) {
        let (log, slot, _) = self.writes[index];
        (log, slot)
    }

    /// How many writes.
    pub fn len(&self) -> usize {
        self.writes.len()
    }

    /// Whether there is nothing to write.
    pub fn is_empty(&self) -> bool {
        self.writes.is_empty()
    }

    /// The bytes of all values together.
    pub fn value_bytes(&self) -> usize {
        self.bytes.len()
    }
}
