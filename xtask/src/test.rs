//! `cargo xtask test`: installs what the tests need and runs all of them.

use std::env;
use std::process::Command;

use anyhow::Result;

use crate::process::{cargo, debug_directory, program, root, run};
use crate::{faults, machine, services, tidy};

/// The loom tests, relative to the root.
const LOOM_TESTS: &str = "crates/filter/tests/loom.rs";

/// Prepares the machine and runs every test. The workspace's tests come last, so that the output ends with
/// cargo's summary. All builds but loom's select the whole workspace: a package alone would get other
/// features, and its dependencies would be built again.
pub fn test() -> Result<()> {
    machine::prepare()?;
    tidy::run(&root())?;
    let skipped = services::fetch_cassandra()?;
    loom()?;
    mutations()?;
    faults::run_bank(faults::MINUTES)?;
    python()?;
    run(&mut research(&["test"]))?;
    run(&mut cargo(&["test", "--workspace"]))?;
    if let Some(line) = skipped {
        eprintln!("{line}");
    }
    Ok(())
}

/// A cargo command for the workspace of `research/`. It shares the target directory, and with it the
/// dependencies that both workspaces have.
pub fn research(arguments: &[&str]) -> Command {
    let (name, rest) = arguments.split_first().expect("callers name a cargo command");
    let place = ["--manifest-path", "research/Cargo.toml", "--target-dir", "target"];
    cargo(&[&[*name][..], &place, rest].concat())
}

/// Tests the Python client against the server of this tree.
fn python() -> Result<()> {
    run(&mut cargo(&["build", "--workspace", "--bins"]))?;
    let script = root().join("clients/python/test.sh");
    run(program("bash", &[]).arg(script).env("JETON_BIN", debug_directory().join("jeton")))
}

/// Checks that the tests detect every planted mutation, in the simulator and on real databases.
fn mutations() -> Result<()> {
    let features = "jeton-cluster/mutations,jeton-participants/mutations,jeton-sim/mutations";
    run(&mut cargo(&["test", "--workspace", "--features", features, "--test", "mutations"]))
}

/// Explores the interleavings of the concurrent filter. Its build has other atomics, hence its own target
/// directory: otherwise each build would discard the other.
fn loom() -> Result<()> {
    if !root().join(LOOM_TESTS).exists() {
        eprintln!("loom: skipped, there is no {LOOM_TESTS}");
        return Ok(());
    }
    let flags = env::var("RUSTFLAGS").map_or("--cfg loom".into(), |own| format!("{own} --cfg loom"));
    let test =
        ["test", "--release", "--target-dir", "target/loom", "-p", "forgetful-filter", "--test", "loom"];
    run(cargo(&test)
        .env("RUSTFLAGS", flags)
        .env("CARGO_PROFILE_RELEASE_LTO", "off")
        // Loom advises 2 or 3: that finds most bugs, and without a bound the search does not end.
        .env("LOOM_MAX_PREEMPTIONS", "3"))
}
