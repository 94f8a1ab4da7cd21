//! Rust source as the rules read it: comments and literals blanked out, tests blanked out on request.
//!
//! Blanking keeps every byte position and every line, so a finding in the blanked text has its place in the file. This
//! is a reader for formatted code and no parser: it knows comments, literals, brackets and attributes, and that is
//! enough to distinguish a call from a comment.

/// Blanks comments and the insides of string and character literals.
pub fn without_comments(text: &str) -> String {
    let bytes = text.as_bytes();
    let mut out = bytes.to_vec();
    let mut at = 0;
    while at < bytes.len() {
        let rest = &bytes[at..];
        if rest.starts_with(b"//") {
            let end = at + rest.iter().position(|&b| b == b'\n').unwrap_or(rest.len());
            blank(&mut out, at, end);
            at = end;
        } else if rest.starts_with(b"/*") {
            let end = at + block_comment_len(rest);
            blank(&mut out, at, end);
            at = end;
        } else if rest[0] == b'"' {
            let end = at + string_len(rest);
            blank(&mut out, at + 1, end - 1);
            at = end;
        } else if rest[0] == b'\'' {
            let len = char_len(text, at);
            if len > 1 {
                blank(&mut out, at + 1, at + len - 1);
            }
            at += len;
        } else if is_word(rest[0]) {
            let len = rest.iter().position(|&b| !is_word(b)).unwrap_or(rest.len());
            let raw = matches!(&rest[..len], b"r" | b"br" | b"cr");
            at += len;
            if raw && let Some(raw_len) = raw_string_len(&bytes[at..]) {
                blank(&mut out, at, at + raw_len);
                at += raw_len;
            }
        } else {
            at += 1;
        }
    }
    String::from_utf8_lossy(&out).into_owned()
}

/// Blanks the items that only a test build has: `#[cfg(test)]`, and `all(..)` with `test` in it. Takes code without
/// comments.
pub fn without_tests(code: &str) -> String {
    let mut out = code.as_bytes().to_vec();
    if code
        .match_indices("#![cfg(")
        .any(|(at, _)| attribute(code, at).is_some_and(|a| is_test_only(a.predicate)))
    {
        let end = out.len();
        blank(&mut out, 0, end);
    }
    for (start, end) in test_items(code) {
        blank(&mut out, start, end);
    }
    String::from_utf8_lossy(&out).into_owned()
}

/// The names of the modules that are in files of their own and only in a test build. Takes code without comments.
pub fn test_modules(code: &str) -> Vec<&str> {
    test_items(code)
        .into_iter()
        .filter_map(|(start, end)| {
            let (_, name) = code[start..end].strip_suffix(';')?.rsplit_once("mod ")?;
            name.bytes().all(is_word).then_some(name)
        })
        .collect()
}

/// The places of `pattern` in `code`; where it begins or ends with a letter, it must be a whole word there.
pub fn places<'a>(code: &'a str, pattern: &'a str) -> impl Iterator<Item = usize> + 'a {
    let is_inside =
        |neighbour: Option<u8>, own: Option<u8>| neighbour.is_some_and(is_word) && own.is_some_and(is_word);
    code.match_indices(pattern).map(|(at, _)| at).filter(move |&at| {
        let (before, after) = (&code.as_bytes()[..at], &code.as_bytes()[at + pattern.len()..]);
        !is_inside(before.last().copied(), pattern.bytes().next())
            && !is_inside(after.first().copied(), pattern.bytes().last())
    })
}

/// The line of a byte position, counted from 1.
pub fn line(text: &str, at: usize) -> usize {
    1 + text.bytes().take(at).filter(|&b| b == b'\n').count()
}

/// Blanks a range, sparing the line ends.
pub fn blank(bytes: &mut [u8], start: usize, end: usize) {
    for byte in &mut bytes[start..end.max(start)] {
        if *byte != b'\n' {
            *byte = b' ';
        }
    }
}

fn is_word(byte: u8) -> bool {
    byte == b'_' || byte.is_ascii_alphanumeric()
}

fn block_comment_len(bytes: &[u8]) -> usize {
    let (mut at, mut depth) = (0, 0);
    while at < bytes.len() {
        if bytes[at..].starts_with(b"/*") {
            depth += 1;
            at += 2;
        } else if bytes[at..].starts_with(b"*/") {
            depth -= 1;
            at += 2;
            if depth == 0 {
                return at;
            }
        } else {
            at += 1;
        }
    }
    bytes.len()
}

/// The length of a string literal that begins with its quote.
fn string_len(bytes: &[u8]) -> usize {
    let mut at = 1;
    while at < bytes.len() {
        match bytes[at] {
            b'\\' => at += 2,
            b'"' => return at + 1,
            _ => at += 1,
        }
    }
    bytes.len()
}

/// The length of what follows the `r` of a raw string, or nothing if it is not one (`r#type`).
fn raw_string_len(bytes: &[u8]) -> Option<usize> {
    let hashes = bytes.iter().take_while(|&&b| b == b'#').count();
    if bytes.get(hashes) != Some(&b'"') {
        return None;
    }
    let close: Vec<u8> = std::iter::once(b'"').chain(std::iter::repeat_n(b'#', hashes)).collect();
    let body = &bytes[hashes + 1..];
    let len = body.windows(close.len()).position(|window| window == close);
    Some(len.map_or(bytes.len(), |len| hashes + 1 + len + close.len()))
}

/// The length of a character literal that begins at `at` with its quote; 1 if the quote begins a lifetime.
fn char_len(text: &str, at: usize) -> usize {
    let mut chars = text[at + 1..].char_indices();
    match chars.next() {
        // The escaped character may be a quote: look for the closing one after it.
        Some((_, '\\')) => text[at + 1..].get(2..).and_then(|tail| tail.find('\'')).map_or(1, |len| len + 4),
        Some(_) => match chars.next() {
            Some((len, '\'')) => len + 2,
            _ => 1,
        },
        None => 1,
    }
}

/// Where the test-only items of a file begin and end, attribute included.
fn test_items(code: &str) -> Vec<(usize, usize)> {
    code.match_indices("#[cfg(")
        .filter_map(|(start, _)| {
            let attribute = attribute(code, start)?;
            if !is_test_only(attribute.predicate) {
                return None;
            }
            let mut item = skip_space(code, attribute.end);
            while code[item..].starts_with("#[") {
                item = skip_space(code, item + 1 + bracket_len(&code[item + 1..])?);
            }
            is_item(&code[item..]).then(|| (start, item + item_len(&code[item..])))
        })
        .collect()
}

struct Attribute<'a> {
    predicate: &'a str,
    /// The position after its closing bracket.
    end: usize,
}

/// The `cfg` attribute at `at`.
fn attribute(code: &str, at: usize) -> Option<Attribute<'_>> {
    let open = at + code[at..].find('[')?;
    let end = open + bracket_len(&code[open..])?;
    let predicate = code[open..end].strip_prefix("[cfg(")?.strip_suffix(")]")?;
    Some(Attribute { predicate, end })
}

fn is_test_only(predicate: &str) -> bool {
    let predicate = predicate.trim();
    match predicate.strip_prefix("all(").and_then(|rest| rest.strip_suffix(')')) {
        Some(parts) => split_at_commas(parts).any(is_test_only),
        None => predicate == "test",
    }
}

/// Splits at the commas outside of every bracket.
pub fn split_at_commas(text: &str) -> impl Iterator<Item = &str> {
    let mut depth = 0;
    text.split(move |c| {
        match c {
            '(' | '[' | '{' => depth += 1,
            ')' | ']' | '}' => depth -= 1,
            _ => {}
        }
        c == ',' && depth == 0
    })
}

/// Whether an item begins here, and not a field, a match arm or a statement, whose end this reader cannot tell.
fn is_item(code: &str) -> bool {
    const FIRST_WORDS: &[&str] = &[
        "async",
        "const",
        "enum",
        "extern",
        "fn",
        "impl",
        "macro_rules",
        "mod",
        "pub",
        "static",
        "struct",
        "trait",
        "type",
        "unsafe",
        "use",
    ];
    let word = code.split(|c: char| !c.is_ascii_alphabetic() && c != '_').next();
    word.is_some_and(|word| FIRST_WORDS.contains(&word))
}

/// The length of an item: to its `;` or to the end of its body.
fn item_len(code: &str) -> usize {
    let mut at = 0;
    while at < code.len() {
        match code.as_bytes()[at] {
            b';' => return at + 1,
            b'{' => return bracket_len(&code[at..]).map_or(code.len(), |len| at + len),
            b'(' | b'[' => at += bracket_len(&code[at..]).unwrap_or(code.len() - at),
            _ => at += 1,
        }
    }
    code.len()
}

/// The length of a bracketed text that begins with its opening bracket, of any kind.
fn bracket_len(code: &str) -> Option<usize> {
    let mut depth = 0;
    for (at, byte) in code.bytes().enumerate() {
        match byte {
            b'(' | b'[' | b'{' => depth += 1,
            b')' | b']' | b'}' => depth -= 1,
            _ => {}
        }
        if depth == 0 {
            return Some(at + 1);
        }
    }
    None
}

fn skip_space(code: &str, at: usize) -> usize {
    at + (code[at..].len() - code[at..].trim_start().len())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// In the expectations `_` stands for a blanked byte.
    fn check(input: &str, expected: &str) {
        assert_eq!(without_comments(input), expected.replace('_', " "), "input: {input}");
    }

    #[test]
    fn comments_are_blank() {
        check("a // b\nc", "a ____\nc");
        check("//! b\n/// c\nd", "_____\n_____\nd");
        check("a /* b /* c */ \n d */ e", "a _____________\n_____ e");
        check("a /* b", "a ____");
    }

    #[test]
    fn literals_are_blank_and_their_quotes_stay() {
        check(r#"f("a // b") // c"#, r#"f("______") ____"#);
        check(r#"f("a\"b", x)"#, r#"f("____", x)"#);
        check(r##"f(r#"a"b"#, x)"##, r##"f(r_______, x)"##);
        check(r#"f(br"a\", x)"#, r#"f(br____, x)"#);
        check("f(\"é\") // é", "f(\"__\") _____");
    }

    #[test]
    fn characters_differ_from_lifetimes() {
        check(r#"f('"', "a")"#, r#"f('_', "_")"#);
        check(r"f('\'', b'\\', '\u{1F}', x)", "f('__', b'__', '______', x)");
        check("f<'a>(x: &'a str, y: 'é')", "f<'a>(x: &'a str, y: '__')");
        check("fn r#type() {}", "fn r#type() {}");
    }

    #[test]
    fn test_items_are_blank_and_the_rest_stays() {
        let code = "fn a() {}\n#[cfg(test)]\n#[allow(x)]\nmod tests {\n    fn b() { c() }\n}\nfn d() {}\n";
        let kept = without_tests(code);
        assert_eq!(kept.len(), code.len());
        assert_eq!(kept.split_whitespace().collect::<String>(), "fna(){}fnd(){}");

        let only = |item: &str| without_tests(item).trim().to_string();
        assert_eq!(only("#[cfg(all(test, not(loom)))] mod t { x }"), "");
        assert_eq!(only("#[cfg(test)] fn f(a: [u8; 2]) { g(); } h"), "h");
        assert_eq!(only("#![cfg(test)]\nfn f() {}"), "");
        for kept in
            ["#[cfg(not(test))] fn f() {}", "#[cfg(any(test, loom))] fn f() {}", "#[cfg(loom)] mod m {}"]
        {
            assert_eq!(only(kept), kept);
        }
    }

    #[test]
    fn test_modules_in_their_own_files_are_named() {
        let code = "mod a;\n#[cfg(test)]\nmod b;\n#[cfg(test)]\npub(crate) mod c;\n#[cfg(test)]\nmod d {}\n";
        assert_eq!(test_modules(code), ["b", "c"]);
    }

    #[test]
    fn a_pattern_is_found_as_a_whole_word() {
        let at = |code, pattern| places(code, pattern).collect::<Vec<_>>();
        assert_eq!(at("rand::x operand::y", "rand::"), [0]);
        assert_eq!(at("std::fs; std::fs_x", "std::fs"), [0]);
        assert_eq!(at("std::rand::x", "rand::"), [5]);
    }
}
