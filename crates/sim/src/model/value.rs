//! What cells hold and what changes make of them, written a second time and apart from the engine's code.

use std::collections::BTreeMap;

use jeton_core::{Cell, Change, Value};

/// What a cell holds.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum Held {
    /// Nothing, which counts as zero.
    #[default]
    Nothing,
    /// A counter.
    Counter(i64),
    /// Plain bytes.
    Bytes(Vec<u8>),
}

impl Held {
    fn counter(&self) -> Option<i64> {
        match self {
            Self::Nothing => Some(0),
            Self::Counter(value) => Some(*value),
            Self::Bytes(_) => None,
        }
    }

    /// What the engine says that a cell holds.
    pub fn of(value: Option<&Value>) -> Self {
        match value {
            None => Self::Nothing,
            Some(Value::Counter(value)) => Self::Counter(*value),
            Some(Value::Bytes(bytes)) => Self::Bytes(bytes.to_vec()),
        }
    }
}

/// What an operation comes to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Effect {
    /// Whether no bound refused it.
    pub applied: bool,
    /// The answer: a counter for each change.
    pub values: Vec<Option<i64>>,
    /// What each cell holds afterwards.
    pub cells: BTreeMap<Cell, Held>,
}

/// What changes come to, one after the other, all or none; nothing if they cannot be made at all: beyond 64 bits, or adding to
/// what is no counter.
pub fn effect<'a>(
    changes: impl Iterator<Item = &'a (Cell, Change)>,
    look: impl Fn(&Cell) -> Held,
) -> Option<Effect> {
    let mut cells: BTreeMap<Cell, Held> = BTreeMap::new();
    let (mut values, mut befores, mut applied) = (Vec::new(), Vec::new(), true);
    for (cell, change) in changes {
        let first = look(cell);
        let before = cells.get(cell).unwrap_or(&first).clone();
        befores.push(first.counter());
        let after = match change {
            Change::Add(delta) => Held::Counter(before.counter()?.checked_add(*delta)?),
            Change::AddWithin { delta, min, max } => {
                let sum = i128::from(before.counter()?) + i128::from(*delta);
                let outside =
                    min.is_some_and(|min| sum < min.into()) || max.is_some_and(|max| sum > max.into());
                if outside {
                    applied = false;
                    continue;
                }
                Held::Counter(i64::try_from(sum).ok()?)
            }
            Change::Set(value) => Held::Counter(*value),
            Change::Reset => Held::Counter(0),
            Change::Delete => Held::Nothing,
            Change::Put(bytes) => Held::Bytes(bytes.to_vec()),
        };
        values.push(match after {
            Held::Counter(value) => Some(value),
            Held::Nothing | Held::Bytes(_) => None,
        });
        cells.insert(cell.clone(), after);
    }
    Some(if applied {
        Effect { applied, values, cells }
    } else {
        Effect { applied, values: befores, cells: BTreeMap::new() }
    })
}
