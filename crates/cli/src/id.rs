//! New ids: UUIDs of version 7, which every table takes unless it says otherwise; and `jeton id`, which prints them.

use std::time::{SystemTime, UNIX_EPOCH};

use anyhow::Result;
use clap::Args;
use jeton_core::OpId;

use crate::cli_error::CliError;
use crate::output;

/// Print new ids, to be kept through all tries of one operation each
#[derive(Args)]
pub struct Id {
    /// How many
    #[arg(default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    count: u32,
}

impl Id {
    pub fn run(&self) -> Result<()> {
        (0..self.count).try_for_each(|_| output::line(&uuid7()?))
    }
}

/// Fills bytes with chance.
pub fn chance(bytes: &mut [u8]) -> Result<()> {
    getrandom::fill(bytes).map_err(|why| {
        CliError::of(why, "the system gave no random bytes", "see that /dev/urandom can be read")
    })
}

/// The time, in milliseconds since 1970.
pub fn millis() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}

/// A new id.
pub fn uuid7() -> Result<String> {
    let mut random = [0; 16];
    chance(&mut random)?;
    uuid7_of(millis(), u128::from_be_bytes(random))
}

/// The id of this time and these bits.
pub fn uuid7_of(millis: u64, random: u128) -> Result<String> {
    let (version, variant) = (7 << 76, 0b10 << 62);
    let random = random & !(u128::MAX << 80) & !(0xf << 76) & !(0b11 << 62);
    let id = OpId::uuid7(u128::from(millis) << 80 | random | version | variant)?;
    Ok(id.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;
    use jeton_core::Format;

    #[test]
    fn an_id_carries_its_time_and_differs_from_the_next() {
        let (one, other) = (uuid7().unwrap(), uuid7().unwrap());
        assert_ne!(one, other);
        for (millis, random) in [(0, 0), (millis(), u128::MAX), ((1 << 48) - 1, 1)] {
            let text = uuid7_of(millis, random).unwrap();
            assert_eq!(Format::Uuid7.parse(&text).unwrap().to_string(), text);
            assert_eq!(text.replace('-', "")[..12], format!("{millis:012x}"), "it begins with its time");
        }
    }
}
