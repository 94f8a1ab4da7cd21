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

/// Fetches what the tests with Cassandra need, if they are required. Otherwise returns a line for the
/// summary.
pub fn fetch_cassandra() -> Result<Option<&'static str>> {
    if std::env::var_os("JETON_REQUIRE_CASSANDRA").is_none() {
        return Ok(Some("!!! SKIPPED: the tests with Cassandra: set JETON_REQUIRE_CASSANDRA=1 to run them"));
    }
    machine::prepare_cassandra()?;
    let command = ["run", "--quiet", "-p", "jeton-testbed", "--bin", "jeton-services", "--", "fetch"];
    run(&mut cargo(&command))?;
    Ok(None)
}
