//! A guard: a condition that must hold after a step.

use std::cmp::Ordering;
use std::collections::BTreeMap;

use jeton_etx::{QueryResult, Value};

use crate::decimal;
use crate::operand::{Operand, Scope};

/// A comparison, and the message of the refusal if it does not hold.
#[derive(Debug, Clone, PartialEq)]
pub struct Guard {
    left: Operand,
    sign: Sign,
    right: Operand,
    /// The message for the client.
    pub otherwise: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Sign {
    Equal,
    Different,
    Less,
    AtMost,
    Greater,
    AtLeast,
}

/// Longer operators first: `<` is a prefix of `<=`.
const SIGNS: [(&str, Sign); 7] = [
    ("<=", Sign::AtMost),
    (">=", Sign::AtLeast),
    ("!=", Sign::Different),
    ("<>", Sign::Different),
    ("=", Sign::Equal),
    ("<", Sign::Less),
    (">", Sign::Greater),
];

impl Guard {
    /// Parses a guard of the last step in the scope.
    pub fn read(that: &str, otherwise: &str, scope: &Scope<'_>) -> Result<Self, String> {
        if otherwise.trim().is_empty() {
            return Err("`otherwise`, the message of the refusal, is empty".into());
        }
        let found = (0..that.len())
            .filter(|at| that.is_char_boundary(*at) && !is_in_quotes(that, *at))
            .find_map(|at| {
                let (text, sign) = SIGNS.iter().find(|(text, _)| that[at..].starts_with(text))?;
                Some((&that[..at], *sign, &that[at + text.len()..]))
            });
        let (left, sign, right) =
            found.ok_or_else(|| format!("{that:?} has no comparison: use =, !=, <, <=, > or >="))?;
        let (left, right) = (Operand::read(left, scope)?, Operand::read(right, scope)?);
        Ok(Self { left, sign, right, otherwise: otherwise.to_owned() })
    }

    /// Whether it holds. Values that cannot be compared do not satisfy a guard.
    pub fn holds(&self, done: &[QueryResult], parameters: &BTreeMap<String, Value>) -> bool {
        let (left, right) = (self.left.value(done, parameters), self.right.value(done, parameters));
        if left == Value::Null || right == Value::Null {
            // Null equals null. Every other comparison with null is false.
            return match self.sign {
                Sign::Equal => left == right,
                Sign::Different => left != right,
                _ => false,
            };
        }
        let Some(order) = compare(&left, &right) else { return false };
        match self.sign {
            Sign::Equal => order == Ordering::Equal,
            Sign::Different => order != Ordering::Equal,
            Sign::Less => order == Ordering::Less,
            Sign::AtMost => order != Ordering::Greater,
            Sign::Greater => order == Ordering::Greater,
            Sign::AtLeast => order != Ordering::Less,
        }
    }
}

fn is_in_quotes(text: &str, at: usize) -> bool {
    text[..at].matches('\'').count() % 2 == 1
}

fn compare(left: &Value, right: &Value) -> Option<Ordering> {
    match (left, right) {
        (Value::Integer(left), Value::Integer(right)) => Some(left.cmp(right)),
        (Value::Text(left), Value::Text(right)) => Some(left.cmp(right)),
        (Value::Bytes(left), Value::Bytes(right)) => Some(left.cmp(right)),
        (Value::Bool(left), Value::Bool(right)) => Some(left.cmp(right)),
        // MariaDB represents booleans as 1 and 0.
        (Value::Bool(truth), Value::Integer(number)) => Some(i64::from(*truth).cmp(number)),
        (Value::Integer(number), Value::Bool(truth)) => Some(number.cmp(&i64::from(*truth))),
        (Value::Float(left), right) => left.partial_cmp(&float(right)?),
        (left, Value::Float(right)) => float(left)?.partial_cmp(right),
        (left, right) => decimal::compare(&spelled(left)?, &spelled(right)?),
    }
}

fn spelled(value: &Value) -> Option<String> {
    match value {
        Value::Integer(number) => Some(number.to_string()),
        Value::Decimal(text) => Some(text.clone()),
        _ => None,
    }
}

fn float(value: &Value) -> Option<f64> {
    match value {
        Value::Float(number) => Some(*number),
        value => spelled(value)?.parse().ok(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn holds(that: &str, value: Value) -> bool {
        let steps = ["debit".to_owned()];
        let scope = Scope { steps: &steps, parameters: &["amount".to_owned()] };
        let guard = Guard::read(that, "no", &scope).unwrap();
        let parameters = BTreeMap::from([("amount".to_owned(), Value::Integer(5))]);
        let rows = vec![vec![("Balance".to_owned(), value)]];
        guard.holds(&[QueryResult { rows, count: 1 }], &parameters)
    }

    #[test]
    fn guards_compare_columns_rows_parameters_and_literals() {
        for (that, value) in [
            ("balance >= 0", Value::Integer(0)),
            ("balance>=:amount", Value::Integer(5)),
            ("debit.balance != -1", Value::Integer(1)),
            ("rows = 1", Value::Null),
            ("debit.rows < 2", Value::Null),
            ("balance = null", Value::Null),
            ("nothing = null", Value::Integer(1)),
            ("balance <> null", Value::Integer(1)),
            ("balance > 0.1", Value::Decimal("0.11".into())),
            ("balance = 3", Value::Decimal("3.00".into())),
            ("balance < 0.5", Value::Float(0.25)),
            ("balance = 'a >= b'", Value::Text("a >= b".into())),
            ("balance = 'it''s'", Value::Text("it's".into())),
            ("balance = true", Value::Integer(1)),
        ] {
            assert!(holds(that, value.clone()), "{that} {value:?}");
        }
    }

    #[test]
    fn false_or_incomparable_guards_do_not_hold() {
        for (that, value) in [
            ("balance >= 0", Value::Integer(-1)),
            ("balance >= 0", Value::Null),
            ("balance < 0", Value::Null),
            ("balance >= 0", Value::Text("5".into())),
            ("rows = 2", Value::Null),
            ("balance > 0.1", Value::Decimal("0.1".into())),
            ("balance >= 0", Value::Float(f64::NAN)),
        ] {
            assert!(!holds(that, value.clone()), "{that} {value:?}");
        }
    }

    #[test]
    fn invalid_guards_are_rejected() {
        let steps = ["debit".to_owned()];
        let scope = Scope { steps: &steps, parameters: &[] };
        for that in ["", "balance", "balance ~ 1", "credit.n = 1", ":amount > 1", "a b = 1", "1 = "] {
            assert!(Guard::read(that, "no", &scope).is_err(), "{that}");
        }
        assert!(Guard::read("rows = 1", " ", &scope).is_err());
    }
}
