//! JSON of requests and responses. Errors name the position and suggest a correction.

use std::fmt;
use std::marker::PhantomData;

use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use serde::de::{self, Deserializer, IgnoredAny};
use serde::{Deserialize, Serialize};

use super::problem::Problem;
use crate::suggestion::nearest;

pub fn ok(body: &impl Serialize) -> Response {
    response(StatusCode::OK, body)
}

pub fn response(status: StatusCode, body: &impl Serialize) -> Response {
    match serde_json::to_vec(body) {
        Ok(text) => response_with(status, text),
        // Only maps with keys that are not strings fail, and no body has one.
        Err(error) => (StatusCode::INTERNAL_SERVER_ERROR, error.to_string()).into_response(),
    }
}

/// The response with this JSON.
pub fn response_with(status: StatusCode, text: Vec<u8>) -> Response {
    (status, [(header::CONTENT_TYPE, "application/json")], text).into_response()
}

pub fn read<'a, T: Deserialize<'a>>(text: &'a [u8]) -> Result<T, Problem> {
    serde_json::from_slice(text).map_err(|error| Problem::bad_json(explain(&error)))
}

/// Parses a body that is an object. Serde would also accept a list of the values of its members.
pub fn object<'a, T: Deserialize<'a>>(text: &'a [u8]) -> Result<T, Problem> {
    match text.trim_ascii_start().first() {
        None | Some(b'{') => read(text),
        Some(_) => Err(Problem::bad_json("expected a JSON object: {...}")),
    }
}

/// The message of serde in the terms of the documentation.
fn explain(error: &serde_json::Error) -> String {
    let text = error.to_string();
    let nearest = unknown_member(&text).and_then(|(member, known)| nearest(member, known));
    let hint = nearest.map_or(String::new(), |nearest| format!("; did you mean `{nearest}`?"));
    text.replace("unknown field", "unknown member")
        .replace("missing field", "missing member")
        .replace("duplicate field", "a member that is there twice:")
        + &hint
}

/// The unknown member and the known ones, from the message of serde: "unknown field `x`, expected one of `a`,
/// `b`". If that message changes, only the suggestion is lost.
fn unknown_member(text: &str) -> Option<(&str, Vec<&str>)> {
    let mut quoted = text.strip_prefix("unknown field `")?.split('`').step_by(2);
    let member = quoted.next()?;
    Some((member, quoted.filter(|name| !name.starts_with(" at line")).collect()))
}

/// A list of which at most `MAX` elements are stored, and the others counted. Two bytes of JSON can be an
/// element that needs hundreds.
#[derive(Debug)]
pub struct List<T, const MAX: usize> {
    items: Vec<T>,
    number: usize,
}

impl<T, const MAX: usize> List<T, MAX> {
    /// The elements; their number if there are more than `MAX`.
    pub fn all(self) -> Result<Vec<T>, usize> {
        if self.number > MAX { Err(self.number) } else { Ok(self.items) }
    }
}

impl<'de, T: Deserialize<'de>, const MAX: usize> Deserialize<'de> for List<T, MAX> {
    fn deserialize<D: Deserializer<'de>>(input: D) -> Result<Self, D::Error> {
        struct Visitor<T, const MAX: usize>(PhantomData<T>);
        impl<'de, T: Deserialize<'de>, const MAX: usize> de::Visitor<'de> for Visitor<T, MAX> {
            type Value = List<T, MAX>;

            fn expecting(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
                out.write_str("a list")
            }

            fn visit_seq<S: de::SeqAccess<'de>>(self, mut list: S) -> Result<Self::Value, S::Error> {
                let mut items = Vec::new();
                while items.len() < MAX {
                    match list.next_element()? {
                        Some(item) => items.push(item),
                        None => return Ok(List { number: items.len(), items }),
                    }
                }
                let mut number = items.len();
                while list.next_element::<IgnoredAny>()?.is_some() {
                    number += 1;
                }
                Ok(List { items, number })
            }
        }
        input.deserialize_seq(Visitor(PhantomData))
    }
}

/// An integer, as a number or, for clients whose numbers end at 2^53, as a string.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct JsonInteger(pub i64);

impl<'de> Deserialize<'de> for JsonInteger {
    fn deserialize<D: Deserializer<'de>>(input: D) -> Result<Self, D::Error> {
        struct Visitor;
        impl de::Visitor<'_> for Visitor {
            type Value = JsonInteger;

            fn expecting(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(out, "a whole number from {} to {}", i64::MIN, i64::MAX)
            }

            fn visit_i64<E: de::Error>(self, number: i64) -> Result<JsonInteger, E> {
                Ok(JsonInteger(number))
            }

            fn visit_u64<E: de::Error>(self, number: u64) -> Result<JsonInteger, E> {
                let wrong = |_| E::invalid_value(de::Unexpected::Unsigned(number), &self);
                number.try_into().map(JsonInteger).map_err(wrong)
            }

            fn visit_str<E: de::Error>(self, text: &str) -> Result<JsonInteger, E> {
                let wrong = |_| E::invalid_value(de::Unexpected::Str(text), &self);
                text.parse().map(JsonInteger).map_err(wrong)
            }
        }
        input.deserialize_any(Visitor)
    }
}

impl utoipa::PartialSchema for JsonInteger {
    fn schema() -> utoipa::openapi::RefOr<utoipa::openapi::schema::Schema> {
        use utoipa::openapi::schema::{KnownFormat, ObjectBuilder, SchemaFormat, Type};
        ObjectBuilder::new()
            .schema_type(Type::Integer)
            .format(Some(SchemaFormat::KnownFormat(KnownFormat::Int64)))
            .description(Some("A 64-bit integer, as a number or a string."))
            .into()
    }
}

impl utoipa::ToSchema for JsonInteger {}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, Deserialize)]
    #[serde(deny_unknown_fields)]
    #[allow(dead_code, reason = "only its names matter")]
    struct Body {
        delta: JsonInteger,
        column: Option<String>,
    }

    fn detail(text: &str) -> String {
        read::<Body>(text.as_bytes()).unwrap_err().detail
    }

    #[test]
    fn errors_name_the_member_and_the_position() {
        let misspelt = detail(r#"{"detla":1}"#);
        assert!(misspelt.starts_with("unknown member `detla`, expected `delta` or `column`"), "{misspelt}");
        assert!(misspelt.ends_with("did you mean `delta`?"), "{misspelt}");
        assert!(detail("{}").starts_with("missing member `delta`"), "{}", detail("{}"));
        assert!(detail(r#"{"delta":1,"delta":2}"#).contains("there twice: `delta`"));
        assert!(detail(r#"{"delta":1.5}"#).contains("expected a whole number from -9223372036854775808 to"));
        assert!(detail(r#"{"delta":9223372036854775808}"#).contains("expected a whole number"));
        assert!(detail(r#"{"delta":"1e3"}"#).contains("expected a whole number"));
        assert!(detail("{\n  nonsense").contains("line 2"));
    }

    #[test]
    fn elements_beyond_the_limit_are_not_stored() {
        let list = |text: &str| serde_json::from_str::<List<u8, 3>>(text).unwrap();
        assert_eq!(list("[]").all(), Ok(vec![]));
        assert_eq!(list("[1, 2, 3]").all(), Ok(vec![1, 2, 3]));
        let five = list("[1, 2, 3, 4000, {}]");
        assert_eq!(five.items, [1, 2, 3]);
        assert_eq!(five.all(), Err(5));
        for malformed in ["[1, 2, 3, 4", "[1, 2, 3, x]", "[1, \"\"]", "{}"] {
            assert!(serde_json::from_str::<List<u8, 3>>(malformed).is_err(), "{malformed}");
        }
    }

    #[test]
    fn integers_are_numbers_or_strings() {
        for text in ["9223372036854775807", "\"9223372036854775807\"", "-1", "\"-1\""] {
            let number: JsonInteger = serde_json::from_str(text).unwrap();
            assert_eq!(number.0.to_string(), text.trim_matches('"'));
        }
    }
}
