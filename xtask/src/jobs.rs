//! Runs independent programs at the same time. Most tests wait for a disk, a database or a timer, so the
//! processors would be idle if the programs ran one after another.

use std::collections::VecDeque;
use std::env;
use std::fs::{self, File};
use std::process::{self, Command};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard};
use std::thread;
use std::time::Instant;

use anyhow::Result;

use crate::process::{Failed, shown};

/// Runs the programs, `lanes` at a time, in their order. The output of each is printed when it ends, and that
/// of failed programs last. After a failure no program is started.
pub fn run_all(commands: Vec<Command>, lanes: usize) -> Result<()> {
    let (begun, count) = (Instant::now(), commands.len());
    let queue = Mutex::new(VecDeque::from(commands));
    let failed = Mutex::new(String::new());
    let next = || lock(&queue).pop_front();
    let work = || {
        while let Some(mut command) = next() {
            let (is_good, report) = execute(&mut command);
            if is_good {
                println!("{report}");
            } else {
                lock(&queue).clear();
                *lock(&failed) += &report;
            }
        }
    };
    thread::scope(|scope| (0..lanes).for_each(|_| drop(scope.spawn(work))));
    let seconds = begun.elapsed().as_secs();
    let failed = lock(&failed);
    if failed.is_empty() {
        println!("all programs succeeded in {seconds} s");
        println!("{count} passed, 0 failed");
        return Ok(());
    }
    println!("{failed}test result: FAILED. finished in {seconds} s");
    Err(Failed { code: 1 }.into())
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().expect("lanes do not panic")
}

/// Runs a program. Returns whether it succeeded, and a report: command line, output, and duration.
fn execute(command: &mut Command) -> (bool, String) {
    let begun = Instant::now();
    let line = shown(command);
    let mut output = String::new();
    let (is_good, result) = match capture(command, &mut output) {
        Ok(status) => (status.success(), status.to_string()),
        Err(error) => (false, error.to_string()),
    };
    let seconds = begun.elapsed().as_secs();
    (is_good, format!("\n$ {line}\n{output}{seconds} s, {result}: {line}\n"))
}

/// The output goes to a file: a pipe would stay open as long as a server that the program left behind.
fn capture(command: &mut Command, output: &mut String) -> Result<process::ExitStatus> {
    static FILES: AtomicU64 = AtomicU64::new(0);
    let number = FILES.fetch_add(1, Ordering::Relaxed);
    let path = env::temp_dir().join(format!("jeton-xtask-{}-{number}", process::id()));
    let file = File::create(&path)?;
    let status = command.stdout(file.try_clone()?).stderr(file).status();
    *output = String::from_utf8_lossy(&fs::read(&path)?).into_owned();
    fs::remove_file(&path)?;
    Ok(status?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::process::program;

    fn sh(script: &str) -> Command {
        program("sh", &["-c", script])
    }

    /// A name in the directory for temporary files.
    fn file(name: &str) -> String {
        env::temp_dir().join(format!("jeton-xtask-{name}-{}", process::id())).display().to_string()
    }

    #[test]
    fn programs_run_at_the_same_time() {
        let (a, b) = (file("a"), file("b"));
        // Each waits until the other runs.
        let meet =
            |own, other| sh(&format!("touch {own}; timeout 60 sh -c 'until [ -e {other} ]; do :; done'"));
        assert!(run_all(vec![meet(&a, &b), meet(&b, &a)], 2).is_ok());
        [a, b].iter().for_each(|file| fs::remove_file(file).unwrap());
    }

    #[test]
    fn no_program_is_started_after_a_failure() {
        let marker = file("marker");
        assert!(run_all(vec![sh("exit 3"), sh(&format!("touch {marker}"))], 1).is_err());
        assert!(fs::metadata(marker).is_err());
        assert!(run_all(vec![program("no-such-program", &[])], 1).is_err());
    }

    #[test]
    fn a_report_has_output_and_status() {
        let (is_good, report) = execute(&mut sh("echo out; echo err >&2; exit 3"));
        assert!(!is_good && report.contains("out\nerr\n") && report.contains("exit status: 3"), "{report}");
    }
}
