//! The stored operations of an outbox, rebuilt from its records. Pure.

use std::collections::BTreeMap;

use super::record::{HEAD, Record};
use crate::command::Write;
use crate::id::Id;

/// A stored operation.
#[derive(Debug, Clone)]
pub(super) struct PendingOperation {
    pub id: Id,
    pub write: Write,
    /// Why it cannot be delivered, and whether its id has expired.
    pub undeliverable: Option<(bool, String)>,
    bytes: usize,
}

/// The stored operations of an outbox.
#[derive(Debug, Default)]
pub(super) struct State {
    pub pending: BTreeMap<u64, PendingOperation>,
    /// Number of the next operation.
    pub next: u64,
    /// Bytes of the records of the stored operations.
    pub bytes: usize,
}

impl State {
    /// Applies a record of `bytes` bytes.
    pub fn apply(&mut self, record: &Record, bytes: usize) {
        match record {
            Record::Stored { number, id, write } => {
                self.next = self.next.max(number + 1);
                let operation =
                    PendingOperation { id: id.clone(), write: write.clone(), undeliverable: None, bytes };
                self.bytes += bytes;
                if let Some(before) = self.pending.insert(*number, operation) {
                    self.bytes -= before.bytes;
                }
            }
            Record::Removed { number } => {
                if let Some(operation) = self.pending.remove(number) {
                    self.bytes -= operation.bytes;
                }
            }
            Record::Failed { number, expired, reason } => {
                if let Some(operation) = self.pending.get_mut(number) {
                    operation.undeliverable = Some((*expired, reason.clone()));
                    operation.bytes += bytes;
                    self.bytes += bytes;
                }
            }
        }
    }

    /// Appends the records of the stored operations.
    pub fn snapshot(&self, out: &mut Vec<u8>) {
        for (number, operation) in &self.pending {
            let number = *number;
            Record::Stored { number, id: operation.id.clone(), write: operation.write.clone() }.encode(out);
            if let Some((expired, reason)) = &operation.undeliverable {
                Record::Failed { number, expired: *expired, reason: reason.clone() }.encode(out);
            }
        }
        // Keeps the last number, so that no number is reused: a late removal would remove another operation.
        if let Some(last) = self.next.checked_sub(1)
            && !self.pending.contains_key(&last)
        {
            let (id, write) =
                (Id::new("-").expect("one byte is a valid id"), Write::Reset { key: Vec::new() });
            Record::Stored { number: last, id, write }.encode(out);
            Record::Removed { number: last }.encode(out);
        }
    }

    /// Applies records up to the first incomplete one. Returns their length in bytes.
    pub fn replay(&mut self, bytes: &[u8]) -> usize {
        let mut at = 0;
        while let Some((record, len)) = Record::decode(&bytes[at..]) {
            debug_assert!(len >= HEAD);
            self.apply(&record, len);
            at += len;
        }
        at
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_snapshot_keeps_operations_and_the_next_number() {
        let mut bytes = Vec::new();
        for number in 0..5 {
            let id = Id::new(number.to_string()).unwrap();
            Record::Stored { number, id, write: Write::Reset { key: b"k".to_vec() } }.encode(&mut bytes);
        }
        for number in [0, 3, 4] {
            Record::Removed { number }.encode(&mut bytes);
        }
        Record::Failed { number: 2, expired: true, reason: "old".into() }.encode(&mut bytes);
        let mut state = State::default();
        assert_eq!(state.replay(&bytes), bytes.len());
        assert_eq!((state.next, state.pending.len()), (5, 2));

        let mut short = Vec::new();
        state.snapshot(&mut short);
        assert!(short.len() < bytes.len());
        let mut again = State::default();
        assert_eq!(again.replay(&short), short.len());
        assert_eq!((again.next, again.bytes), (5, state.bytes));
        assert_eq!(again.pending.keys().collect::<Vec<_>>(), [&1, &2]);
        assert_eq!(again.pending[&2].undeliverable, Some((true, "old".into())));
    }
}
