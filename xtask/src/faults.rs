//! `cargo xtask faults [minutes]`: runs the bank on real databases while servers and
//! databases are killed at every failpoint and connections are cut.

use anyhow::{Context, Result};

use crate::machine;
use crate::process::{cargo, debug_directory, program, run};

/// Duration in CI.
pub const MINUTES: u64 = 5;

/// Runs half of the time with each kind of registers.
pub fn faults(arguments: &[String]) -> Result<()> {
    let minutes = match arguments {
        [] => MINUTES,
        [minutes, ..] => minutes.parse().context("how many minutes: a whole number")?,
    };
    machine::prepare()?;
    run_bank(minutes)
}

/// Runs the bank; the machine must be prepared.
pub fn run_bank(minutes: u64) -> Result<()> {
    let seconds = minutes * 60 / 2;
    // A busy machine reaches this many failpoints in that time; an hour reaches nearly all.
    let (servers, databases) = match minutes {
        60.. => (30, 30),
        _ => ((seconds / 10).min(20), (seconds / 25).min(10)),
    };
    let (servers, databases) = (servers.to_string(), databases.to_string());
    let seconds = seconds.to_string();
    // The whole workspace, because that has the features and dependencies of `cargo test --workspace`.
    run(&mut cargo(&["build", "--workspace", "--bins"]))?;
    let (jeton, bank) = (debug_directory().join("jeton"), debug_directory().join("jeton-chaos-bank"));
    for registers in ["raft", "postgres"] {
        let mut bank = program(&bank.to_string_lossy(), &["--faults", &seconds, "--registers", registers]);
        bank.args(["--points-min", &servers, "--database-points-min", &databases]).env("JETON_BIN", &jeton);
        run(&mut bank)?;
    }
    Ok(())
}
