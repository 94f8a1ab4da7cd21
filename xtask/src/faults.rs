//! `cargo xtask faults [minutes]`: runs the bank on real databases while servers and databases are killed at
//! every failpoint and connections are cut.
//!
//! `cargo xtask faults registers --engine cassandra [--minutes N] [--seed N]`: runs clients of registers on a
//! real cluster whose nodes are killed and paused, and checks their history.

use std::process::Command;

use anyhow::{Context, Result};

use crate::process::{cargo, debug_directory, program, run};
use crate::test::build_programs;
use crate::{jobs, machine};

/// Duration in CI.
pub const MINUTES: u64 = 3;

/// Runs a bank with each kind of registers, at the same time.
pub fn faults(arguments: &[String]) -> Result<()> {
    let minutes = match arguments {
        [kind, own @ ..] if kind == "registers" => return registers(own),
        [] => MINUTES,
        [minutes, ..] => minutes.parse().context("how many minutes: a whole number")?,
    };
    machine::prepare()?;
    run(&mut build_programs())?;
    jobs::run_all(banks(minutes), 2)
}

/// The banks, one for each kind of registers. The machine must be prepared and the programs built.
pub fn banks(minutes: u64) -> Vec<Command> {
    let seconds = minutes * 60;
    // A busy machine reaches this many failpoints in that time; half an hour reaches nearly all.
    let (servers, databases) = match minutes {
        30.. => (30, 30),
        _ => ((seconds / 12).min(20), (seconds / 30).min(10)),
    };
    let debug = debug_directory();
    let bank = |registers| {
        let mut bank =
            program(&debug.join("jeton-chaos-bank").to_string_lossy(), &["--registers", registers]);
        bank.args(["--faults", &seconds.to_string(), "--points-min", &servers.to_string()]);
        bank.args(["--database-points-min", &databases.to_string()]).env("JETON_BIN", debug.join("jeton"));
        bank
    };
    vec![bank("raft"), bank("postgres")]
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
