//! Patterns of names: `*` any bytes, `?` one byte, `[a-z]` and `[^a]` classes, `\` escapes a byte.
//!
//! Invariant: a comparison takes at most the length of the pattern times the length of the name in steps of
//! constant time, whatever the pattern. A pattern is therefore compiled, with a bit set for each class.

/// Maximum bytes of a pattern.
pub const PATTERN_BYTES_MAX: usize = 4096;

/// A compiled pattern.
pub struct Glob(Vec<Token>);

enum Token {
    /// Any number of any bytes.
    Star,
    Any,
    Byte(u8),
    /// A set of bytes, one bit for each.
    Class(Box<[u64; 4]>),
}

impl Token {
    fn accepts(&self, byte: u8) -> bool {
        match self {
            Self::Star => false,
            Self::Any => true,
            Self::Byte(expected) => *expected == byte,
            Self::Class(set) => set[usize::from(byte / 64)] & (1 << (byte % 64)) != 0,
        }
    }
}

impl Glob {
    pub fn parse(pattern: &[u8]) -> Result<Self, String> {
        if pattern.len() > PATTERN_BYTES_MAX {
            return Err(format!("ERR a pattern has at most {PATTERN_BYTES_MAX} bytes"));
        }
        let (mut tokens, mut rest) = (Vec::new(), pattern);
        while let [first, after @ ..] = rest {
            let (token, after) = match (first, after) {
                (b'*', _) => (Token::Star, after),
                (b'?', _) => (Token::Any, after),
                (b'[', _) => class(after),
                (b'\\', [escaped, after @ ..]) => (Token::Byte(*escaped), after),
                (byte, _) => (Token::Byte(*byte), after),
            };
            rest = after;
            tokens.push(token);
        }
        Ok(Self(tokens))
    }

    /// The bytes that every matching name begins with.
    pub fn prefix(&self) -> Vec<u8> {
        let byte = |token: &Token| if let Token::Byte(byte) = token { Some(*byte) } else { None };
        self.0.iter().map_while(byte).collect()
    }

    pub fn matches(&self, name: &[u8]) -> bool {
        let (mut at, mut in_name) = (0, 0);
        // Backtracking position after the last star: the token after it, and the byte to retry from.
        let mut star: Option<(usize, usize)> = None;
        while let Some(byte) = name.get(in_name) {
            match (self.0.get(at), star) {
                (Some(Token::Star), _) => {
                    at += 1;
                    star = Some((at, in_name));
                }
                (Some(token), _) if token.accepts(*byte) => {
                    at += 1;
                    in_name += 1;
                }
                (_, Some((after_star, from))) => {
                    star = Some((after_star, from + 1));
                    (at, in_name) = (after_star, from + 1);
                }
                (_, None) => return false,
            }
        }
        self.0[at..].iter().all(|token| matches!(token, Token::Star))
    }
}

/// The class whose `[` precedes `pattern`, and the rest of the pattern. An unclosed class extends to the end.
fn class(pattern: &[u8]) -> (Token, &[u8]) {
    let (negated, mut rest) = match pattern {
        [b'^', after @ ..] => (true, after),
        _ => (false, pattern),
    };
    let mut set = [0_u64; 4];
    loop {
        let (first, last, after) = match rest {
            [] | [b']', ..] => break,
            [b'\\', escaped, after @ ..] => (escaped, escaped, after),
            [first, b'-', last, after @ ..] => (first.min(last), first.max(last), after),
            [byte, after @ ..] => (byte, byte, after),
        };
        for byte in *first..=*last {
            set[usize::from(byte / 64)] |= 1 << (byte % 64);
        }
        rest = after;
    }
    let set = if negated { set.map(|word| !word) } else { set };
    (Token::Class(Box::new(set)), rest.get(1..).unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_match_as_in_redis() {
        let fits =
            |pattern: &str, name: &str| Glob::parse(pattern.as_bytes()).unwrap().matches(name.as_bytes());
        for (pattern, matching, other) in [
            ("*", ["", "a"], [].as_slice()),
            ("", ["", ""], &["a"]),
            ("a", ["a", "a"], &["", "ab"]),
            ("?", ["a", "?"], &[""]),
            ("a*", ["a", "ab"], &["b"]),
            ("a**", ["a", "ab"], &["b"]),
            ("a*c", ["ac", "abbc"], &["abcd"]),
            ("*b*", ["b", "abc"], &["ac"]),
            ("h?llo", ["hello", "hallo"], &["hllo"]),
            ("h[ae]llo", ["hallo", "hello"], &["hillo"]),
            ("h[^e]llo", ["hallo", "hillo"], &["hello"]),
            ("h[a-c]llo", ["hallo", "hbllo"], &["hdllo"]),
            ("h[c-a]llo", ["hallo", "hbllo"], &["hdllo"]),
            ("[abc", ["a", "b"], &["d"]),
            ("[\\]]", ["]", "]"], &["\\"]),
            ("\\*", ["*", "*"], &["a"]),
            ("a\\?", ["a?", "a?"], &["ab"]),
            ("a\\", ["a\\", "a\\"], &["a"]),
            ("*a*a*a", ["aaa", "abaca"], &["aa"]),
        ] {
            assert!(matching.into_iter().all(|name| fits(pattern, name)), "{pattern} {matching:?}");
            assert!(!other.iter().any(|name| fits(pattern, name)), "{pattern} {other:?}");
        }
        // Matching is not exponential in the number of stars.
        assert!(!fits(&"a*".repeat(50), &"a".repeat(40)));
        for (pattern, prefix) in [("user/*", "user/"), ("abc", "abc"), ("a\\*b[c]", "a*b"), ("*", "")] {
            assert_eq!(Glob::parse(pattern.as_bytes()).unwrap().prefix(), prefix.as_bytes());
        }
    }

    #[test]
    fn patterns_have_a_maximum_length() {
        assert!(Glob::parse(&[b'['; PATTERN_BYTES_MAX]).is_ok());
        assert!(Glob::parse(&[b'['; PATTERN_BYTES_MAX + 1]).is_err());
    }
}
