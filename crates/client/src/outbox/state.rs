//! What an outbox holds, as its records tell it. Pure.

use std::collections::BTreeMap;

use super::record::{HEAD, Record};
use crate::command::Write;
use crate::id::Id;

/// An operation that is not over.
#[derive(Debug, Clone)]
pub(super) struct PendingOperation {
    pub id: Id,
    pub write: Write,
    /// Why it cannot be delivered, and whether because it is too old.
    pub stuck: Option<(bool, String)>,
    bytes: usize,
}

/// What an outbox holds.
#[derive(Debug, Default)]
pub(super) struct State {
    pub kept: BTreeMap<u64, PendingOperation>,
    /// The number of the next operation.
    pub next: u64,
    /// Bytes of the records of what is kept.
    pub bytes: usize,
}

impl State {
    /// Takes in what happened.
    pub fn apply(&mut self, record: &Record, bytes: usize) {
        match record {
            Record::Came { number, id, write } => {
                self.next = self.next.max(number + 1);
                let kept = PendingOperation { id: id.clone(), write: write.clone(), stuck: None, bytes };
                self.bytes += bytes;
                if let Some(before) = self.kept.insert(*number, kept) {
                    self.bytes -= before.bytes;
                }
            }
            Record::Over { number } => {
                if let Some(kept) = self.kept.remove(number) {
                    self.bytes -= kept.bytes;
                }
            }
            Record::Stuck { number, expired, why } => {
                if let Some(kept) = self.kept.get_mut(number) {
                    kept.stuck = Some((*expired, why.clone()));
                    kept.bytes += bytes;
                    self.bytes += bytes;
                }
            }
        }
    }

    /// The records of all that is kept, and nothing else.
    pub fn snapshot(&self, out: &mut Vec<u8>) {
        for (number, kept) in &self.kept {
            let number = *number;
            Record::Came { number, id: kept.id.clone(), write: kept.write.clone() }.encode(out);
            if let Some((expired, why)) = &kept.stuck {
                Record::Stuck { number, expired: *expired, why: why.clone() }.encode(out);
            }
        }
        // The number of the last is kept, so that none is given twice: an end that is read late would end another.
        if let Some(last) = self.next.checked_sub(1)
            && !self.kept.contains_key(&last)
        {
            let (id, write) = (Id::new("-").expect("it is short"), Write::Reset { key: Vec::new() });
            Record::Came { number: last, id, write }.encode(out);
            Record::Over { number: last }.encode(out);
        }
    }

    /// Reads records up to the first that is not whole. How many bytes they have.
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
    fn a_snapshot_is_what_is_kept_and_the_next_number() {
        let mut bytes = Vec::new();
        for number in 0..5 {
            let id = Id::new(number.to_string()).unwrap();
            Record::Came { number, id, write: Write::Reset { key: b"k".to_vec() } }.encode(&mut bytes);
        }
        for number in [0, 3, 4] {
            Record::Over { number }.encode(&mut bytes);
        }
        Record::Stuck { number: 2, expired: true, why: "old".into() }.encode(&mut bytes);
        let mut state = State::default();
        assert_eq!(state.replay(&bytes), bytes.len());
        assert_eq!((state.next, state.kept.len()), (5, 2));

        let mut short = Vec::new();
        state.snapshot(&mut short);
        assert!(short.len() < bytes.len());
        let mut again = State::default();
        assert_eq!(again.replay(&short), short.len());
        assert_eq!((again.next, again.bytes), (5, state.bytes));
        assert_eq!(again.kept.keys().collect::<Vec<_>>(), [&1, &2]);
        assert_eq!(again.kept[&2].stuck, Some((true, "old".into())));
    }
}
