//! Counts of events: they show that runs reach the cases that they should.

use std::collections::BTreeMap;

#[derive(Debug, Clone, Default)]
pub struct Stats(BTreeMap<&'static str, u64>);

impl Stats {
    pub fn count(&mut self, what: &'static str) {
        *self.0.entry(what).or_default() += 1;
    }

    pub fn get(&self, what: &str) -> u64 {
        self.0.get(what).copied().unwrap_or_default()
    }

    pub fn add(&mut self, other: &Self) {
        for (what, times) in &other.0 {
            *self.0.entry(what).or_default() += times;
        }
    }
}

impl std::fmt::Display for Stats {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let mut width = 0;
        for (what, times) in &self.0 {
            let one = format!("{what} {times}");
            let separator = match width {
                0 => "",
                _ if width + one.len() > 110 => {
                    width = 0;
                    "\n"
                }
                _ => " · ",
            };
            width += one.len() + 3;
            write!(out, "{separator}{one}")?;
        }
        Ok(())
    }
}
