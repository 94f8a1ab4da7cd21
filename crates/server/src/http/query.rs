//! The query of a request: names with values of any bytes, some of them repeated.

use super::problem::Problem;
use crate::suggestion::nearest;

pub struct Query(Vec<(String, Vec<u8>)>);

impl Query {
    /// Parses a query in which only these names may occur, so that a misspelt name is not ignored.
    pub fn read(query: Option<&str>, known: &[&str]) -> Result<Self, Problem> {
        let mut pairs = Vec::new();
        for pair in query.unwrap_or_default().split('&').filter(|pair| !pair.is_empty()) {
            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
            let value = percent_decode(&value.replace('+', " "));
            let Some(name) = known.iter().find(|known| **known == name) else {
                let hint = nearest(name, known.iter().copied())
                    .map_or(String::new(), |nearest| format!("; did you mean `{nearest}`?"));
                return Err(Problem::bad_request(format!(
                    "The query has the unknown name `{name}`{hint} Known are: {}.",
                    known.join(", ")
                )));
            };
            let value = value.ok_or_else(|| {
                let detail =
                    format!("In the query, `{name}` has a % that is not followed by two hexadecimal digits.");
                Problem::bad_request(detail)
            })?;
            pairs.push(((*name).to_owned(), value));
        }
        Ok(Self(pairs))
    }

    pub fn all<'a, 'n>(&'a self, name: &'n str) -> impl Iterator<Item = &'a [u8]> + use<'a, 'n> {
        self.0.iter().filter(move |(known, _)| known == name).map(|(_, value)| value.as_slice())
    }

    /// The only value of a name.
    pub fn one(&self, name: &str) -> Result<Option<&[u8]>, Problem> {
        let mut values = self.all(name);
        match (values.next(), values.next()) {
            (first, None) => Ok(first),
            _ => Err(Problem::bad_request(format!("The query has `{name}` more than once."))),
        }
    }

    pub fn text(&self, name: &str) -> Result<Option<&str>, Problem> {
        let wrong = |_| Problem::bad_request(format!("In the query, `{name}` is not UTF-8."));
        self.one(name)?.map(std::str::from_utf8).transpose().map_err(wrong)
    }

    /// A number from 1 to a limit.
    pub fn number(&self, name: &str, default: usize, max: usize) -> Result<usize, Problem> {
        let Some(text) = self.text(name)? else { return Ok(default) };
        match text.parse() {
            Ok(number) if (1..=max).contains(&number) => Ok(number),
            _ => {
                let detail =
                    format!("In the query, `{name}` must be an integer from 1 to {max}, not {text:?}.");
                Err(Problem::bad_request(detail))
            }
        }
    }
}

/// Decodes percent-encoded bytes. `None` if a `%` is not followed by two hexadecimal digits: the crate would
/// take it literally, and `%` and `%25` would then name the same row.
pub fn percent_decode(text: &str) -> Option<Vec<u8>> {
    let is_digit = |byte: Option<&u8>| byte.is_some_and(u8::is_ascii_hexdigit);
    let mut escapes = text.match_indices('%').map(|(at, _)| &text.as_bytes()[at + 1..]);
    let is_valid = escapes.all(|rest| is_digit(rest.first()) && is_digit(rest.get(1)));
    is_valid.then(|| percent_encoding::percent_decode_str(text).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percent_decoding_accepts_all_bytes_but_no_half_escape() {
        let all: Vec<u8> = (0..=255).collect();
        let text = percent_encoding::percent_encode(&all, percent_encoding::NON_ALPHANUMERIC).to_string();
        assert_eq!(percent_decode(&text), Some(all));
        for malformed in ["ab%2", "%", "a%+1", "a%zz", "%%41"] {
            assert_eq!(percent_decode(malformed), None, "{malformed}");
        }
        // A plus is a space in a query only.
        assert_eq!(percent_decode("a+b"), Some(b"a+b".to_vec()));
    }

    #[test]
    fn values_are_bytes_and_may_repeat() {
        let query =
            Query::read(Some("row=a%2Fb&row=%ff+x&limit=7&prefix="), &["row", "limit", "prefix"]).unwrap();
        assert_eq!(query.all("row").collect::<Vec<_>>(), [&b"a/b"[..], b"\xff x"]);
        assert_eq!(query.one("prefix").unwrap(), Some(&b""[..]));
        assert_eq!(query.number("limit", 1, 10).unwrap(), 7);
        assert!(query.one("row").is_err());
        assert!(query.number("limit", 1, 6).is_err());
    }
}
