//! Inline commands: a line of words, with the quoting rules of Redis.
//!
//! In double quotes `\n \r \t \b \a` and `\xHH` stand for bytes; a backslash before any other byte stands for
//! that byte. In single quotes only `\'` is an escape. A quote may open inside a word. A closing quote ends
//! the word: a blank or the end of the line must follow.

/// A quote is not closed, or a closing quote is not followed by a blank.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Unbalanced;

/// Splits a line into words. Appends the unescaped words to `text` and calls `word` with the start and end of
/// each in `text`.
pub fn split(line: &[u8], text: &mut Vec<u8>, mut word: impl FnMut(usize, usize)) -> Result<(), Unbalanced> {
    let mut rest = line;
    loop {
        while let [blank, after @ ..] = rest
            && is_blank(*blank)
        {
            rest = after;
        }
        if rest.is_empty() {
            return Ok(());
        }
        let start = text.len();
        rest = take_word(rest, text)?;
        word(start, text.len());
    }
}

/// Whether a line is the first line of an HTTP request, with any method, or a `Host` header. Redis checks for
/// `POST` and `Host:` only.
pub fn is_http(line: &[u8]) -> bool {
    let mut words = line.split(|byte| is_blank(*byte)).filter(|word| !word.is_empty());
    let first = words.next().unwrap_or_default();
    let is_version = |word: &[u8]| {
        matches!(word, [b'H', b'T', b'T', b'P', b'/', major, b'.', minor]
            if major.is_ascii_digit() && minor.is_ascii_digit())
    };
    first.eq_ignore_ascii_case(b"POST")
        || first.get(..5).is_some_and(|name| name.eq_ignore_ascii_case(b"Host:"))
        || words.nth(1).is_some_and(is_version) && words.next().is_none()
}

/// Appends the first word to `text` and returns the rest of the line.
fn take_word<'a>(mut rest: &'a [u8], text: &mut Vec<u8>) -> Result<&'a [u8], Unbalanced> {
    loop {
        match rest {
            // Redis skips vertical tabs and form feeds between words, but does not end a word at them.
            [] | [b' ' | b'\n' | b'\r' | b'\t', ..] => return Ok(rest),
            [quote @ (b'"' | b'\''), quoted @ ..] => return take_quoted(*quote, quoted, text),
            [byte, after @ ..] => {
                text.push(*byte);
                rest = after;
            }
        }
    }
}

fn take_quoted<'a>(quote: u8, mut rest: &'a [u8], text: &mut Vec<u8>) -> Result<&'a [u8], Unbalanced> {
    loop {
        let (byte, after) = match (quote, rest) {
            (_, []) => return Err(Unbalanced),
            (_, [byte, after @ ..]) if *byte == quote => {
                let closed = after.first().is_none_or(|next| is_blank(*next));
                return if closed { Ok(after) } else { Err(Unbalanced) };
            }
            (b'"', [b'\\', b'x', high, low, after @ ..])
                if high.is_ascii_hexdigit() && low.is_ascii_hexdigit() =>
            {
                (hex(*high) << 4 | hex(*low), after)
            }
            (b'"', [b'\\', escaped, after @ ..]) => (unescaped(*escaped), after),
            (_, [b'\\', b'\'', after @ ..]) => (b'\'', after),
            (_, [byte, after @ ..]) => (*byte, after),
        };
        text.push(byte);
        rest = after;
    }
}

fn is_blank(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t'..=b'\r')
}

fn hex(digit: u8) -> u8 {
    match digit {
        b'0'..=b'9' => digit - b'0',
        _ => (digit | 0x20) - b'a' + 10,
    }
}

fn unescaped(byte: u8) -> u8 {
    match byte {
        b'n' => b'\n',
        b'r' => b'\r',
        b't' => b'\t',
        b'b' => 0x08,
        b'a' => 0x07,
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(line: &[u8]) -> Result<Vec<Vec<u8>>, Unbalanced> {
        let (mut text, mut ranges) = (Vec::new(), Vec::new());
        split(line, &mut text, |start, end| ranges.push(start..end))?;
        Ok(ranges.into_iter().map(|range| text[range].to_vec()).collect())
    }

    #[track_caller]
    fn check(cases: &[(&[u8], &[&[u8]])]) {
        for (line, expected) in cases {
            assert_eq!(words(line).unwrap(), *expected, "{}", line.escape_ascii());
        }
    }

    #[test]
    fn splits_words_at_blanks() {
        check(&[
            (&b""[..], &[][..]),
            (b" \t\x0b\x0c\r ", &[]),
            (b"PING", &[&b"PING"[..]]),
            (b"  jadd  a\t1 ", &[b"jadd", b"a", b"1"]),
            (b"a\x0bb \x0bc", &[b"a\x0bb", b"c"]),
            (b"a\\nb", &[b"a\\nb"]),
            (b"\xff\x00 \x80", &[b"\xff\x00", b"\x80"]),
        ]);
    }

    #[test]
    fn http_requests_are_recognised_by_their_shape() {
        for line in [
            "POST / HTTP/1.1\r",
            "post",
            "GET / HTTP/1.1\r",
            "  GET\t/\"x HTTP/1.0",
            "SET /key HTTP/1.1",
            "PRI * HTTP/2.0",
            "Host: a\r",
            "HOST:a",
        ] {
            assert!(is_http(line.as_bytes()), "{line}");
        }
        for line in
            ["", "GET /", "GET HTTP/1.1", "GET a b HTTP/1.1", "SET a HTTP/1.1 EX", "SET a HTTP", "HOST a"]
        {
            assert!(!is_http(line.as_bytes()), "{line}");
        }
    }

    #[test]
    fn unescapes_double_quotes() {
        check(&[
            (&br#""""#[..], &[&b""[..]][..]),
            (br#""a b" c"#, &[b"a b", b"c"]),
            (br#""\n\r\t\b\a""#, &[b"\n\r\t\x08\x07"]),
            (br#""\x00\xff\xAb\xaB""#, &[b"\x00\xff\xab\xab"]),
            (br#""\xg0\x0""#, &[b"xg0x0"]),
            (br#""\"\\\q'""#, &[b"\"\\q'"]),
            (br#"key"in a word""#, &[b"keyin a word"]),
            (b"\"a\"\x0b\"b\"", &[b"a", b"b"]),
        ]);
    }

    #[test]
    fn single_quotes_have_one_escape() {
        check(&[
            (&b"''"[..], &[&b""[..]][..]),
            (br"'a b' c", &[b"a b", b"c"]),
            (br#"'\n\x41"'"#, &[br#"\n\x41""#]),
            (br"'it\'s'", &[b"it's"]),
            (br"a'b c'", &[b"ab c"]),
        ]);
    }

    #[test]
    fn rejects_unbalanced_quotes() {
        let double = [r#"""#, r#"a "b"#, r#""a\""#, r#""a"b"#, r#""a""b""#, r#""a\"#];
        for line in double.into_iter().chain(["'", "a 'b", r"'a\'", "'a'b", r#"'a'"b""#]) {
            assert_eq!(words(line.as_bytes()), Err(Unbalanced), "{line}");
        }
    }
}
