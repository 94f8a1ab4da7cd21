//! CSV records (RFC 4180). A quoted field may contain line breaks.

/// Where a scan of a part of a record ended. The record continues on the next line if it is `Quoted`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Position {
    FieldStart,
    Unquoted,
    Quoted,
    /// After a quote inside a quoted field: its end, or the first half of an escaped quote.
    ClosingQuote,
}

/// Scans the next line of a record. The `csv` crate accepts text after a closing quote; here it is an error.
pub fn scan(position: Position, line: &str) -> Result<Position, &'static str> {
    line.bytes().try_fold(position, |position, byte| match (position, byte) {
        (Position::Quoted, b'"') => Ok(Position::ClosingQuote),
        (Position::Quoted, _) | (Position::FieldStart | Position::ClosingQuote, b'"') => Ok(Position::Quoted),
        (_, b',') => Ok(Position::FieldStart),
        (Position::ClosingQuote, _) => Err("a closing quote is not followed by a comma"),
        _ => Ok(Position::Unquoted),
    })
}

/// The fields of a record.
pub fn fields(text: &str) -> Result<Vec<String>, String> {
    if scan(Position::FieldStart, text)? == Position::Quoted {
        return Err("a quoted field is not closed".into());
    }
    let mut reader = csv::ReaderBuilder::new().has_headers(false).from_reader(text.as_bytes());
    match reader.records().next() {
        Some(record) => {
            let record = record.map_err(|error| error.to_string())?;
            Ok(record.iter().map(str::to_owned).collect())
        }
        None => Ok(vec![String::new()]),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_may_be_quoted_and_contain_line_breaks() {
        for (line, expected) in [
            ("", vec![""]),
            ("a,b", vec!["a", "b"]),
            ("a,,", vec!["a", "", ""]),
            ("\"a,b\",c", vec!["a,b", "c"]),
            ("\"say \"\"hi\"\"\"", vec!["say \"hi\""]),
            ("\"\",x", vec!["", "x"]),
            ("\"a\nb\",c", vec!["a\nb", "c"]),
            ("5\" pipe,3", vec!["5\" pipe", "3"]),
        ] {
            assert_eq!(fields(line).unwrap(), expected, "{line}");
        }
        assert!(fields("\"open").is_err());
        assert!(fields("\"a\"b").is_err());
    }

    #[test]
    fn a_record_is_open_inside_quotes_only() {
        for (text, open) in [("a,\"b", true), ("a,\"b\"\"", true), ("a,\"b\"", false), ("5\" pipe", false)] {
            assert_eq!(scan(Position::FieldStart, text) == Ok(Position::Quoted), open, "{text}");
        }
    }
}
