//! Runs the real binary and captures its output.

use std::process::Command;
use std::time::{Duration, Instant};

/// Longest wait for a condition, also on a busy machine.
pub const TIMEOUT: Duration = Duration::from_secs(60);

/// Output and exit code of a run.
pub struct Run {
    pub out: String,
    pub err: String,
    /// `None` if a signal ended it.
    pub code: Option<i32>,
}

impl Run {
    /// Runs a command to its end.
    pub fn of(command: &mut Command) -> Self {
        let output = command.output().expect("the binary starts");
        let text = |bytes| String::from_utf8(bytes).expect("the output is text");
        Self { out: text(output.stdout), err: text(output.stderr), code: output.status.code() }
    }

    /// Asserts that the command failed, with these words on standard error.
    pub fn fails(&self, words: &[&str]) {
        assert_eq!(self.code, Some(1), "{}{}", self.out, self.err);
        for word in words {
            assert!(self.err.contains(word), "{word:?} is not in:\n{}", self.err);
        }
    }
}

/// The binary, not yet started.
pub fn command(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_jeton"));
    command.args(arguments);
    // Tests do not depend on the environment of the machine.
    for (name, _) in std::env::vars_os() {
        if name.to_string_lossy().starts_with("JETON_") {
            command.env_remove(name);
        }
    }
    command
}

/// Runs the binary to its end. Its output is a pipe, as in a script.
pub fn jeton(arguments: &[&str]) -> Run {
    Run::of(&mut command(arguments))
}

/// Waits until a condition is met.
pub fn until(what: &str, mut condition: impl FnMut() -> bool) {
    let deadline = Instant::now() + TIMEOUT;
    while !condition() {
        assert!(Instant::now() < deadline, "never: {what}");
        std::thread::sleep(Duration::from_millis(10));
    }
}
