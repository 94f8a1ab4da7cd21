//! Counting: acknowledged unique deltas ≤ value ≤ those plus unacknowledged ones.
//!
//! Uses only the requests and responses of clients. Applies to counters that are only added to.

use jeton_core::Cell;

use crate::model::Model;
use crate::model::value::ModelValue;
use crate::violation::{Checked, violated};

const RULE: &str = "counting";

/// Checks a read. `least` is the acknowledged sum when the read was sent.
pub fn check(model: &Model, cell: &Cell, least: i128, held: &ModelValue) -> Checked {
    let value = match held {
        ModelValue::Nothing => 0,
        ModelValue::Counter(value) => i128::from(*value),
        ModelValue::Bytes(_) | ModelValue::Until(..) => {
            return violated!(RULE, "{cell:?} is {held:?}, but is only added to");
        }
    };
    let (_, most) = model.sums(cell);
    if value < least {
        return violated!(RULE, "{cell:?} is {value}, but {least} is acknowledged");
    }
    if value > most {
        return violated!(RULE, "{cell:?} is {value}, but all requests sum to {most}");
    }
    Ok(())
}
