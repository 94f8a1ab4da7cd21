//! The header `Idempotency-Key` of draft-ietf-httpapi-idempotency-key-header-06: an RFC 8941 item that is a
//! string.
//!
//! A key without quotes is rejected: two lenient interpretations of one key would be two ids, and the
//! operation would count twice.

use axum::http::HeaderMap;

pub const NAME: &str = "idempotency-key";

pub fn read(headers: &HeaderMap) -> Result<Option<String>, &'static str> {
    let mut values = headers.get_all(NAME).iter();
    let Some(value) = values.next() else { return Ok(None) };
    if values.next().is_some() {
        return Err("it occurs more than once");
    }
    parse(value.as_bytes()).map(Some)
}

fn parse(value: &[u8]) -> Result<String, &'static str> {
    let value = value.trim_ascii();
    let (text, mut rest) = string(value)?;
    // Parameters are allowed and ignored.
    while let [b';', after @ ..] = rest {
        rest = parameter(after.trim_ascii_start())?;
    }
    if rest.is_empty() { Ok(text) } else { Err("the string is followed by something other than a parameter") }
}

fn string(value: &[u8]) -> Result<(String, &[u8]), &'static str> {
    let Some((b'"', mut rest)) = value.split_first() else {
        return Err(
            "it must be a string in quotes, such as Idempotency-Key: \"01890a5d-ac96-774b-bcce-b302099a8057\"",
        );
    };
    let mut text = String::new();
    loop {
        rest = match rest {
            [b'"', after @ ..] => return Ok((text, after)),
            [b'\\', byte @ (b'"' | b'\\'), after @ ..] => {
                text.push(char::from(*byte));
                after
            }
            [b'\\', ..] => return Err("a backslash must precede a quote or a backslash"),
            [byte @ 0x20..=0x7e, after @ ..] => {
                text.push(char::from(*byte));
                after
            }
            [_, ..] => return Err("it must consist of printable ASCII characters"),
            [] => return Err("the closing quote is missing"),
        };
    }
}

/// The rest after a parameter.
fn parameter(text: &[u8]) -> Result<&[u8], &'static str> {
    const WRONG: &str = "a parameter after the string is malformed";
    let name = |byte: &u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || b"_-.*".contains(byte);
    let end = text.iter().position(|byte| !name(byte)).unwrap_or(text.len());
    if !text.first().is_some_and(|first| first.is_ascii_lowercase() || *first == b'*') {
        return Err(WRONG);
    }
    match &text[end..] {
        [b'=', value @ ..] if value.starts_with(b"\"") => Ok(string(value)?.1),
        [b'=', value @ ..] => {
            let end = value.iter().position(|byte| *byte == b';').unwrap_or(value.len());
            let plain = |byte: &u8| byte.is_ascii_graphic() && !b"\",".contains(byte);
            if end > 0 && value[..end].iter().all(plain) { Ok(&value[end..]) } else { Err(WRONG) }
        }
        rest => Ok(rest),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn strings_with_and_without_parameters_are_accepted() {
        for (value, text) in [
            ("\"abc\"", "abc"),
            ("  \"abc\"  ", "abc"),
            ("\"\"", ""),
            (r#""a\"b\\c""#, "a\"b\\c"),
            ("\"a;b\"", "a;b"),
            ("\"abc\";v=1", "abc"),
            ("\"abc\"; v=1;flag; w=\"x;y\";z=?0", "abc"),
        ] {
            assert_eq!(parse(value.as_bytes()).as_deref(), Ok(text), "{value}");
        }
    }

    #[test]
    fn other_values_are_rejected() {
        let quoted =
            r#"|abc|"abc|abc"|'abc'|"a" b|"a", "b"|"a\n"|"a";|"a";V=1|"a";v=|"a";v=1,2|:YWJj:|?1|12"#;
        for value in quoted.split('|').chain(["\"\u{e9}\"", "\"a\tb\""]) {
            assert!(parse(value.as_bytes()).is_err(), "{value}");
        }
    }
}
