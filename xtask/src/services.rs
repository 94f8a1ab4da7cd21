//! `cargo xtask services cassandra [folder]`: runs a real cluster until Ctrl-C, for experiments by hand.

use anyhow::{Result, bail};

use crate::machine;
use crate::process::{cargo, run};

pub fn services(arguments: &[String]) -> Result<()> {
    match arguments {
        [service, ..] if service == "cassandra" => machine::prepare_cassandra()?,
        _ => bail!("name a service: cassandra"),
    }
    let mut command = cargo(&["run", "--quiet", "-p", "jeton-testbed", "--bin", "jeton-services", "--"]);
    run(command.args(arguments))
}

/// Fetches what the tests with Cassandra need. Without it, returns the line for the summary.
pub fn fetch_cassandra() -> Result<Option<String>> {
    let command = ["run", "--quiet", "-p", "jeton-testbed", "--bin", "jeton-services", "--", "fetch"];
    if run(&mut cargo(&command)).is_ok() {
        return Ok(None);
    }
    let line = "!!! SKIPPED: the tests with Cassandra did not run: it cannot be had here, see above";
    if std::env::var_os("JETON_REQUIRE_CASSANDRA").is_some() {
        bail!("{line}");
    }
    Ok(Some(line.into()))
}
