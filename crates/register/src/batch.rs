//! Writes to several registers, their values in one buffer.

use std::ops::Range;

use crate::{LogId, Slot};

/// Writes that are sent together. Each register is decided on its own.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Batch {
    bytes: Vec<u8>,
    writes: Vec<(LogId, Slot, Range<usize>)>,
}

impl Batch {
    pub fn new() -> Self {
        Self::default()
    }

    pub fn push(&mut self, log: LogId, slot: Slot, value: &[u8]) {
        assert!(slot > Slot::ZERO, "slots are numbered from 1");
        let start = self.bytes.len();
        self.bytes.extend_from_slice(value);
        self.writes.push((log, slot, start..self.bytes.len()));
    }

    /// The writes in the order in which they were added.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = (LogId, Slot, &[u8])> {
        self.writes.iter().map(|(log, slot, range)| (*log, *slot, &self.bytes[range.clone()]))
    }

    pub fn len(&self) -> usize {
        self.writes.len()
    }

    pub fn is_empty(&self) -> bool {
        self.writes.is_empty()
    }

    pub fn value_bytes(&self) -> usize {
        self.bytes.len()
    }
}
