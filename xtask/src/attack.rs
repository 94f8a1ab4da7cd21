//! `cargo xtask attack [minutes] [--seed N] [--markdown]`: attacks a server in a small cgroup.

use anyhow::Result;

use crate::bench::write_markdown;
use crate::process::{cargo, run};

/// Builds the release binary and attacks it. With `--markdown`, writes the output to `docs/bench/attack.md`.
pub fn attack(arguments: &[String]) -> Result<()> {
    run(&mut cargo(&["build", "--release", "-p", "jeton-cli", "-p", "jeton-attack"]))?;
    let mut command = cargo(&["run", "--release", "-p", "jeton-attack", "--"]);
    command.args(arguments.iter().filter(|argument| *argument != "--markdown"));
    let markdown = arguments.iter().any(|argument| argument == "--markdown");
    if markdown { write_markdown("attack", command, arguments) } else { run(&mut command) }
}
