//! `cargo xtask dist`: builds the release binary and moves its symbols into a file beside it.

use std::fs;
use std::time::Instant;

use anyhow::{Context, Result};

use crate::process::{cargo, program, run, target_directory};

/// Builds `target/release/jeton`, strips it, and prints build time and size. Debuggers find the symbols in
/// `jeton.debug` through the link in the binary.
pub fn dist() -> Result<()> {
    let started = Instant::now();
    run(&mut cargo(&["build", "--release", "--locked", "--package", "jeton-cli"]))?;
    let seconds = started.elapsed().as_secs();
    let folder = target_directory().join("release");
    for arguments in [
        ["--only-keep-debug", "jeton", "jeton.debug"].as_slice(),
        &["--strip-all", "--add-gnu-debuglink=jeton.debug", "jeton"],
    ] {
        run(program("objcopy", arguments).current_dir(&folder))?;
    }
    let size = fs::metadata(folder.join("jeton")).context("target/release/jeton")?.len();
    println!("target/release/jeton: {:.1} MB, built in {seconds} s", size as f64 / 1e6);
    Ok(())
}
