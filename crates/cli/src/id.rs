//! New operation ids, and `jeton id`, which prints them.

use std::time::{SystemTime, UNIX_EPOCH};

use anyhow::Result;
use clap::Args;
use jeton_client::IdGenerator;
use jeton_core::OpId;

use crate::output;

/// Print new ids (UUIDv7), one per operation; keep an id for all retries of its operation
#[derive(Args)]
pub struct Id {
    /// Number of ids
    #[arg(default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    count: u32,
}

impl Id {
    pub fn run(&self) -> Result<()> {
        let mut ids = IdGenerator::default();
        (0..self.count).try_for_each(|_| output::line(&next(&mut ids)?))
    }
}

/// The current time in milliseconds since 1970.
pub fn millis() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}

/// A new UUIDv7.
pub fn uuid7() -> Result<String> {
    next(&mut IdGenerator::default())
}

fn next(ids: &mut IdGenerator) -> Result<String> {
    Ok(OpId::uuid7(ids.generate())?.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;
    use jeton_core::Format;

    #[test]
    fn an_id_contains_its_time_and_ids_differ() {
        let (before, one, other) = (millis(), uuid7().unwrap(), uuid7().unwrap());
        assert_ne!(one, other);
        assert_eq!(Format::Uuid7.parse(&one).unwrap().to_string(), one);
        let time = u64::from_str_radix(&one.replace('-', "")[..12], 16).unwrap();
        assert!((before..=millis()).contains(&time), "{one}");
    }
}
