//! `cargo xtask miri`: runs the filter's unit tests in an interpreter that detects undefined behaviour.
//!
//! Not part of `test`: it needs a nightly compiler, and takes a hundred times as long.

use anyhow::{Result, bail};

use crate::process::{cargo, run, succeeds};

const INSTALL: &str = "rustup toolchain install nightly && rustup +nightly component add miri rust-src";

/// Runs Miri in its own target directory, because it is another compiler. The arguments select tests.
pub fn miri(arguments: &[String]) -> Result<()> {
    if !succeeds(&mut cargo(&["+nightly", "miri", "--version"])) {
        bail!("Miri is not installed; install it with\n    {INSTALL}");
    }
    let test =
        ["+nightly", "miri", "test", "--target-dir", "target/miri", "-p", "forgetful-filter", "--lib", "--"];
    run(cargo(&test).args(arguments))
}
