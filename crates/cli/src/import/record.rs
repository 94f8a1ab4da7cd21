//! Parses records: NDJSON and CSV.

use anyhow::Result;
use jeton_server::nearest;
use serde_json::Value;

use super::csv_line;
use super::line_reader::Line;
use crate::cli_error::CliError;

/// Known fields.
const FIELDS: [&str; 5] = ["key", "table", "row", "delta", "id"];

/// An operation of the file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Record {
    /// `table/row`, or a row of the default table.
    pub key: String,
    pub delta: i64,
    pub id: Option<String>,
}

/// Parses the records of a file.
pub struct Reader {
    is_csv: bool,
    /// Names of the columns, after the header was read.
    columns: Option<Vec<String>>,
    table: Option<String>,
    others_allowed: bool,
}

/// The fields of a record as text.
#[derive(Default)]
struct Fields {
    key: Option<String>,
    table: Option<String>,
    row: Option<String>,
    delta: Option<String>,
    id: Option<String>,
}

impl Fields {
    fn field_mut(&mut self, name: &str) -> Option<&mut Option<String>> {
        Some(match name {
            "key" => &mut self.key,
            "table" => &mut self.table,
            "row" => &mut self.row,
            "delta" => &mut self.delta,
            "id" => &mut self.id,
            _ => return None,
        })
    }
}

impl Reader {
    pub fn new(is_csv: bool, table: Option<String>, others_allowed: bool) -> Self {
        Self { is_csv, columns: None, table, others_allowed }
    }

    /// Reads the header if this is the first line of a CSV file. Returns whether it is.
    pub fn read_header(&mut self, line: &Line) -> Result<bool> {
        if !self.is_csv || self.columns.is_some() {
            return Ok(false);
        }
        // Some programs write a byte order mark.
        let names = csv_line::fields(line.text.trim_start_matches('\u{feff}')).unwrap_or_default();
        let names: Vec<String> = names.iter().map(|name| name.trim().to_ascii_lowercase()).collect();
        let invalid = match names.iter().find(|name| !FIELDS.contains(&name.as_str())) {
            Some(name) if !self.others_allowed => Some(unknown(name)),
            _ if !names.iter().any(|name| name == "key" || name == "row") => {
                Some("no column is named key or row".into())
            }
            _ => None,
        };
        if let Some(reason) = invalid {
            return Err(CliError::of(
                anyhow::anyhow!(reason),
                "the header of the CSV file is invalid",
                "start the file with a header such as key,delta,id; --other-fields ignores other columns",
            ));
        }
        self.columns = Some(names);
        Ok(true)
    }

    /// Parses a record. `None` for a header or an empty line.
    pub fn read(&mut self, line: &Line) -> Result<Result<Option<Record>, String>> {
        if self.read_header(line)? || line.text.trim().is_empty() {
            return Ok(Ok(None));
        }
        let found = if self.is_csv { self.parse_csv(&line.text) } else { self.parse_json(&line.text) };
        Ok(found.and_then(|found| self.record(found)).map(Some))
    }

    fn parse_csv(&self, text: &str) -> Result<Fields, String> {
        let (fields, columns) = (csv_line::fields(text)?, self.columns.as_deref().unwrap_or_default());
        if fields.len() != columns.len() {
            return Err(format!("{} fields where the header has {}", fields.len(), columns.len()));
        }
        let mut found = Fields::default();
        for (name, field) in columns.iter().zip(fields) {
            if let Some(place) = found.field_mut(name)
                && !field.is_empty()
            {
                *place = Some(field);
            }
        }
        Ok(found)
    }

    fn parse_json(&self, text: &str) -> Result<Fields, String> {
        let value: Value = serde_json::from_str(text).map_err(|error| format!("not JSON: {error}"))?;
        let Value::Object(fields) = value else { return Err("not an object".into()) };
        let mut found = Fields::default();
        for (name, value) in fields {
            let Some(place) = found.field_mut(&name) else {
                if self.others_allowed {
                    continue;
                }
                return Err(unknown(&name));
            };
            *place = match value {
                Value::Null => None,
                Value::String(text) => Some(text),
                Value::Number(number) => Some(number.to_string()),
                _ => return Err(format!("{name} is not a string or a number")),
            };
        }
        Ok(found)
    }

    fn record(&self, found: Fields) -> Result<Record, String> {
        let key = match (found.key, found.table.or_else(|| self.table.clone()), found.row) {
            (Some(key), _, None) => key,
            (None, Some(table), Some(row)) => format!("{table}/{row}"),
            (None, None, Some(row)) => row,
            (Some(_), _, Some(_)) => return Err("it has both key and row".into()),
            (None, _, None) => return Err("it has neither key nor row".into()),
        };
        let delta = found.delta.as_deref().unwrap_or("1");
        let delta = delta.trim().parse().map_err(|_| format!("delta is {delta:?}, not a 64-bit integer"))?;
        Ok(Record { key, delta, id: found.id })
    }
}

fn unknown(name: &str) -> String {
    let near = nearest(name, FIELDS).map_or(String::new(), |near| format!("; did you mean {near}?"));
    format!("unknown field {name:?}{near} (--other-fields ignores it)")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(reader: &mut Reader, text: &str) -> Result<Option<Record>, String> {
        reader.read(&Line { number: 1, text: text.into() }).unwrap()
    }

    fn record(key: &str, delta: i64, id: Option<&str>) -> Result<Option<Record>, String> {
        Ok(Some(Record { key: key.into(), delta, id: id.map(Into::into) }))
    }

    #[test]
    fn json_records_have_key_or_row() {
        let mut reader = Reader::new(false, Some("t".into()), false);
        for (text, expected) in [
            (r#"{"key": "clicks/home", "delta": 5, "id": "x"}"#, record("clicks/home", 5, Some("x"))),
            (r#"{"table": "a", "row": "b", "delta": -1}"#, record("a/b", -1, None)),
            (r#"{"row": "b", "id": null}"#, record("t/b", 1, None)),
            (r#"{"key": "k", "delta": "9223372036854775807"}"#, record("k", i64::MAX, None)),
            ("  ", Ok(None)),
        ] {
            assert_eq!(read(&mut reader, text), expected, "{text}");
        }
        for (text, words) in [
            ("{", "not JSON"),
            ("[]", "not an object"),
            (r#"{"delta": 1}"#, "neither key nor row"),
            (r#"{"key": "a", "row": "b"}"#, "both key and row"),
            (r#"{"key": "a", "detla": 1}"#, "did you mean delta?"),
            (r#"{"key": "a", "delta": 1.5}"#, "not a 64-bit integer"),
            (r#"{"key": "a", "delta": 9223372036854775808}"#, "not a 64-bit integer"),
            (r#"{"key": ["a"]}"#, "not a string or a number"),
        ] {
            let error = read(&mut reader, text).unwrap_err();
            assert!(error.contains(words), "{text}: {error}");
        }
    }

    #[test]
    fn csv_records_use_the_header() {
        let mut reader = Reader::new(true, None, false);
        assert_eq!(read(&mut reader, "\u{feff}Key, delta,id"), Ok(None));
        assert_eq!(read(&mut reader, "a/b,3,"), record("a/b", 3, None));
        assert_eq!(read(&mut reader, "\"a/,b\",,x"), record("a/,b", 1, Some("x")));
        assert!(read(&mut reader, "a,b").unwrap_err().contains("2 fields where the header has 3"));
        for header in ["delta,id", "key,cuont"] {
            let line = Line { number: 1, text: header.into() };
            assert!(Reader::new(true, None, false).read_header(&line).is_err(), "{header}");
        }
        let line = Line { number: 1, text: "key,colour".into() };
        assert!(Reader::new(true, None, true).read_header(&line).unwrap());
    }
}
