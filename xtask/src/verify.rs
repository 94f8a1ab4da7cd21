//! `cargo xtask verify` runs the checks of CI and changes no files; `cargo xtask fix` applies automatic
//! fixes.

use anyhow::Result;

use crate::process::{cargo, root, run};
use crate::test::{research, test};
use crate::tidy;

/// Checks format, lints, documentation and tests.
pub fn verify() -> Result<()> {
    run(&mut cargo(&["fmt", "--all", "--check"]))?;
    run(&mut cargo(&["fmt", "--manifest-path", "research/Cargo.toml", "--check"]))?;
    run(&mut cargo(&["clippy", "--workspace", "--all-targets", "--", "-D", "warnings"]))?;
    run(&mut research(&["clippy", "--all-targets", "--", "-D", "warnings"]))?;
    run(cargo(&["doc", "--workspace", "--no-deps"]).env("RUSTDOCFLAGS", "-D warnings"))?;
    run(research(&["doc", "--no-deps"]).env("RUSTDOCFLAGS", "-D warnings"))?;
    test()
}

/// Applies lint suggestions, formats, and writes generated tables.
pub fn fix() -> Result<()> {
    run(&mut cargo(&["clippy", "--workspace", "--all-targets", "--fix", "--allow-dirty", "--allow-staged"]))?;
    run(&mut research(&["clippy", "--all-targets", "--fix", "--allow-dirty", "--allow-staged"]))?;
    run(&mut cargo(&["fmt", "--all"]))?;
    run(&mut cargo(&["fmt", "--manifest-path", "research/Cargo.toml"]))?;
    run(cargo(&["test", "-p", "jeton-core", "--test", "error_codes"]).env("UPDATE_DOCS", "1"))?;
    run(cargo(&["test", "-p", "jeton-server", "--lib", "limits"]).env("UPDATE_DOCS", "1"))?;
    tidy::write_map(&root())
}
