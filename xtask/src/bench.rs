//! `cargo xtask bench NAME`: runs a benchmark. With `--markdown` it also writes the output to
//! `docs/bench/NAME.md`.
//!
//! A benchmark is a command and never a test: on a loaded machine it would fail without a fault in the code.

use std::fs;
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};

use crate::machine;
use crate::process::{cargo, root, run};

/// How a benchmark is started.
enum Bench {
    /// A benchmark target of `research`.
    Target,
    /// The program that starts Redis, PostgreSQL and Jeton.
    Rivals,
}

const BENCHES: &[(&str, Bench)] = &[
    ("filter", Bench::Target),
    ("clock", Bench::Target),
    ("engine", Bench::Target),
    ("rivals", Bench::Rivals),
];

/// Runs the benchmark named first; the remaining arguments but `--markdown` are its own.
pub fn bench(arguments: &[String]) -> Result<()> {
    let known = || BENCHES.iter().map(|(name, _)| *name).collect::<Vec<_>>().join(", ");
    let Some((name, own)) = arguments.split_first() else {
        bail!("name a benchmark: {}", known());
    };
    let Some((name, bench)) = BENCHES.iter().find(|(known, _)| known == name) else {
        bail!("there is no benchmark `{name}`; the benchmarks are: {}", known());
    };
    let mut command = match bench {
        Bench::Target => cargo(&["bench", "--manifest-path", "research/Cargo.toml", "--bench", name, "--"]),
        Bench::Rivals => {
            // The benchmark leaves out rivals that are not installed, and prints that.
            if let Err(error) = machine::prepare_rivals() {
                eprintln!("{error:#}");
            }
            run(&mut cargo(&["build", "--release", "-p", "jeton-cli", "-p", "jeton-bench-rivals"]))?;
            cargo(&["run", "--release", "-p", "jeton-bench-rivals", "--"])
        }
    };
    let markdown = own.iter().any(|argument| argument == "--markdown");
    command.args(own.iter().filter(|argument| *argument != "--markdown"));
    if markdown { write_markdown(&format!("bench {name}"), command, own) } else { run(&mut command) }
}

/// Runs the command and writes its standard output to a page of `docs/bench`, named by the last word of the
/// xtask command, also if a bar was missed.
pub fn write_markdown(xtask: &str, mut command: Command, own: &[String]) -> Result<()> {
    let name = xtask.rsplit(' ').next().unwrap_or(xtask);
    let output = command.stderr(Stdio::inherit()).output().context("cannot start the benchmark")?;
    let text = String::from_utf8_lossy(&output.stdout);
    print!("{text}");
    let path = format!("docs/bench/{name}.md");
    let page = format!("# {name}\n\nCommand: `cargo xtask {xtask} {}`\n\n{text}", own.join(" "));
    fs::write(root().join(&path), page).with_context(|| format!("cannot write {path}"))?;
    eprintln!("wrote {path}");
    if !output.status.success() {
        bail!("the benchmark failed: {}", output.status);
    }
    Ok(())
}
