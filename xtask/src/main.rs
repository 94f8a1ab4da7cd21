//! The repository's own chores, as `cargo xtask <chore>`: each command of CONTRIBUTING.md is a line in [`CHORES`].

mod bench;
mod deny;
mod faults;
mod fuzz;
mod machine;
mod miri;
mod process;
mod test;
mod tidy;
mod verify;

use std::process::ExitCode;

use anyhow::{Result, bail};

/// A chore: its name, one line about it, and what it does.
type Chore = (&'static str, &'static str, Run);

enum Run {
    Alone(fn() -> Result<()>),
    WithArguments(fn(&[String]) -> Result<()>),
}

const CHORES: &[Chore] = &[
    ("test", "install what the tests need, and run them all", Run::Alone(test::test)),
    (
        "tidy",
        "check the rules of the house that the compiler does not know",
        Run::Alone(|| tidy::run(&process::root())),
    ),
    (
        "verify",
        "check format, lints, documentation and tests, as CI does; changes nothing",
        Run::Alone(verify::verify),
    ),
    ("fix", "mend what can be mended by a program: lints, then format", Run::Alone(verify::fix)),
    ("bench", "run a benchmark: `bench filter [its arguments]`", Run::WithArguments(bench::bench)),
    (
        "miri",
        "run the filter's unit tests under Miri: `miri [names of tests]` (needs nightly)",
        Run::WithArguments(miri::miri),
    ),
    (
        "fuzz",
        "fuzz what strangers send: `fuzz [target|all] [seconds]` (needs nightly)",
        Run::WithArguments(fuzz::fuzz),
    ),
    (
        "faults",
        "kill servers and databases under a bank, and check its books: `faults [minutes]`",
        Run::WithArguments(faults::faults),
    ),
    ("deny", "check licences and known holes of dependencies (needs cargo-deny)", Run::Alone(deny::deny)),
    ("help", "list the chores", Run::Alone(help)),
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
    match CHORES.iter().find(|(known, ..)| *known == name) {
        Some((_, _, Run::WithArguments(run))) => run(own),
        Some((_, _, Run::Alone(run))) if own.is_empty() => run(),
        Some(_) => bail!("`cargo xtask {name}` takes no arguments, but got: {}", own.join(" ")),
        None => bail!("there is no chore `{name}`; `cargo xtask help` lists them"),
    }
}

fn help() -> Result<()> {
    println!("The repository's own chores:\n");
    for (name, about, _) in CHORES {
        println!("    cargo xtask {name:8}{about}");
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mistyped_chore_is_refused_with_the_way_on() {
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
