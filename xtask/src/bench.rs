//! `cargo xtask bench`: the benchmarks by name. A benchmark is a command and never a test: a machine under load would
//! fail it for no fault of the code.

use anyhow::{Result, bail};

use crate::process::{cargo, run};

/// What there is to measure: a name, and the package and target of its benchmark.
const BENCHES: &[(&str, &str, &str)] =
    &[("filter", "forgetful-filter", "versus"), ("engine", "jeton-engine", "versus")];

/// Runs the benchmark named first; the remaining arguments are its own.
pub fn bench(arguments: &[String]) -> Result<()> {
    let known = || BENCHES.iter().map(|(name, ..)| *name).collect::<Vec<_>>().join(", ");
    let Some((name, own)) = arguments.split_first() else {
        bail!("which benchmark? There is: {}", known());
    };
    let Some((_, package, target)) = BENCHES.iter().find(|(known, ..)| known == name) else {
        bail!("there is no benchmark `{name}`; there is: {}", known());
    };
    let mut command = cargo(&["bench", "-p", package, "--bench", target, "--"]);
    run(command.args(own))
}
