//! What a line asks for.

use anyhow::Result;
use serde_json::Value;

use super::csv;
use super::line_reader::Line;
use crate::cli_error::CliError;
use crate::config::nearest;

/// The fields that mean something.
const FIELDS: [&str; 5] = ["key", "table", "row", "delta", "id"];

/// What a line asks for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Record {
    /// `table/row`, or a row of the default table.
    pub key: String,
    pub delta: i64,
    pub id: Option<String>,
}

/// Reads lines.
pub struct Reader {
    is_csv: bool,
    /// The names of the columns, once they have come.
    columns: Option<Vec<String>>,
    table: Option<String>,
    others_allowed: bool,
}

/// The texts of the fields that were there.
#[derive(Default)]
struct Found {
    key: Option<String>,
    table: Option<String>,
    row: Option<String>,
    delta: Option<String>,
    id: Option<String>,
}

impl Found {
    fn place(&mut self, name: &str) -> Option<&mut Option<String>> {
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

    /// Takes the names of the columns, if the line has them; says whether it does.
    pub fn look(&mut self, line: &Line) -> Result<bool> {
        if !self.is_csv || self.columns.is_some() {
            return Ok(false);
        }
        // Some programs begin a file with a mark of its encoding.
        let names = csv::fields(line.text.trim_start_matches('\u{feff}')).unwrap_or_default();
        let names: Vec<String> = names.iter().map(|name| name.trim().to_ascii_lowercase()).collect();
        let wrong = match names.iter().find(|name| !FIELDS.contains(&name.as_str())) {
            Some(name) if !self.others_allowed => Some(unknown(name)),
            _ if !names.iter().any(|name| name == "key" || name == "row") => {
                Some("no column is named key or row".into())
            }
            _ => None,
        };
        if let Some(why) = wrong {
            return Err(CliError::of(
                anyhow::anyhow!(why),
                "the first line does not name the columns",
                "begin the file with a line as key,delta,id; other columns are let pass by --other-fields",
            ));
        }
        self.columns = Some(names);
        Ok(true)
    }

    /// Reads a line. Nothing, if it asks for nothing.
    pub fn read(&mut self, line: &Line) -> Result<Result<Option<Record>, String>> {
        if self.look(line)? || line.text.trim().is_empty() {
            return Ok(Ok(None));
        }
        let found = if self.is_csv { self.of_csv(&line.text) } else { self.of_json(&line.text) };
        Ok(found.and_then(|found| self.record(found)).map(Some))
    }

    fn of_csv(&self, text: &str) -> Result<Found, String> {
        let (fields, columns) = (csv::fields(text)?, self.columns.as_deref().unwrap_or_default());
        if fields.len() != columns.len() {
            return Err(format!("{} fields where the first line has {}", fields.len(), columns.len()));
        }
        let mut found = Found::default();
        for (name, field) in columns.iter().zip(fields) {
            if let Some(place) = found.place(name)
                && !field.is_empty()
            {
                *place = Some(field);
            }
        }
        Ok(found)
    }

    fn of_json(&self, text: &str) -> Result<Found, String> {
        let value: Value = serde_json::from_str(text).map_err(|why| format!("not JSON: {why}"))?;
        let Value::Object(fields) = value else { return Err("not an object".into()) };
        let mut found = Found::default();
        for (name, value) in fields {
            let Some(place) = found.place(&name) else {
                if self.others_allowed {
                    continue;
                }
                return Err(unknown(&name));
            };
            *place = match value {
                Value::Null => None,
                Value::String(text) => Some(text),
                Value::Number(number) => Some(number.to_string()),
                _ => return Err(format!("{name} is neither a text nor a number")),
            };
        }
        Ok(found)
    }

    fn record(&self, found: Found) -> Result<Record, String> {
        let key = match (found.key, found.table.or_else(|| self.table.clone()), found.row) {
            (Some(key), _, None) => key,
            (None, Some(table), Some(row)) => format!("{table}/{row}"),
            (None, None, Some(row)) => row,
            (Some(_), _, Some(_)) => return Err("it has a key and a row; one of them says it".into()),
            (None, _, None) => return Err("it has no key, and no row".into()),
        };
        let delta = found.delta.as_deref().unwrap_or("1");
        let delta =
            delta.trim().parse().map_err(|_| format!("delta is {delta:?}, not a whole number of 64 bits"))?;
        Ok(Record { key, delta, id: found.id })
    }
}

fn unknown(name: &str) -> String {
    let near = nearest(name, FIELDS).map_or(String::new(), |near| format!("; is {near} meant?"));
    format!("{name:?} is none of key, table, row, delta, id{near} (--other-fields lets it pass)")
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
    fn json_lines_say_which_counter_in_each_way() {
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
            (r#"{"delta": 1}"#, "no key"),
            (r#"{"key": "a", "row": "b"}"#, "a key and a row"),
            (r#"{"key": "a", "detla": 1}"#, "is delta meant?"),
            (r#"{"key": "a", "delta": 1.5}"#, "not a whole number"),
            (r#"{"key": "a", "delta": 9223372036854775808}"#, "not a whole number"),
            (r#"{"key": ["a"]}"#, "neither a text"),
        ] {
            let told = read(&mut reader, text).unwrap_err();
            assert!(told.contains(words), "{text}: {told}");
        }
    }

    #[test]
    fn csv_lines_are_read_by_the_names_of_the_first() {
        let mut reader = Reader::new(true, None, false);
        assert_eq!(read(&mut reader, "\u{feff}Key, delta,id"), Ok(None));
        assert_eq!(read(&mut reader, "a/b,3,"), record("a/b", 3, None));
        assert_eq!(read(&mut reader, "\"a/,b\",,x"), record("a/,b", 1, Some("x")));
        assert!(read(&mut reader, "a,b").unwrap_err().contains("2 fields where the first line has 3"));
        for header in ["delta,id", "key,cuont"] {
            let line = Line { number: 1, text: header.into() };
            assert!(Reader::new(true, None, false).look(&line).is_err(), "{header}");
        }
        let line = Line { number: 1, text: "key,colour".into() };
        assert!(Reader::new(true, None, true).look(&line).unwrap());
    }
}
