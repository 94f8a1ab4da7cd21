//! Runs other programs: each command line is printed, and a failure ends the command.

use std::env;
use std::fmt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Instant;

use anyhow::{Context, Result};

/// A program that ran and failed. It has printed the reason, so no message is added.
#[derive(Debug)]
pub struct Failed {
    /// The exit code to pass on.
    pub code: u8,
}

impl fmt::Display for Failed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "exit code {}", self.code)
    }
}

impl std::error::Error for Failed {}

/// The root of the repository.
pub fn root() -> PathBuf {
    // Cargo sets the manifest directory at run time; the one of compile time may have moved.
    let manifest = env::var_os("CARGO_MANIFEST_DIR").map(PathBuf::from);
    let manifest = manifest.unwrap_or_else(|| env!("CARGO_MANIFEST_DIR").into());
    manifest.parent().map(Path::to_path_buf).unwrap_or(manifest)
}

/// The directory of all builds.
pub fn target_directory() -> PathBuf {
    env::var_os("CARGO_TARGET_DIR").map_or_else(|| root().join("target"), PathBuf::from)
}

/// The directory of debug builds.
pub fn debug_directory() -> PathBuf {
    target_directory().join("debug")
}

/// A cargo command in the root of the repository.
pub fn cargo(arguments: &[&str]) -> Command {
    let mut command = program("cargo", arguments);
    // Cargo sets variables for the package `xtask`. If they were passed on, build scripts that watch them
    // would run again each time.
    for (name, _) in env::vars_os() {
        if name
            .to_str()
            .is_some_and(|name| name.starts_with("CARGO_PKG_") || name.starts_with("CARGO_MANIFEST_"))
        {
            command.env_remove(name);
        }
    }
    command
}

/// A command in the root of the repository, without standard input.
pub fn program(name: &str, arguments: &[&str]) -> Command {
    let mut command = Command::new(name);
    command.args(arguments).current_dir(root()).stdin(Stdio::null());
    command
}

/// Prints the command line, runs it, prints its duration, and fails if it fails.
pub fn run(command: &mut Command) -> Result<()> {
    let line = shown(command);
    eprintln!("\n$ {line}");
    let started = Instant::now();
    let status = command.status().with_context(|| format!("cannot start `{line}`"))?;
    if status.success() {
        eprintln!("{} s: {line}", started.elapsed().as_secs());
        return Ok(());
    }
    let code = status.code().and_then(|code| u8::try_from(code).ok()).unwrap_or(1);
    Err(Failed { code }.into())
}

/// Whether the command runs and succeeds; its output is not shown.
pub fn succeeds(command: &mut Command) -> bool {
    command.stdout(Stdio::null()).stderr(Stdio::null()).status().is_ok_and(|status| status.success())
}

/// Whether a program of this name can be started.
pub fn is_installed(name: &str) -> bool {
    env::var_os("PATH").is_some_and(|path| env::split_paths(&path).any(|folder| folder.join(name).is_file()))
}

/// The command line with its environment variables, as typed in a shell.
pub fn shown(command: &Command) -> String {
    let quoted = |text: &std::ffi::OsStr| {
        let text = text.to_string_lossy();
        if text.contains(' ') { format!("\"{text}\"") } else { text.into_owned() }
    };
    let variables = command
        .get_envs()
        .filter_map(|(name, value)| Some(format!("{}={}", name.to_string_lossy(), quoted(value?))));
    let words = std::iter::once(command.get_program()).chain(command.get_args()).map(quoted);
    variables.chain(words).collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_is_shown_as_it_would_be_typed() {
        let mut command = program("cargo", &["test", "--", "a b"]);
        command.env("RUSTFLAGS", "--cfg loom").env_remove("CARGO_PKG_NAME");
        assert_eq!(shown(&command), "RUSTFLAGS=\"--cfg loom\" cargo test -- \"a b\"");
    }

    #[test]
    fn the_exit_code_of_a_failure_is_passed_on() {
        let error = run(&mut program("sh", &["-c", "exit 3"])).unwrap_err();
        assert_eq!(error.downcast_ref::<Failed>().map(|failed| failed.code), Some(3));
        assert!(run(&mut program("sh", &["-c", "exit 0"])).is_ok());
        let error = run(&mut program("no-such-program", &[])).unwrap_err();
        assert!(error.to_string().contains("no-such-program"), "{error}");
    }
}
