//! `cargo xtask faults [minutes]`: runs the bank on real databases while servers and
//! databases are killed at every failpoint and connections are cut.
//!
//! `cargo xtask faults registers --engine cassandra [--minutes N] [--seed N]`: runs clients of registers on a
//! real cluster whose nodes are killed and paused, and checks their history.

use anyhow::{Context, Result};

use crate::machine;
use crate::process::{cargo, debug_directory, program, run};

/// Duration in CI.
pub const MINUTES: u64 = 5;

/// Runs half of the time with each kind of registers.
pub fn faults(arguments: &[String]) -> Result<()> {
    let minutes = match arguments {
        [kind, own @ ..] if kind == "registers" => return registers(own),
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

/// Runs the clients of registers, which check their history.
fn registers(arguments: &[String]) -> Result<()> {
    machine::prepare_cassandra()?;
    run(&mut cargo(&["build", "-p", "jeton-chaos-registers"]))?;
    let mut command = program(&debug_directory().join("jeton-chaos-registers").to_string_lossy(), &[]);
    let mut arguments = arguments.iter();
    while let Some(argument) = arguments.next() {
        if argument == "--minutes" {
            let minutes: u64 = arguments.next().context("--minutes N")?.parse().context("--minutes N")?;
            command.args(["--seconds", &(minutes * 60).to_string()]);
        } else {
            command.arg(argument);
        }
    }
    run(&mut command)
}
