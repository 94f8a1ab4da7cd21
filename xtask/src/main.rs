//! `cargo xtask COMMAND`: each command of CONTRIBUTING.md is an entry in [`COMMANDS`].

mod attack;
mod bench;
mod deny;
mod dist;
mod faults;
mod fuzz;
mod jobs;
mod machine;
mod miri;
mod process;
mod services;
mod test;
mod tidy;
mod verify;

use std::process::ExitCode;

use anyhow::{Result, bail};

/// A command: name, description, function.
type Entry = (&'static str, &'static str, Run);

enum Run {
    Alone(fn() -> Result<()>),
    WithArguments(fn(&[String]) -> Result<()>),
}

const COMMANDS: &[Entry] = &[
    ("test", "install what the tests need, and run them all", Run::Alone(test::test)),
    (
        "tidy",
        "check the repository rules that the compiler does not check",
        Run::Alone(|| tidy::run(&process::root())),
    ),
    (
        "verify",
        "check format, lints, documentation and tests, as CI does; changes nothing",
        Run::Alone(verify::verify),
    ),
    ("fix", "apply lint suggestions, format, update generated tables", Run::Alone(verify::fix)),
    ("bench", "run a benchmark: `bench filter [its arguments]`", Run::WithArguments(bench::bench)),
    (
        "miri",
        "run the filter's unit tests under Miri: `miri [names of tests]` (needs nightly)",
        Run::WithArguments(miri::miri),
    ),
    (
        "fuzz",
        "fuzz parsers of untrusted bytes: `fuzz [target|all] [seconds]` (needs nightly)",
        Run::WithArguments(fuzz::fuzz),
    ),
    (
        "faults",
        "kill servers and databases under a bank, and audit it: `faults [minutes]`; or `faults registers --engine cassandra`",
        Run::WithArguments(faults::faults),
    ),
    (
        "attack",
        "attack a server in a small cgroup: `attack [minutes] [--seed N]`",
        Run::WithArguments(attack::attack),
    ),
    (
        "services",
        "run a Cassandra cluster until Ctrl-C: `services cassandra [folder]`",
        Run::WithArguments(services::services),
    ),
    ("dist", "build the release binary, with its symbols in a file beside it", Run::Alone(dist::dist)),
    ("deny", "check licences and security advisories (needs cargo-deny)", Run::Alone(deny::deny)),
    ("help", "list the commands", Run::Alone(help)),
];

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match dispatch(&arguments) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => match error.downcast_ref::<process::Failed>() {
            Some(failed) => ExitCode::from(failed.code),
            None => {
                eprintln!("{error:#}");
                ExitCode::FAILURE
            }
        },
    }
}

fn dispatch(arguments: &[String]) -> Result<()> {
    let Some((name, own)) = arguments.split_first() else { return help() };
    let name = if matches!(name.as_str(), "-h" | "--help") { "help" } else { name };
    match COMMANDS.iter().find(|(known, ..)| *known == name) {
        Some((_, _, Run::WithArguments(run))) => run(own),
        Some((_, _, Run::Alone(run))) if own.is_empty() => run(),
        Some(_) => bail!("`cargo xtask {name}` takes no arguments, but got: {}", own.join(" ")),
        None => bail!("there is no command `{name}`; `cargo xtask help` lists them"),
    }
}

fn help() -> Result<()> {
    println!("Commands of this repository:\n");
    for (name, about, _) in COMMANDS {
        println!("    cargo xtask {name:8}{about}");
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mistyped_command_is_rejected_with_a_hint() {
        let dispatch = |words: &[&str]| dispatch(&words.iter().map(ToString::to_string).collect::<Vec<_>>());
        for (words, expected) in [
            (&["tset"][..], "cargo xtask help"),
            (&["tidy", "now"], "takes no arguments"),
            (&["bench"], "filter"),
            (&["bench", "fliter"], "no benchmark `fliter`"),
        ] {
            let error = dispatch(words).unwrap_err().to_string();
            assert!(error.contains(expected), "{words:?}: {error}");
        }
        assert!(dispatch(&["--help"]).is_ok() && dispatch(&[]).is_ok());
    }
}
