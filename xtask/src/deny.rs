//! `cargo xtask deny`: licences and security advisories of dependencies.
//!
//! Not part of `verify`: it fetches the list of advisories, and a commit must not fail for a later advisory.

use anyhow::{Result, bail};

use crate::process::{cargo, run, succeeds};

/// Checks that need no network.
const HERE: &[&str] = &["licenses", "bans", "sources"];

/// Checks by the rules of `deny.toml`: first the offline checks, then the advisories.
pub fn deny() -> Result<()> {
    if !succeeds(&mut cargo(&["deny", "--version"])) {
        bail!("cargo-deny is not installed; install it with\n    cargo install --locked cargo-deny");
    }
    run(&mut cargo(&[&["deny", "check"], HERE].concat()))?;
    if run(&mut cargo(&["deny", "fetch", "db"])).is_err() {
        bail!(
            "licences, bans and sources are valid. Security advisories were NOT checked: the list cannot be fetched. Run this \
             again with network access."
        );
    }
    run(&mut cargo(&["deny", "check", "advisories"]))
}
