//! `cargo xtask faults [minutes]`: runs the bank on real databases while servers and
//! databases are killed at every failpoint and connections are cut.

use anyhow::{Context, Result};

use crate::machine;
use crate::process::{cargo, run};

/// Duration in CI.
pub const MINUTES: u64 = 5;

/// Runs half of the time with each kind of registers.
pub fn faults(arguments: &[String]) -> Result<()> {
    let minutes = match arguments {
        [] => MINUTES,
        [minutes, ..] => minutes.parse().context("how many minutes: a whole number")?,
    };
    machine::prepare()?;
    torment(minutes)
}

/// Runs the bank; the machine must be prepared.
pub fn torment(minutes: u64) -> Result<()> {
    let seconds = minutes * 60 / 2;
    // A busy machine reaches this many failpoints in that time; an hour reaches nearly all.
    let (servers, databases) = match minutes {
        60.. => (30, 30),
        _ => ((seconds / 10).min(20), (seconds / 25).min(10)),
    };
    let (servers, databases) = (servers.to_string(), databases.to_string());
    let seconds = seconds.to_string();
    for registers in ["raft", "postgres"] {
        run(&mut cargo(&[
            "run",
            "-p",
            "jeton-chaos-bank",
            "--",
            "--faults",
            &seconds,
            "--registers",
            registers,
            "--points-min",
            &servers,
            "--database-points-min",
            &databases,
        ]))?;
    }
    Ok(())
}
