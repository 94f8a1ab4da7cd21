//! Conversion of database values to JSON.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use jeton_etx::Value;
use serde_json::{Number, Value as Json};

/// A value in a response. Exact decimals are strings, so that no reader rounds them; byte strings are base64.
pub fn json(value: Value) -> Json {
    match value {
        Value::Null => Json::Null,
        Value::Bool(truth) => Json::Bool(truth),
        Value::Integer(number) => Json::Number(number.into()),
        // JSON has no infinities and no NaN: they are strings.
        Value::Float(number) => {
            Number::from_f64(number).map_or_else(|| Json::String(number.to_string()), Json::Number)
        }
        Value::Decimal(text) | Value::Text(text) => Json::String(text),
        Value::Bytes(bytes) => Json::String(STANDARD.encode(bytes)),
    }
}
