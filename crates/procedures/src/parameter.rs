//! Types and bounds of parameters.

use jeton_etx::Value;
use serde_json::Value as Json;

use crate::config::{BoundedParameter, DeclaredParameter};
use crate::decimal;

/// Default limit of a text, in bytes.
const TEXT_BYTES_MAX: usize = 4096;

/// Limit of the length of a number, in bytes: more digits than databases store by default.
const NUMBER_BYTES_MAX: usize = 1000;

/// A parameter with its type and bounds.
#[derive(Debug, Clone)]
pub struct Parameter {
    pub name: String,
    kind: Kind,
    min: Option<i64>,
    max: Option<i64>,
    bytes_max: usize,
    is_optional: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Integer,
    Number,
    Text,
    Boolean,
}

impl Parameter {
    /// Parses a declaration.
    pub fn read(name: &str, declared: &DeclaredParameter) -> Result<Self, String> {
        if name.is_empty() || crate::statement::name_of(name) != name {
            return Err("a name has letters, digits and _, and does not begin with a digit".into());
        }
        let bounded = match declared {
            DeclaredParameter::Bounded(bounded) => bounded.clone(),
            DeclaredParameter::Kind(kind) => {
                let kind = kind.clone();
                BoundedParameter { kind, min: None, max: None, bytes_max: None, optional: false }
            }
        };
        let kind = match bounded.kind.as_str() {
            "integer" => Kind::Integer,
            "number" => Kind::Number,
            "text" => Kind::Text,
            "boolean" => Kind::Boolean,
            other => return Err(format!("unknown kind {other:?}: use integer, number, text or boolean")),
        };
        let is_number = matches!(kind, Kind::Integer | Kind::Number);
        if !is_number && (bounded.min.is_some() || bounded.max.is_some()) {
            return Err("only numbers have min and max".into());
        }
        if kind != Kind::Text && bounded.bytes_max.is_some() {
            return Err("only texts have bytes_max".into());
        }
        if bounded.min.zip(bounded.max).is_some_and(|(min, max)| min > max) {
            return Err("min is above max".into());
        }
        Ok(Self {
            name: name.to_owned(),
            kind,
            min: bounded.min,
            max: bounded.max,
            bytes_max: bounded.bytes_max.unwrap_or(TEXT_BYTES_MAX),
            is_optional: bounded.optional,
        })
    }

    /// Converts a JSON value for the databases, or returns why it is invalid.
    pub fn value(&self, given: Option<&Json>) -> Result<Value, String> {
        let wrong = |what: &str| Err(format!("{}: {what}", self.name));
        let value = match (self.kind, given) {
            (_, None | Some(Json::Null)) if self.is_optional => return Ok(Value::Null),
            (_, None) => return wrong("missing"),
            (Kind::Integer, Some(Json::Number(number))) => match number.as_i64() {
                Some(number) => Value::Integer(number),
                None => return wrong("must be an integer of 64 bits"),
            },
            // For clients whose integers end at 2^53.
            (Kind::Integer, Some(Json::String(text))) => match text.parse() {
                Ok(number) => Value::Integer(number),
                Err(_) => return wrong("must be an integer of 64 bits"),
            },
            (Kind::Number, Some(Json::Number(number))) => Value::Decimal(number.to_string()),
            (Kind::Number, Some(Json::String(text))) if text.len() > NUMBER_BYTES_MAX => {
                return wrong(&format!("has more than {NUMBER_BYTES_MAX} digits"));
            }
            (Kind::Number, Some(Json::String(text))) => Value::Decimal(text.clone()),
            (Kind::Text, Some(Json::String(text))) if text.len() > self.bytes_max => {
                return wrong(&format!("has more than {} bytes", self.bytes_max));
            }
            (Kind::Text, Some(Json::String(text))) if text.contains('\0') => {
                return wrong("contains a zero byte, which PostgreSQL cannot store");
            }
            (Kind::Text, Some(Json::String(text))) => Value::Text(text.clone()),
            (Kind::Boolean, Some(Json::Bool(truth))) => Value::Bool(*truth),
            (Kind::Integer | Kind::Number, _) => return wrong("must be a number"),
            (Kind::Text, _) => return wrong("must be a text"),
            (Kind::Boolean, _) => return wrong("must be true or false"),
        };
        self.bounded(&value).map_or(Ok(value), |why| wrong(&why))
    }

    /// Returns the violated bound of a number.
    fn bounded(&self, value: &Value) -> Option<String> {
        let text = match value {
            Value::Integer(number) => number.to_string(),
            Value::Decimal(text) => text.clone(),
            _ => return None,
        };
        let against = |bound: i64| decimal::compare(&text, &bound.to_string());
        if against(0).is_none() {
            return Some("must be a number: digits with an optional sign and point".into());
        }
        match (self.min, self.max) {
            (Some(min), _) if against(min).is_some_and(|order| order.is_lt()) => {
                Some(format!("must be at least {min}"))
            }
            (_, Some(max)) if against(max).is_some_and(|order| order.is_gt()) => {
                Some(format!("must be at most {max}"))
            }
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn parameter(declared: &str) -> Parameter {
        #[derive(serde::Deserialize)]
        struct One {
            p: DeclaredParameter,
        }
        Parameter::read("p", &toml::from_str::<One>(&format!("p = {declared}")).unwrap().p).unwrap()
    }

    #[test]
    fn values_of_each_kind_are_accepted() {
        for (declared, given, value) in [
            ("\"integer\"", json!(5), Value::Integer(5)),
            ("\"integer\"", json!("9223372036854775807"), Value::Integer(i64::MAX)),
            ("\"number\"", json!("12.50"), Value::Decimal("12.50".into())),
            ("\"number\"", json!(3), Value::Decimal("3".into())),
            ("\"text\"", json!("x"), Value::Text("x".into())),
            ("\"boolean\"", json!(true), Value::Bool(true)),
            ("{ kind = \"integer\", optional = true }", json!(null), Value::Null),
            ("{ kind = \"number\", min = 1 }", json!("1.0"), Value::Decimal("1.0".into())),
        ] {
            assert_eq!(parameter(declared).value(Some(&given)), Ok(value), "{declared} {given}");
        }
    }

    #[test]
    fn invalid_values_are_rejected_with_the_name() {
        for (declared, given) in [
            ("\"integer\"", json!(5.5)),
            ("\"integer\"", json!("5 or 1=1")),
            ("\"integer\"", json!(null)),
            ("\"integer\"", json!(u64::MAX)),
            ("\"number\"", json!("1e5")),
            ("\"number\"", json!("")),
            ("\"text\"", json!(5)),
            ("\"text\"", json!("a\0b")),
            ("\"boolean\"", json!(1)),
            ("{ kind = \"integer\", min = 1 }", json!(0)),
            ("{ kind = \"integer\", max = 9 }", json!(10)),
            ("{ kind = \"number\", min = 0 }", json!("-0.01")),
            ("{ kind = \"text\", bytes_max = 1 }", json!("ab")),
        ] {
            let value = parameter(declared).value(Some(&given));
            assert!(value.as_ref().is_err_and(|why| why.starts_with("p: ")), "{declared} {given}: {value:?}");
        }
        assert!(parameter("\"text\"").value(None).is_err());
    }
}
