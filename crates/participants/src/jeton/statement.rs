//! Parser for statements.

use jeton_etx::Value;
use serde_json::json;

#[derive(Debug, PartialEq, Eq)]
pub enum Statement {
    Add(Addition),
    Get(CounterRef),
}

/// The address of a counter.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CounterRef {
    pub table: String,
    pub counter: String,
    pub column: Option<String>,
}

/// An addition to a counter.
#[derive(Debug, PartialEq, Eq)]
pub struct Addition {
    pub place: CounterRef,
    pub amount: i64,
    pub min: Option<i64>,
    pub max: Option<i64>,
}

impl Addition {
    pub fn to_json(&self) -> serde_json::Value {
        let Self { place: CounterRef { table, counter, column }, amount, min, max } = self;
        json!({"table": table, "row": counter, "column": column, "delta": amount, "min": min, "max": max})
    }
}

/// A word, and whether it was unquoted: only unquoted words can be keywords.
struct Word {
    text: String,
    is_plain: bool,
}

impl Statement {
    /// Parses a statement, or returns what is wrong with it.
    pub fn read(statement: &str, parameters: &[Value]) -> Result<Self, String> {
        let mut words = words(statement, parameters)?.into_iter();
        let verb = words.next().ok_or("the statement is empty")?;
        let mut next = |what: &str| words.next().map(|word| word.text).ok_or(format!("{what} is missing"));
        let is_add = match verb.text.to_ascii_uppercase().as_str() {
            "ADD" if verb.is_plain => true,
            "GET" if verb.is_plain => false,
            _ => return Err("a statement is ADD <table> <counter> <amount> or GET <table> <counter>".into()),
        };
        let mut place = CounterRef { table: next("the table")?, counter: next("the counter")?, column: None };
        let amount = if is_add { number(&next("the amount")?)? } else { 0 };
        let (mut min, mut max) = (None, None);
        while let Some(word) = words.next() {
            let value = words.next().map(|word| word.text);
            let value = value.ok_or_else(|| format!("the value of {} is missing", word.text))?;
            let twice = match word.text.to_ascii_uppercase().as_str() {
                "MIN" if is_add && word.is_plain => min.replace(number(&value)?).is_some(),
                "MAX" if is_add && word.is_plain => max.replace(number(&value)?).is_some(),
                "COLUMN" if word.is_plain => place.column.replace(value).is_some(),
                _ => return Err(format!("unexpected word {:?}", word.text)),
            };
            if twice {
                return Err(format!("{} appears twice", word.text));
            }
        }
        Ok(if is_add { Self::Add(Addition { place, amount, min, max }) } else { Self::Get(place) })
    }
}

fn number(text: &str) -> Result<i64, String> {
    text.parse().map_err(|_| format!("{text:?} is not an integer of 64 bits"))
}

fn words(statement: &str, parameters: &[Value]) -> Result<Vec<Word>, String> {
    let mut words = Vec::new();
    let mut given = parameters.iter();
    let mut rest = statement.trim_start();
    while let Some(first) = rest.chars().next() {
        let mut text = String::new();
        let is_quoted = matches!(first, '\'' | '"');
        if is_quoted {
            rest = &rest[1..];
            loop {
                let end = rest.find(first).ok_or("a quote is not closed")?;
                text += &rest[..end];
                rest = &rest[end + 1..];
                match rest.strip_prefix(first) {
                    Some(more) => {
                        text.push(first);
                        rest = more;
                    }
                    None => break,
                }
            }
            if rest.starts_with(|letter: char| !letter.is_whitespace()) {
                return Err("a quoted word must be followed by a space".into());
            }
        } else {
            let end = rest.find(char::is_whitespace).unwrap_or(rest.len());
            text += &rest[..end];
            rest = &rest[end..];
        }
        let is_parameter = !is_quoted && text == "?";
        if is_parameter {
            text = text_of(given.next().ok_or("there are fewer parameters than placeholders")?)?;
        }
        words.push(Word { text, is_plain: !is_quoted && !is_parameter });
        rest = rest.trim_start();
    }
    if given.next().is_some() {
        return Err("there are more parameters than placeholders".into());
    }
    Ok(words)
}

fn text_of(value: &Value) -> Result<String, String> {
    match value {
        Value::Text(text) | Value::Decimal(text) => Ok(text.clone()),
        Value::Integer(number) => Ok(number.to_string()),
        Value::Bytes(bytes) => String::from_utf8(bytes.clone()).map_err(|_| "a name must be text".into()),
        Value::Null | Value::Bool(_) | Value::Float(_) => {
            Err(format!("{value:?} is neither a name nor an integer"))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn place(table: &str, counter: &str) -> CounterRef {
        CounterRef { table: table.into(), counter: counter.into(), column: None }
    }

    #[test]
    fn statements_are_parsed() {
        let add = |counter: &str, amount, min, max| {
            Ok(Statement::Add(Addition { place: place("stock", counter), amount, min, max }))
        };
        assert_eq!(Statement::read("ADD stock apples -5", &[]), add("apples", -5, None, None));
        assert_eq!(
            Statement::read("  add stock\n 'red ''apples''' 5 max 9 MIN 0", &[]),
            add("red 'apples'", 5, Some(0), Some(9))
        );
        let given = [Value::Text("MIN".into()), Value::Integer(-5), Value::Decimal("0".into())];
        assert_eq!(Statement::read("ADD stock ? ? MIN ?", &given), add("MIN", -5, Some(0), None));
        // A quoted question mark is a name.
        assert_eq!(Statement::read("ADD stock \"?\" 1", &[]), add("?", 1, None, None));
        assert_eq!(Statement::read("GET stock apples", &[]), Ok(Statement::Get(place("stock", "apples"))));
        let column = CounterRef { column: Some("a:b".into()), ..place("stock", "apples") };
        assert_eq!(Statement::read("get stock apples column a:b", &[]), Ok(Statement::Get(column)));
    }

    #[test]
    fn invalid_statements_are_rejected() {
        let one = [Value::Integer(1)];
        for (statement, parameters) in [
            ("", &[][..]),
            ("SET stock apples 5", &[]),
            ("'ADD' stock apples 5", &[]),
            ("ADD stock apples", &[]),
            ("ADD stock apples five", &[]),
            ("ADD stock apples 9223372036854775808", &[]),
            ("ADD stock apples 1 MIN", &[]),
            ("ADD stock apples 1 MIN 0 MIN 1", &[]),
            ("ADD stock apples 1 'MIN' 0", &[]),
            ("ADD stock apples 1; ADD stock pears 1", &[]),
            ("GET stock apples MIN 0", &[]),
            ("ADD stock 'apples 1", &[]),
            ("ADD stock 'apples'1 1", &[]),
            ("ADD stock ? ?", &one),
            ("ADD stock apples 1", &one),
            ("ADD stock apples ?", &[Value::Null]),
            ("ADD stock apples ?", &[Value::Float(1.0)]),
        ] {
            assert!(Statement::read(statement, parameters).is_err(), "{statement}");
        }
    }
}
