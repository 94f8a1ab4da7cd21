//! Conversion of values for MariaDB.
//!
//! Exact decimals are sent as text, which MariaDB converts exactly when it stores them. A statement that
//! compares one with a column should cast it (`CAST(? AS DECIMAL(20, 2))`).

use jeton_etx::Value;
use mysql_async::consts::{ColumnFlags, ColumnType};
use mysql_async::{Column, Params, Value as Raw};

/// The character set of binary columns.
const BINARY: u16 = 63;

pub fn parameters(values: &[Value]) -> Params {
    if values.is_empty() {
        return Params::Empty;
    }
    let raw = values.iter().map(|value| match value {
        Value::Null => Raw::NULL,
        Value::Bool(value) => Raw::Int((*value).into()),
        Value::Integer(value) => Raw::Int(*value),
        Value::Float(value) => Raw::Double(*value),
        Value::Decimal(text) | Value::Text(text) => Raw::Bytes(text.clone().into_bytes()),
        Value::Bytes(bytes) => Raw::Bytes(bytes.clone()),
    });
    Params::Positional(raw.collect())
}

/// A row with its column names.
pub fn read_row(row: mysql_async::Row) -> Result<jeton_etx::Row, String> {
    let columns = row.columns();
    let read = |(column, raw): (&Column, Raw)| {
        let name = column.name_str().into_owned();
        let value = read(column, raw).ok_or_else(|| format!("column {name} cannot be decoded"))?;
        Ok((name, value))
    };
    columns.iter().zip(row.unwrap()).map(read).collect()
}

fn read(column: &Column, raw: Raw) -> Option<Value> {
    Some(match raw {
        Raw::NULL => Value::Null,
        Raw::Int(number) => Value::Integer(number),
        // Integers above the signed range become decimals.
        Raw::UInt(number) => i64::try_from(number).map_or(Value::Decimal(number.to_string()), Value::Integer),
        Raw::Float(number) => Value::Float(number.into()),
        Raw::Double(number) => Value::Float(number),
        Raw::Bytes(bytes) => match column.column_type() {
            ColumnType::MYSQL_TYPE_NEWDECIMAL | ColumnType::MYSQL_TYPE_DECIMAL => {
                Value::Decimal(String::from_utf8(bytes).ok()?)
            }
            ColumnType::MYSQL_TYPE_BIT | ColumnType::MYSQL_TYPE_GEOMETRY => Value::Bytes(bytes),
            _ if column.character_set() == BINARY && column.flags().contains(ColumnFlags::BINARY_FLAG) => {
                Value::Bytes(bytes)
            }
            _ => Value::Text(String::from_utf8(bytes).ok()?),
        },
        Raw::Date(year, month, day, hour, minute, second, micros) => {
            let date = format!("{year:04}-{month:02}-{day:02}");
            Value::Text(match column.column_type() {
                ColumnType::MYSQL_TYPE_DATE | ColumnType::MYSQL_TYPE_NEWDATE => date,
                _ => format!("{date} {}", clock(hour.into(), minute, second, micros)),
            })
        }
        Raw::Time(is_negative, days, hours, minutes, seconds, micros) => {
            let sign = if is_negative { "-" } else { "" };
            let text = clock(days * 24 + u32::from(hours), minutes, seconds, micros);
            Value::Text(format!("{sign}{text}"))
        }
    })
}

fn clock(hours: u32, minutes: u8, seconds: u8, micros: u32) -> String {
    let text = format!("{hours:02}:{minutes:02}:{seconds:02}");
    if micros == 0 { text } else { format!("{text}.{micros:06}") }
}
