//! `cargo xtask deny`: licences and known holes of what we depend on.
//!
//! Not part of `verify`: the list of holes is fetched when it is run, and a commit must not fail for what became known after it.

use anyhow::{Result, bail};

use crate::process::{cargo, run, succeeds};

/// What the tree itself answers.
const HERE: &[&str] = &["licenses", "bans", "sources"];

/// Checks by the rules of `deny.toml`: first what needs nobody else, then the list of holes.
pub fn deny() -> Result<()> {
    if !succeeds(&mut cargo(&["deny", "--version"])) {
        bail!("cargo-deny is not installed; install it with\n    cargo install --locked cargo-deny");
    }
    run(&mut cargo(&[&["deny", "check"], HERE].concat()))?;
    if run(&mut cargo(&["deny", "fetch", "db"])).is_err() {
        bail!(
            "licences, bans and sources are in order. Known holes were NOT looked for: the list of them cannot be fetched from here. \
             Run this again where it can."
        );
    }
    run(&mut cargo(&["deny", "check", "advisories"]))
}
