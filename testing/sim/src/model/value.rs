//! Values and changes: a second implementation, independent of the engine.

use std::collections::BTreeMap;

use jeton_core::limits::CELL_BYTES_MAX;
use jeton_core::{Cell, Change, Check, Value};

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum ModelValue {
    /// An empty cell, which counts as zero.
    #[default]
    Nothing,
    Counter(i64),
    Bytes(Vec<u8>),
    /// A value that expires at this time of the store.
    Until(u64, Box<ModelValue>),
}

impl ModelValue {
    fn counter(&self) -> Option<i64> {
        match self {
            Self::Nothing => Some(0),
            Self::Counter(value) => Some(*value),
            Self::Bytes(_) => None,
            Self::Until(_, held) => held.counter(),
        }
    }

    pub fn until(&self) -> Option<u64> {
        if let Self::Until(until, _) = self { Some(*until) } else { None }
    }

    /// The value at this time: empty if it has expired.
    pub fn at(self, millis: u64) -> Self {
        if self.until().is_some_and(|until| until <= millis) { Self::Nothing } else { self }
    }

    fn lasting(self, until: Option<u64>) -> Self {
        let held = if let Self::Until(_, held) = self { *held } else { self };
        until.map_or(held.clone(), |until| Self::Until(until, Box::new(held)))
    }

    fn text(&self) -> Vec<u8> {
        match self {
            Self::Nothing => Vec::new(),
            Self::Counter(value) => value.to_string().into_bytes(),
            Self::Bytes(bytes) => bytes.clone(),
            Self::Until(_, held) => held.text(),
        }
    }

    /// A value of the engine.
    pub fn of(value: Option<&Value>) -> Self {
        match value {
            None => Self::Nothing,
            Some(Value::Counter(value)) => Self::Counter(*value),
            Some(Value::Bytes(bytes)) => Self::Bytes(bytes.to_vec()),
            Some(value) => Self::of(Some(&value.clone().plain())).lasting(value.until()),
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Effect {
    /// False if a bound or a check refused it.
    pub applied: bool,
    /// A counter for each change.
    pub values: Vec<Option<i64>>,
    pub cells: BTreeMap<Cell, ModelValue>,
}

/// Applies changes in order, all or none. `None` if they are rejected: an overflow, an addition to bytes, or
/// a cell that becomes too large.
pub fn effect<'a>(
    changes: impl Iterator<Item = &'a (Cell, Change)>,
    look: impl Fn(&Cell) -> ModelValue,
) -> Option<Effect> {
    let mut cells: BTreeMap<Cell, ModelValue> = BTreeMap::new();
    let (mut values, mut befores, mut applied) = (Vec::new(), Vec::new(), true);
    for (cell, change) in changes {
        let first = look(cell);
        let before = cells.get(cell).unwrap_or(&first).clone();
        befores.push(first.counter());
        let after = match change {
            Change::Add(delta) => {
                ModelValue::Counter(before.counter()?.checked_add(*delta)?).lasting(before.until())
            }
            Change::AddWithin { delta, min, max } => {
                let sum = i128::from(before.counter()?) + i128::from(*delta);
                let outside =
                    min.is_some_and(|min| sum < min.into()) || max.is_some_and(|max| sum > max.into());
                if outside {
                    applied = false;
                    continue;
                }
                ModelValue::Counter(i64::try_from(sum).ok()?).lasting(before.until())
            }
            Change::Set(value) => ModelValue::Counter(*value),
            Change::Reset => ModelValue::Counter(0),
            Change::Delete => ModelValue::Nothing,
            Change::Put(bytes) => ModelValue::Bytes(bytes.to_vec()),
            Change::Check(check) => {
                let holds = match check {
                    Check::Absent => before == ModelValue::Nothing,
                    Check::Present => before != ModelValue::Nothing,
                    Check::Holds(value) => before == ModelValue::of(Some(value)),
                    Check::ExpiresWithin { min, max } => {
                        let expiry = before.until().unwrap_or(u64::MAX);
                        before != ModelValue::Nothing && *min <= expiry && expiry <= *max
                    }
                };
                if !holds {
                    applied = false;
                    continue;
                }
                before
            }
            Change::Expire(_) if before == ModelValue::Nothing => {
                applied = false;
                continue;
            }
            Change::Expire(until) => before.lasting(*until),
            Change::Append(more) => {
                let mut text = before.text();
                text.extend_from_slice(more);
                if text.len() > CELL_BYTES_MAX {
                    return None;
                }
                let number = std::str::from_utf8(&text).ok().and_then(|text| text.parse::<i64>().ok());
                let number = number.filter(|number| number.to_string().into_bytes() == text);
                values.push(Some(text.len() as i64));
                let held = number.map_or(ModelValue::Bytes(text), ModelValue::Counter);
                cells.insert(cell.clone(), held.lasting(before.until()));
                continue;
            }
        };
        values.push(if after == ModelValue::Nothing { None } else { after.counter() });
        cells.insert(cell.clone(), after);
    }
    Some(if applied {
        Effect { applied, values, cells }
    } else {
        Effect { applied, values: befores, cells: BTreeMap::new() }
    })
}
