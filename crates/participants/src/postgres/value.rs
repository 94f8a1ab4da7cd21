//! Conversion of values for PostgreSQL.
//!
//! Parameters are sent as text, and PostgreSQL converts them to the type in the statement: an integer to
//! `int2` or `numeric`, a text to `uuid`, `jsonb` or `timestamptz`. Results are binary; a type without a
//! counterpart becomes the text that PostgreSQL would print, in UTC.

use std::error::Error;

use jeton_etx::Value;
use tokio_postgres::types::private::BytesMut;
use tokio_postgres::types::{Format, FromSql, IsNull, ToSql, Type, to_sql_checked};

use super::decisions::uuid;
use super::{numeric, time};

#[derive(Debug)]
pub struct Parameter<'a>(pub &'a Value);

impl Parameter<'_> {
    /// Whether the value can be a parameter of this type. PostgreSQL itself checks the digits.
    pub fn check(&self, kind: &Type) -> Result<(), String> {
        let is_text = [Type::TEXT, Type::VARCHAR, Type::BPCHAR, Type::UNKNOWN, Type::NAME].contains(kind);
        let is_number =
            [Type::INT2, Type::INT4, Type::INT8, Type::FLOAT4, Type::FLOAT8, Type::NUMERIC, Type::OID]
                .contains(kind);
        let fits = match self.0 {
            Value::Null => true,
            // All other types are written in quotes in SQL.
            Value::Text(_) => *kind != Type::BYTEA,
            Value::Bool(_) => *kind == Type::BOOL || is_text,
            Value::Integer(_) | Value::Float(_) | Value::Decimal(_) => is_number || is_text,
            Value::Bytes(_) => *kind == Type::BYTEA,
        };
        if fits { Ok(()) } else { Err(format!("{} cannot be given as {}", word(self.0), kind.name())) }
    }
}

fn word(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "a boolean",
        Value::Integer(_) => "an integer",
        Value::Float(_) | Value::Decimal(_) => "a number",
        Value::Text(_) => "text",
        Value::Bytes(_) => "bytes",
    }
}

impl ToSql for Parameter<'_> {
    fn to_sql(&self, _: &Type, out: &mut BytesMut) -> Result<IsNull, Box<dyn Error + Sync + Send>> {
        match self.0 {
            Value::Null => return Ok(IsNull::Yes),
            Value::Bool(value) => out.extend_from_slice(if *value { b"true" } else { b"false" }),
            Value::Integer(value) => out.extend_from_slice(value.to_string().as_bytes()),
            Value::Float(value) => out.extend_from_slice(value.to_string().as_bytes()),
            Value::Decimal(value) | Value::Text(value) => out.extend_from_slice(value.as_bytes()),
            Value::Bytes(value) => out.extend_from_slice(value),
        }
        Ok(IsNull::No)
    }

    fn accepts(_: &Type) -> bool {
        true
    }

    fn encode_format(&self, _: &Type) -> Format {
        if matches!(self.0, Value::Bytes(_)) { Format::Binary } else { Format::Text }
    }

    to_sql_checked!();
}

/// A column value, or the name of its unsupported type.
struct Column(Result<Value, String>);

impl<'a> FromSql<'a> for Column {
    fn from_sql(kind: &Type, raw: &'a [u8]) -> Result<Self, Box<dyn Error + Sync + Send>> {
        Ok(Self(read(kind, raw)))
    }

    fn from_sql_null(_: &Type) -> Result<Self, Box<dyn Error + Sync + Send>> {
        Ok(Self(Ok(Value::Null)))
    }

    fn accepts(_: &Type) -> bool {
        true
    }
}

/// A row with its column names.
pub fn read_row(row: &tokio_postgres::Row) -> Result<jeton_etx::Row, String> {
    let columns = row.columns().iter().enumerate();
    columns
        .map(|(place, column)| {
            let value = row.try_get::<_, Column>(place).map_err(|error| error.to_string())?;
            let value = value.0.map_err(|why| format!("column {}: {why}", column.name()))?;
            Ok((column.name().to_owned(), value))
        })
        .collect()
}

fn read(kind: &Type, raw: &[u8]) -> Result<Value, String> {
    let broken = || format!("a value of type {} cannot be decoded", kind.name());
    let text = |raw: &[u8]| String::from_utf8(raw.to_vec()).map(Value::Text).map_err(|_| broken());
    let whole = || -> Option<i64> {
        match *kind {
            Type::INT2 => raw.try_into().ok().map(i16::from_be_bytes).map(i64::from),
            Type::INT4 => raw.try_into().ok().map(i32::from_be_bytes).map(i64::from),
            Type::OID => raw.try_into().ok().map(u32::from_be_bytes).map(i64::from),
            _ => raw.try_into().ok().map(i64::from_be_bytes),
        }
    };
    match *kind {
        Type::BOOL => Ok(Value::Bool(raw == [1])),
        Type::INT2 | Type::INT4 | Type::INT8 | Type::OID => whole().map(Value::Integer).ok_or_else(broken),
        Type::FLOAT4 => {
            let number = raw.try_into().ok().map(f32::from_be_bytes);
            number.map(|number| Value::Float(number.into())).ok_or_else(broken)
        }
        Type::FLOAT8 => raw.try_into().ok().map(f64::from_be_bytes).map(Value::Float).ok_or_else(broken),
        Type::NUMERIC => numeric::read(raw).map(Value::Decimal).ok_or_else(broken),
        Type::BYTEA => Ok(Value::Bytes(raw.to_vec())),
        // The first byte is the version of the format.
        Type::JSONB => text(raw.get(1..).ok_or_else(broken)?),
        Type::UUID => {
            let number = raw.try_into().map(u128::from_be_bytes);
            number.map(|number| Value::Text(uuid(number))).map_err(|_| broken())
        }
        Type::TIMESTAMP | Type::TIMESTAMPTZ | Type::DATE | Type::TIME => {
            time::read(kind, raw).map(Value::Text).ok_or_else(broken)
        }
        // The result of a function without one.
        Type::VOID => Ok(Value::Null),
        Type::TEXT
        | Type::VARCHAR
        | Type::BPCHAR
        | Type::NAME
        | Type::JSON
        | Type::UNKNOWN
        | Type::XML
        | Type::CHAR => text(raw),
        _ if matches!(kind.kind(), tokio_postgres::types::Kind::Enum(_)) => text(raw),
        _ => Err(format!("the type {} is not supported; cast it to text in the statement", kind.name())),
    }
}
