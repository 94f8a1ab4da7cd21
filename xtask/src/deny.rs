//! `cargo xtask deny`: licences and known holes of what we depend on.
//!
//! Not part of `verify`: the list of holes is fetched when it is run, and a commit must not fail for what became known after it.

use anyhow::{Result, bail};

use crate::process::{cargo, run, succeeds};

/// Checks by the rules of `deny.toml`.
pub fn deny() -> Result<()> {
    if !succeeds(&mut cargo(&["deny", "--version"])) {
        bail!("cargo-deny is not installed; install it with\n    cargo install --locked cargo-deny");
    }
    run(&mut cargo(&["deny", "check"]))
}
