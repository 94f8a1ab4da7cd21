//! A statement with named parameters, translated for a database.
//!
//! `:name` is a parameter, except in literals, quoted names and comments, and in operators (`::` casts in
//! PostgreSQL, `:=` assigns in MariaDB).

use jeton_etx::Dialect;

/// A statement for one database.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Statement {
    /// The text with the placeholders of its dialect.
    pub text: String,
    /// The parameter of each placeholder, in order.
    pub parameters: Vec<String>,
}

impl Statement {
    /// Parses a statement.
    pub fn read(text: &str, dialect: Dialect) -> Result<Self, String> {
        let mut statement = Self { text: String::with_capacity(text.len()), parameters: Vec::new() };
        let mut rest = text;
        while let Some(first) = rest.chars().next() {
            if let Some(length) = opaque(rest, dialect)? {
                let (inside, after) = rest.split_at(length);
                statement.text.push_str(inside);
                rest = after;
                continue;
            }
            let name = rest.strip_prefix(':').map(name_of).unwrap_or_default();
            if first == ':' && !name.is_empty() {
                statement.place(name, dialect);
                rest = &rest[1 + name.len()..];
            } else if first == ';' {
                if rest[1..].trim().is_empty() {
                    break;
                }
                return Err("a step is one statement; give each its own step".into());
            } else if (first == '?' && dialect == Dialect::Question) || is_numbered(rest, dialect) {
                return Err("a parameter is written as :name".into());
            } else {
                let length =
                    if rest.starts_with("::") || rest.starts_with(":=") { 2 } else { first.len_utf8() };
                statement.text.push_str(&rest[..length]);
                rest = &rest[length..];
            }
        }
        if statement.text.trim().is_empty() {
            return Err("there is no statement".into());
        }
        Ok(statement)
    }

    fn place(&mut self, name: &str, dialect: Dialect) {
        match dialect {
            Dialect::Question => {
                self.text.push('?');
                self.parameters.push(name.to_owned());
            }
            Dialect::Numbered => {
                let known = self.parameters.iter().position(|known| known == name);
                let place = known.unwrap_or(self.parameters.len());
                if known.is_none() {
                    self.parameters.push(name.to_owned());
                }
                self.text.push_str(&format!("${}", place + 1));
            }
        }
    }
}

/// The identifier at the start of a text; may be empty.
pub fn name_of(text: &str) -> &str {
    let is_part = |(at, letter): (usize, char)| {
        letter == '_' || letter.is_ascii_alphabetic() || (at > 0 && letter.is_ascii_digit())
    };
    let end = text.char_indices().find(|found| !is_part(*found)).map_or(text.len(), |(at, _)| at);
    &text[..end]
}

fn is_numbered(rest: &str, dialect: Dialect) -> bool {
    let digit = rest.strip_prefix('$').and_then(|rest| rest.chars().next());
    dialect == Dialect::Numbered && digit.is_some_and(|digit| digit.is_ascii_digit())
}

/// The length of a literal, quoted name or comment at the start, which contains no parameters.
fn opaque(rest: &str, dialect: Dialect) -> Result<Option<usize>, String> {
    let until = |open: usize, close: &str| {
        let end = rest[open..].find(close).map(|at| open + at + close.len());
        end.map(Some).ok_or_else(|| format!("{close} is missing after {:?}", head(rest)))
    };
    let line = rest.find('\n').unwrap_or(rest.len());
    match rest.as_bytes() {
        [quote @ (b'\'' | b'"' | b'`'), ..] => {
            // PostgreSQL has backslash escapes only in E'...'. A backslash taken for an escape by mistake
            // would extend the literal.
            let escapes = dialect == Dialect::Question && *quote != b'`';
            quoted(rest, char::from(*quote), escapes).map(Some)
        }
        [b'-', b'-', ..] => Ok(Some(line)),
        [b'#', ..] if dialect == Dialect::Question => Ok(Some(line)),
        [b'/', b'*', ..] => until(2, "*/"),
        [b'$', ..] if dialect == Dialect::Numbered => {
            let tag = name_of(&rest[1..]);
            let mark = format!("${tag}$");
            if rest.starts_with(&mark) { until(mark.len(), &mark) } else { Ok(None) }
        }
        _ => Ok(None),
    }
}

/// The length of a literal with its quotes. A quote inside is doubled.
fn quoted(rest: &str, quote: char, escapes: bool) -> Result<usize, String> {
    let mut letters = rest.char_indices().skip(1).peekable();
    while let Some((at, letter)) = letters.next() {
        if letter == '\\' && escapes {
            letters.next();
        } else if letter == quote && letters.next_if(|(_, next)| *next == quote).is_none() {
            return Ok(at + quote.len_utf8());
        }
    }
    Err(format!("{quote} is missing after {:?}", head(rest)))
}

fn head(text: &str) -> String {
    text.chars().take(16).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str, dialect: Dialect) -> (String, Vec<String>) {
        let Statement { text, parameters } = Statement::read(text, dialect).unwrap();
        (text, parameters)
    }

    #[test]
    fn names_become_placeholders_of_the_dialect() {
        let text = "UPDATE a SET n = n - :amount, m = :amount WHERE id = :from_1";
        let named = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>();
        assert_eq!(
            read(text, Dialect::Numbered),
            ("UPDATE a SET n = n - $1, m = $1 WHERE id = $2".into(), named(&["amount", "from_1"]))
        );
        assert_eq!(
            read(text, Dialect::Question),
            ("UPDATE a SET n = n - ?, m = ? WHERE id = ?".into(), named(&["amount", "amount", "from_1"]))
        );
    }

    #[test]
    fn text_in_quotes_and_comments_is_unchanged() {
        for (dialect, text) in [
            (Dialect::Numbered, "SELECT ':a', \"x:b\", 'it''s :c', 1::text, a[1:2], '\\'"),
            (Dialect::Numbered, "SELECT 1 -- :a ' ?\n/* :b ' */ + 2"),
            (Dialect::Numbered, "SELECT $$ :a ' $$, $tag$ :b $$ $tag$, a ? 'b'"),
            (Dialect::Question, "SELECT ':a', `x:b`, \"y:c\", 'it\\'s :c', @x := 1 # :d"),
        ] {
            assert_eq!(read(text, dialect), (text.to_owned(), vec![]), "{text}");
        }
        assert_eq!(read("SELECT :a::text;  ", Dialect::Numbered).0, "SELECT $1::text");
        assert_eq!(read("SELECT 'ö', :a", Dialect::Question).0, "SELECT 'ö', ?");
    }

    #[test]
    fn invalid_statements_are_rejected() {
        for (dialect, text) in [
            (Dialect::Numbered, ""),
            (Dialect::Numbered, "SELECT 1; SELECT 2"),
            (Dialect::Numbered, "SELECT $1"),
            (Dialect::Question, "SELECT ?"),
            (Dialect::Numbered, "SELECT 'a"),
            (Dialect::Numbered, "SELECT /* a"),
            (Dialect::Numbered, "SELECT $x$ a $$"),
        ] {
            assert!(Statement::read(text, dialect).is_err(), "{text}");
        }
    }
}
