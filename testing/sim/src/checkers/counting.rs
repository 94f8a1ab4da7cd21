//! The one invariant above all: acknowledged unique deltas ≤ value ≤ those plus unacknowledged ones.
//!
//! Uses only the requests and responses of clients. Applies to counters that are only added to.

use jeton_core::Cell;

use crate::model::Model;
use crate::model::value::ModelValue;
use crate::violation::{Checked, Violation};

const RULE: &str = "counting";

/// A cell was read. `least` is what was acknowledged when the read was sent.
pub fn check(model: &Model, cell: &Cell, least: i128, held: &ModelValue) -> Checked {
    let value = match held {
        ModelValue::Nothing => 0,
        ModelValue::Counter(value) => i128::from(*value),
        ModelValue::Bytes(_) | ModelValue::Until(..) => {
            return Err(Violation::new(RULE, format!("{cell:?} is {held:?}, and was only added to")));
        }
    };
    let (_, most) = model.sums(cell);
    if value < least {
        let what = format!("{cell:?} is at {value}, but {least} is acknowledged");
        return Err(Violation::new(RULE, what));
    }
    if value > most {
        let what = format!("{cell:?} is at {value}, but all that was asked for comes to {most}");
        return Err(Violation::new(RULE, what));
    }
    Ok(())
}
