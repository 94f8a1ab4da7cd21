//! Entries that are appended together, in one buffer.

use crate::{LogId, Slot};

/// Entries that are appended together. They share a frame if they fit into the current segment.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Batch {
    bytes: Vec<u8>,
    /// Log, slot, and the end of the entry in `bytes`.
    entries: Vec<(LogId, Slot, usize)>,
}

impl Batch {
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds an entry whose content `fill` appends to the buffer.
    pub fn push_with(&mut self, log: LogId, slot: Slot, fill: impl FnOnce(&mut Vec<u8>)) {
        let start = self.bytes.len();
        fill(&mut self.bytes);
        assert!(self.bytes.len() >= start, "`fill` only appends");
        self.entries.push((log, slot, self.bytes.len()));
    }

    pub fn push(&mut self, log: LogId, slot: Slot, entry: &[u8]) {
        self.push_with(log, slot, |bytes| bytes.extend_from_slice(entry));
    }

    /// The entries in the order in which they were added.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = (LogId, Slot, &[u8])> {
        let mut start = 0;
        self.entries.iter().map(move |&(log, slot, end)| {
            let range = std::mem::replace(&mut start, end)..end;
            (log, slot, &self.bytes[range])
        })
    }

    pub fn len(&self) -> usize {
        self.entries.len()
    }

    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    pub fn entry_bytes(&self) -> usize {
        self.bytes.len()
    }
}
