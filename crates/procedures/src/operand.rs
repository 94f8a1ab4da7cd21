//! The operands of guards and results: a column, a row count, a parameter, a literal.

use std::collections::BTreeMap;

use jeton_etx::{QueryResult, Value};

use crate::statement::name_of;

/// The source of a value.
#[derive(Debug, Clone, PartialEq)]
pub enum Operand {
    /// A column of the first row of a step.
    Column(usize, String),
    /// The row count of a step.
    Rows(usize),
    Parameter(String),
    Literal(Value),
}

/// The names that an operand can refer to.
pub struct Scope<'a> {
    /// The steps so far.
    pub steps: &'a [String],
    pub parameters: &'a [String],
}

impl Operand {
    /// Parses an operand of the last step in the scope.
    pub fn read(text: &str, scope: &Scope<'_>) -> Result<Self, String> {
        let text = text.trim();
        if let Some(literal) = literal(text) {
            return Ok(Self::Literal(literal));
        }
        if let Some(name) = text.strip_prefix(':') {
            return match scope.parameters.iter().any(|known| known == name) {
                true => Ok(Self::Parameter(name.to_owned())),
                false => Err(format!("there is no parameter {name:?}")),
            };
        }
        let (step, column) = match text.split_once('.') {
            Some((name, column)) => {
                let step = scope.steps.iter().position(|known| known == name);
                (step.ok_or_else(|| format!("there is no step {name:?} up to here"))?, column)
            }
            None => (scope.steps.len().checked_sub(1).ok_or("there is no step")?, text),
        };
        match column {
            "rows" => Ok(Self::Rows(step)),
            column if !column.is_empty() && name_of(column) == column => {
                Ok(Self::Column(step, column.to_owned()))
            }
            _ => Err(format!(
                "{text:?} is neither a column nor step.column, rows, :parameter, a number, 'text', true, false or null"
            )),
        }
    }

    /// The value. It is null if there is no row or no such column.
    pub fn value(&self, done: &[QueryResult], parameters: &BTreeMap<String, Value>) -> Value {
        match self {
            Self::Literal(value) => value.clone(),
            Self::Parameter(name) => parameters.get(name).cloned().unwrap_or(Value::Null),
            Self::Rows(step) => {
                let count = done.get(*step).map_or(0, |executed| executed.count);
                Value::Integer(i64::try_from(count).unwrap_or(i64::MAX))
            }
            Self::Column(step, name) => {
                let row = done.get(*step).and_then(|executed| executed.rows.first());
                let found =
                    row.and_then(|row| row.iter().find(|(column, _)| column.eq_ignore_ascii_case(name)));
                found.map_or(Value::Null, |(_, value)| value.clone())
            }
        }
    }
}

fn literal(text: &str) -> Option<Value> {
    match text {
        "null" => return Some(Value::Null),
        "true" => return Some(Value::Bool(true)),
        "false" => return Some(Value::Bool(false)),
        _ => {}
    }
    if let Some(inside) = text.strip_prefix('\'').and_then(|text| text.strip_suffix('\'')) {
        return Some(Value::Text(inside.replace("''", "'")));
    }
    if let Ok(number) = text.parse() {
        return Some(Value::Integer(number));
    }
    crate::decimal::compare(text, "0").map(|_| Value::Decimal(text.to_owned()))
}
