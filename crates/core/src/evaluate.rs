//! Evaluation of changes: the result of a new operation, and the new contents of its cells.

use crate::address::Cell;
use crate::limits;
use crate::log_entry::{DedupLocation, OperationDecision, millis};
use crate::operation::{Change, Check, Operation};
use crate::operation_result::{OperationResult, Rejection, Values};
use crate::partition::{LogPosition, StateReader, Verdict};
use crate::value::Value;

/// The new contents of the cells of an applied operation, change by change.
/// The cells that a decision changes, in the order of the changes, and their values after each.
pub fn effects_of<'a>(
    operation: &'a Operation,
    decision: &'a OperationDecision,
) -> impl Iterator<Item = (&'a Cell, Option<Value>)> {
    let values = decision.answer.values.as_slice();
    operation.changes().enumerate().filter_map(move |(at, (cell, change))| {
        let kept = decision.effects.as_ref().and_then(|effects| effects[at].clone());
        match (kept, change) {
            (Some(value), _) => Some((cell, Some(value))),
            (None, Change::Check(_)) => None,
            (None, change) => Some((cell, change.effect(values[at]))),
        }
    })
}

pub(crate) fn evaluate<R: StateReader>(
    step: LogPosition,
    operation: &Operation,
    memory: DedupLocation,
    reader: &mut R,
) -> Result<Verdict, R::Error> {
    let (slot, at) = (step.slot, millis(step.time));
    let fresh = |applied, values, effects| {
        let answer = OperationResult { applied, slot, millis: at, values };
        Ok(Verdict::Fresh(OperationDecision { answer, memory, effects }))
    };
    let mut look = |cell: &Cell| Ok(reader.value(cell)?.and_then(|value| value.at(at)));
    if operation.len() == 1 {
        let Some((cell, change)) = operation.changes().next() else { unreachable!("it has one") };
        let before = if change.looks() { look(cell)? } else { None };
        return match change.outcome(before.as_ref()) {
            Ok(Outcome::After(value, None)) => fresh(true, Values::One(value), None),
            Ok(Outcome::After(value, kept)) => fresh(true, Values::One(value), Some([kept].into())),
            Ok(Outcome::Refused(value)) => fresh(false, Values::One(value), None),
            Err(rejection) => Ok(Verdict::Rejected(rejection)),
        };
    }
    // A later change of the same cell sees the earlier one; a refusal reports the counters before all
    // changes.
    let mut befores: Vec<Option<i64>> = Vec::with_capacity(operation.len());
    let mut after: Vec<(&Cell, Option<i64>, Option<Value>)> = Vec::with_capacity(operation.len());
    let mut values = Vec::with_capacity(operation.len());
    let mut effects = Vec::new();
    let mut refused = false;
    for (cell, change) in operation.changes() {
        let (first, before) = match after.iter().rev().find(|(other, ..)| *other == cell) {
            Some((_, first, value)) => (*first, value.clone()),
            None => {
                let value = look(cell)?;
                (value.as_ref().map_or(Some(0), Value::counter), value)
            }
        };
        befores.push(first);
        match change.outcome(before.as_ref()) {
            Ok(Outcome::After(value, kept)) => {
                if kept.is_some() {
                    effects.resize(values.len(), None);
                    effects.push(kept.clone());
                }
                values.push(value);
                let held = match change {
                    Change::Check(_) => before,
                    _ => kept.or_else(|| change.effect(value)),
                };
                after.push((cell, first, held));
            }
            // The operation is refused; go on, to report all counters.
            Ok(Outcome::Refused(_)) => refused = true,
            Err(rejection) => return Ok(Verdict::Rejected(rejection)),
        }
    }
    if refused {
        return fresh(false, Values::from_vec(befores), None);
    }
    if effects.is_empty() {
        return fresh(true, Values::from_vec(values), None);
    }
    effects.resize(values.len(), None);
    fresh(true, Values::from_vec(values), Some(effects.into()))
}

enum Outcome {
    /// The counter afterwards; and the new content of the cell, if [`Change::effect`] cannot derive it.
    After(Option<i64>, Option<Value>),
    /// A bound or a check refuses the change; the counter has this value.
    Refused(Option<i64>),
}

impl Change {
    /// Whether the outcome depends on the content of the cell.
    fn looks(&self) -> bool {
        !matches!(self, Self::Set(_) | Self::Reset | Self::Delete | Self::Put(_))
    }

    fn outcome(&self, before: Option<&Value>) -> Result<Outcome, Rejection> {
        let number = before.map_or(Some(0), Value::counter);
        let sum = |delta: i64| {
            let before = number.ok_or(Rejection::NotACounter)?;
            Ok((before, before.checked_add(delta)))
        };
        // A counter keeps its expiry time.
        let counted = |sum: Option<i64>| {
            let sum = sum.ok_or(Rejection::Overflow)?;
            let until = before.and_then(Value::until);
            Ok(Outcome::After(Some(sum), until.map(|until| Value::Counter(sum).lasting(Some(until)))))
        };
        match self {
            Self::Add(delta) => counted(sum(*delta)?.1),
            Self::AddWithin { delta, min, max } => {
                let (before, sum) = sum(*delta)?;
                // A sum beyond i64 violates a bound on that side, if there is one.
                let below = min.is_some_and(|min| sum.map_or(*delta < 0, |sum| sum < min));
                let above = max.is_some_and(|max| sum.map_or(*delta > 0, |sum| sum > max));
                if below || above {
                    return Ok(Outcome::Refused(Some(before)));
                }
                counted(sum)
            }
            Self::Set(value) => Ok(Outcome::After(Some(*value), None)),
            Self::Reset => Ok(Outcome::After(Some(0), None)),
            Self::Delete | Self::Put(_) => Ok(Outcome::After(None, None)),
            Self::Check(check) => {
                let holds = match check {
                    Check::Absent => before.is_none(),
                    Check::Present => before.is_some(),
                    Check::Holds(value) => before == Some(value),
                    Check::ExpiresWithin { min, max } => {
                        let expiry = before.map(|value| value.until().unwrap_or(u64::MAX));
                        expiry.is_some_and(|expiry| (*min..=*max).contains(&expiry))
                    }
                };
                let value = if before.is_some() { number } else { None };
                Ok(if holds { Outcome::After(value, None) } else { Outcome::Refused(number) })
            }
            Self::Expire(until) => Ok(match before {
                None => Outcome::Refused(Some(0)),
                Some(value) => Outcome::After(number, Some(value.clone().lasting(*until))),
            }),
            Self::Append(more) => {
                let until = before.and_then(Value::until);
                let mut bytes = before.map_or_else(Vec::new, Value::text);
                bytes.extend_from_slice(more);
                if bytes.len() > limits::CELL_BYTES_MAX {
                    return Err(Rejection::CellTooLarge);
                }
                let length = bytes.len() as i64;
                let value = Value::from_text(&bytes).lasting(until);
                Ok(Outcome::After(Some(length), Some(value)))
            }
        }
    }

    /// The new content of the cell, given the counter in the result. Not for changes that depend on the old
    /// content: their decisions hold it.
    fn effect(&self, value: Option<i64>) -> Option<Value> {
        match self {
            Self::Put(bytes) => Some(Value::Bytes(bytes.clone())),
            Self::Expire(_) | Self::Append(_) => {
                unreachable!("the decision was completed before it is applied")
            }
            _ => value.map(Value::Counter),
        }
    }
}
