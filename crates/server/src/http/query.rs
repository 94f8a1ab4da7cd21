//! The query of a request: names and bytes, some of them more than once.

use super::percent;
use super::problem::{ErrorCode, Problem};
use super::suggestion::nearest;

/// The query of a request.
pub struct Query(Vec<(String, Vec<u8>)>);

impl Query {
    /// Reads a query in which only these names may occur: a misspelt one would be ignored in silence otherwise.
    pub fn read(query: Option<&str>, known: &[&str]) -> Result<Self, Problem> {
        let mut pairs = Vec::new();
        for pair in query.unwrap_or_default().split('&').filter(|pair| !pair.is_empty()) {
            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
            let value = percent::decode(&value.replace('+', " "));
            let Some(name) = known.iter().find(|known| **known == name) else {
                let known_ones = known.join(", ");
                let hint = match nearest(name, known.iter().copied()) {
                    Some(nearest) => format!("; did you mean `{nearest}`?"),
                    None => String::new(),
                };
                let detail =
                    format!("The query has `{name}`, which is not known here{hint} Known are: {known_ones}.");
                return Err(Problem::new(ErrorCode::BadRequest, detail));
            };
            let value = value.map_err(|_| {
                let detail =
                    format!("In the query, `{name}` has a % that two hexadecimal digits do not follow.");
                Problem::new(ErrorCode::BadRequest, detail)
            })?;
            pairs.push(((*name).to_owned(), value));
        }
        Ok(Self(pairs))
    }

    /// All values of a name.
    pub fn all<'a, 'n>(&'a self, name: &'n str) -> impl Iterator<Item = &'a [u8]> + use<'a, 'n> {
        self.0.iter().filter(move |(known, _)| known == name).map(|(_, value)| value.as_slice())
    }

    /// The only value of a name.
    pub fn one(&self, name: &str) -> Result<Option<&[u8]>, Problem> {
        let mut values = self.all(name);
        match (values.next(), values.next()) {
            (first, None) => Ok(first),
            _ => Err(Problem::new(ErrorCode::BadRequest, format!("The query has `{name}` more than once."))),
        }
    }

    /// The only value of a name, as text.
    pub fn text(&self, name: &str) -> Result<Option<&str>, Problem> {
        let text = |value| std::str::from_utf8(value);
        let wrong = |_| Problem::new(ErrorCode::BadRequest, format!("In the query, `{name}` is not UTF-8."));
        self.one(name)?.map(text).transpose().map_err(wrong)
    }

    /// A number from 1 to a limit.
    pub fn number(&self, name: &str, default: usize, max: usize) -> Result<usize, Problem> {
        let Some(text) = self.text(name)? else { return Ok(default) };
        match text.parse() {
            Ok(number) if (1..=max).contains(&number) => Ok(number),
            _ => {
                let detail =
                    format!("In the query, `{name}` must be a whole number from 1 to {max}, not {text:?}.");
                Err(Problem::new(ErrorCode::BadRequest, detail))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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

    #[test]
    fn a_misspelt_name_is_told_with_the_nearest() {
        let error = Query::read(Some("prefx=a"), &["prefix", "limit"]).err().unwrap();
        assert!(
            error.detail.contains("`prefx`") && error.detail.contains("did you mean `prefix`?"),
            "{}",
            error.detail
        );
    }
}
