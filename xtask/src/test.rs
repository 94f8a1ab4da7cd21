//! `cargo xtask test`: installs what the tests need and runs all of them.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::{env, thread};

use anyhow::{Context, Result, bail};
use serde_json::Value;

use crate::process::{cargo, debug_directory, program, root, run, target_directory};
use crate::{faults, jobs, machine, services, tidy};

/// The features of all builds for tests: with the planted mutations, which only the tests of that name
/// activate, so that the workspace is built once.
const FEATURES: &str = "jeton-cluster/mutations,jeton-participants/mutations,jeton-sim/mutations";

/// Prepares the machine, builds every test, and runs them, some at a time. Each build selects the whole
/// workspace: a package alone would get other features, and its dependencies would be built again.
pub fn test() -> Result<()> {
    machine::prepare()?;
    tidy::run(&root())?;
    let skipped = services::fetch_cassandra()?;
    run(&mut build_programs())?;
    let mut commands = faults::banks(faults::MINUTES);
    // What still has to be built leaves processors to the tests beside it.
    commands.extend([research(&["test", "--jobs", "1"]), loom(), python()]);
    commands.extend(test_programs()?);
    // Last, because cargo waits until research is built.
    commands.push(cargo(&["test", "--workspace", "--features", FEATURES, "--doc", "--jobs", "1"]));
    // Most tests use a tenth of a processor: they wait for disks, databases and timers.
    let processors = thread::available_parallelism().map_or(1, usize::from);
    jobs::run_all(commands, 2 * processors)?;
    if let Some(line) = skipped {
        eprintln!("{line}");
    }
    Ok(())
}

/// Builds the programs and the tests of the workspace.
pub fn build_programs() -> Command {
    cargo(&["build", "--workspace", "--all-targets", "--features", FEATURES])
}

/// The test programs of the workspace, as `cargo test` runs them: in the folders of their packages.
/// Integration tests come first, because they take longer.
fn test_programs() -> Result<Vec<Command>> {
    let output = build_programs().arg("--message-format=json").output().context("cannot start cargo")?;
    if !output.status.success() {
        bail!("the list of tests cannot be read: {}", String::from_utf8_lossy(&output.stderr));
    }
    let text = String::from_utf8(output.stdout)?;
    let mut tests: Vec<(bool, PathBuf, PathBuf)> = text.lines().filter_map(test_program).collect();
    tests.sort();
    let command = |(_, folder, path): &(bool, PathBuf, PathBuf)| {
        let mut command = program(&path.to_string_lossy(), &[]);
        command.current_dir(folder);
        command
    };
    Ok(tests.iter().map(command).collect())
}

/// Returns whether a message of cargo is about unit tests, the folder of the package, and the program; or
/// nothing, if it is not about a test.
fn test_program(message: &str) -> Option<(bool, PathBuf, PathBuf)> {
    let message: Value = serde_json::from_str(message).ok()?;
    let kind = message["target"]["kind"][0].as_str()?;
    let is_test = message["profile"]["test"] == Value::Bool(true) && kind != "bench";
    let path = message["executable"].as_str().filter(|_| is_test)?;
    let folder = Path::new(message["manifest_path"].as_str()?).parent()?;
    Some((kind != "test", folder.to_owned(), path.into()))
}

/// A cargo command for the workspace of `research/`. It shares the target directory, and with it the
/// dependencies that both workspaces have.
pub fn research(arguments: &[&str]) -> Command {
    let (name, rest) = arguments.split_first().expect("callers name a cargo command");
    let mut command = cargo(&[name, "--manifest-path", "research/Cargo.toml", "--target-dir"]);
    command.arg(target_directory()).args(rest);
    command
}

/// Tests the Python client against the server of this tree.
fn python() -> Command {
    let script = root().join("clients/python/test.sh");
    let mut python = program("bash", &[&script.to_string_lossy()]);
    python.env("JETON_BIN", debug_directory().join("jeton"));
    python
}

/// Explores the interleavings of the concurrent filter. Its build has other atomics, hence its own target
/// directory: otherwise each build would discard the other.
fn loom() -> Command {
    let flags = env::var("RUSTFLAGS").map_or("--cfg loom".into(), |own| format!("{own} --cfg loom"));
    let mut loom = cargo(&["test", "--release", "-p", "forgetful-filter", "--test", "loom", "--jobs", "1"]);
    loom.arg("--target-dir").arg(target_directory().join("loom"));
    loom.env("RUSTFLAGS", flags).env("CARGO_PROFILE_RELEASE_LTO", "off");
    // Loom advises 2 or 3: that finds most bugs, and without a bound the search does not end.
    loom.env("LOOM_MAX_PREEMPTIONS", "3");
    loom
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn test_programs_are_found_in_messages_of_cargo() {
        let message = |kind: &str, test: bool, executable: &str| {
            format!(
                r#"{{"reason":"compiler-artifact","manifest_path":"/r/a/Cargo.toml","target":{{"kind":["{kind}"]}},"profile":{{"test":{test}}},"executable":{executable}}}"#
            )
        };
        let found = |is_unit| Some((is_unit, PathBuf::from("/r/a"), PathBuf::from("/t/a-1")));
        assert_eq!(test_program(&message("test", true, "\"/t/a-1\"")), found(false));
        assert_eq!(test_program(&message("lib", true, "\"/t/a-1\"")), found(true));
        assert_eq!(test_program(&message("bin", true, "\"/t/a-1\"")), found(true));
        // A program that is no test, a benchmark, a library, and a message about the build.
        assert_eq!(test_program(&message("bin", false, "\"/t/a-1\"")), None);
        assert_eq!(test_program(&message("bench", true, "\"/t/a-1\"")), None);
        assert_eq!(test_program(&message("lib", true, "null")), None);
        assert_eq!(test_program(r#"{"reason":"build-finished","success":true}"#), None);
    }
}
