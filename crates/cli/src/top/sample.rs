//! The metrics of a server at one time.

use std::collections::BTreeMap;

/// Values by name and labels.
#[derive(Debug, Clone, Default)]
pub struct Sample(BTreeMap<(String, String), f64>);

impl Sample {
    /// Parses the Prometheus text format.
    pub fn of(text: &str) -> Self {
        let lines = text.lines().filter(|line| !line.starts_with('#'));
        Self(lines.filter_map(entry).collect())
    }

    /// A value without a label.
    pub fn get(&self, name: &str) -> f64 {
        self.labelled(name, "")
    }

    /// A value with exactly these labels, as written.
    pub fn labelled(&self, name: &str, labels: &str) -> f64 {
        self.0.get(&(name.to_owned(), labels.to_owned())).copied().unwrap_or(0.0)
    }

    /// All label sets of a name, with their values.
    pub fn all(&self, name: &str) -> impl Iterator<Item = (&str, f64)> {
        let from = (name.to_owned(), String::new());
        let under = self.0.range(from..).take_while(move |((known, _), _)| known == name);
        under.map(|((_, labels), value)| (labels.as_str(), *value))
    }
}

fn entry(line: &str) -> Option<((String, String), f64)> {
    let (name, value) = line.rsplit_once(' ')?;
    let (name, labels) = match name.split_once('{') {
        Some((name, labels)) => (name, labels.strip_suffix('}')?),
        None => (name, ""),
    };
    Some(((name.to_owned(), labels.to_owned()), value.parse().ok()?))
}

/// The value of one label of a label set.
pub fn label<'a>(labels: &'a str, name: &str) -> Option<&'a str> {
    labels.split(',').find_map(|one| one.strip_prefix(name)?.strip_prefix("=\"")?.strip_suffix('"'))
}
