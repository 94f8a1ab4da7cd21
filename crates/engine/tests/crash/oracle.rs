//! The expected counts: a set of ids, each with its addition and first response.

use std::collections::{BTreeMap, HashMap};

/// An operation as the client knows it.
#[derive(Debug, Clone)]
pub struct Known {
    pub row: u64,
    pub delta: i64,
    pub id: String,
    /// Value and slot of the first response.
    pub result: Option<(i64, u64)>,
}

/// All operations, by number.
#[derive(Default)]
pub struct Oracle {
    pub operations: Vec<Known>,
    by_slot: HashMap<(u64, u64, i64), u64>,
}

impl Oracle {
    /// Records a response, and checks that it equals the first one.
    pub fn responded(&mut self, number: u64, kind: &str, result: (i64, u64)) {
        let known = &mut self.operations[number as usize];
        match known.result {
            Some(first) => {
                assert_eq!(kind, "replayed", "operation {number} was counted twice");
                assert_eq!(result, first, "operation {number} got another result than the first time");
            }
            None => known.result = Some(result),
        }
        // Every addition is positive, so two operations on a row never give the same value.
        let of = self.by_slot.entry((known.row, result.1, result.0)).or_insert(number);
        assert_eq!(*of, number, "two operations got the same result");
    }

    /// The operations without a response.
    pub fn pending(&self) -> Vec<u64> {
        let all = self.operations.iter().enumerate();
        all.filter(|(_, known)| known.result.is_none()).map(|(number, _)| number as u64).collect()
    }

    /// The expected rows once every operation has a response.
    pub fn counts(&self) -> BTreeMap<u64, i64> {
        let mut counts = BTreeMap::new();
        for known in &self.operations {
            *counts.entry(known.row).or_default() += known.delta;
        }
        counts
    }
}
