//! `cargo xtask bench`: the benchmarks by name. A benchmark is a command and never a test: a machine under load would
//! fail it for no fault of the code.

use anyhow::{Result, bail};

use crate::machine;
use crate::process::{cargo, run};

/// A benchmark: where it is, and what it takes to run it.
enum Bench {
    /// A benchmark target of a package.
    Target { package: &'static str, target: &'static str },
    /// A program that starts servers: those of others from the system, and ours.
    Peers,
}

/// What there is to measure, by name.
const BENCHES: &[(&str, Bench)] = &[
    ("filter", Bench::Target { package: "forgetful-filter", target: "versus" }),
    ("clock", Bench::Target { package: "bloom-clock", target: "versus" }),
    ("engine", Bench::Target { package: "jeton-engine", target: "versus" }),
    ("peers", Bench::Peers),
];

/// Runs the benchmark named first; the remaining arguments are its own.
pub fn bench(arguments: &[String]) -> Result<()> {
    let known = || BENCHES.iter().map(|(name, _)| *name).collect::<Vec<_>>().join(", ");
    let Some((name, own)) = arguments.split_first() else {
        bail!("which benchmark? There is: {}", known());
    };
    match BENCHES.iter().find(|(known, _)| known == name) {
        Some((_, Bench::Target { package, target })) => {
            run(cargo(&["bench", "-p", package, "--bench", target, "--"]).args(own))
        }
        Some((_, Bench::Peers)) => peers(own),
        None => bail!("there is no benchmark `{name}`; there is: {}", known()),
    }
}

/// The rivals and ourselves. A rival that cannot be had is left out, and the benchmark says so: the others are still worth
/// measuring.
fn peers(own: &[String]) -> Result<()> {
    if let Err(error) = machine::prepare_rivals() {
        eprintln!("{error:#}");
    }
    run(&mut cargo(&["build", "--release", "-p", "jeton-cli", "-p", "jeton-bench-rivals"]))?;
    run(cargo(&["run", "--release", "-p", "jeton-bench-rivals", "--"]).args(own))
}
