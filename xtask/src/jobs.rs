//! Runs independent programs at the same time. Most tests wait for a disk, a database or a timer, so the
//! processors would be idle if the programs ran one after another.

use std::collections::VecDeque;
use std::env;
use std::fs::{self, File};
use std::process::{self, Command, ExitStatus};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard};
use std::thread;
use std::time::Instant;

use anyhow::{Context, Result};

use crate::process::{Failed, shown};

/// Runs the programs, `lanes` at a time, in their order. The output of each is printed when it ends, and that
/// of failed programs last. After a failure no program is started. The last line is like that of the test
/// harness, with the number of all tests that passed.
pub fn run_all(commands: Vec<Command>, lanes: usize) -> Result<()> {
    let begun = Instant::now();
    let queue = Mutex::new(VecDeque::from(commands));
    let summary = Mutex::new(Summary::default());
    thread::scope(|scope| {
        for _ in 0..lanes {
            scope.spawn(|| {
                while let Some(command) = next(&queue, &summary) {
                    let report = Report::of(command);
                    lock(&summary).add(report);
                }
            });
        }
    });
    let summary = summary.into_inner().expect("lanes do not panic");
    for report in &summary.failed {
        report.print();
    }
    let result = if summary.failed.is_empty() { "ok" } else { "FAILED" };
    let Summary { passed, failed, .. } = &summary;
    println!(
        "\ntest result: {result}. {passed} passed; {} programs failed; finished in {} s",
        failed.len(),
        begun.elapsed().as_secs()
    );
    if failed.is_empty() { Ok(()) } else { Err(Failed { code: 1 }.into()) }
}

fn next(queue: &Mutex<VecDeque<Command>>, summary: &Mutex<Summary>) -> Option<Command> {
    if lock(summary).failed.is_empty() { lock(queue).pop_front() } else { None }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().expect("lanes do not panic")
}

/// The programs that have ended.
#[derive(Default)]
struct Summary {
    passed: u64,
    failed: Vec<Report>,
}

impl Summary {
    fn add(&mut self, report: Report) {
        if report.failure.is_some() {
            eprintln!("failed: {}", report.line);
            return self.failed.push(report);
        }
        report.print();
        self.passed += report.passed();
    }
}

/// A program that has ended.
struct Report {
    line: String,
    seconds: u64,
    output: String,
    /// Why it failed, if it did.
    failure: Option<String>,
}

impl Report {
    fn of(mut command: Command) -> Self {
        let begun = Instant::now();
        let mut output = String::new();
        let failure = match capture(&mut command, &mut output) {
            Ok(status) if status.success() => None,
            Ok(status) => Some(status.to_string()),
            Err(error) => Some(format!("{error:#}")),
        };
        Self { line: shown(&command), seconds: begun.elapsed().as_secs(), output, failure }
    }

    fn print(&self) {
        let Self { line, seconds, output, failure } = self;
        println!("\n$ {line}\n{output}");
        match failure {
            None => println!("{seconds} s: {line}"),
            Some(failure) => println!("{failure} after {seconds} s: {line}"),
        }
    }

    /// How many tests passed, by the summaries of the test harness.
    fn passed(&self) -> u64 {
        let counts = self.output.lines().filter_map(|line| line.strip_prefix("test result: ok. "));
        counts.filter_map(|line| line.split(' ').next()?.parse::<u64>().ok()).sum()
    }
}

/// Runs the program with its output in a file. A pipe would stay open as long as a server that the program
/// left behind.
fn capture(command: &mut Command, output: &mut String) -> Result<ExitStatus> {
    static FILES: AtomicU64 = AtomicU64::new(0);
    let number = FILES.fetch_add(1, Ordering::Relaxed);
    let path = env::temp_dir().join(format!("jeton-xtask-{}-{number}", process::id()));
    let file = File::create(&path)?;
    let status = command.stdout(file.try_clone()?).stderr(file).status();
    *output = String::from_utf8_lossy(&fs::read(&path)?).into_owned();
    fs::remove_file(&path)?;
    status.with_context(|| format!("cannot start `{}`", shown(command)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::process::program;

    fn sh(script: &str) -> Command {
        program("sh", &["-c", script])
    }

    #[test]
    fn programs_run_at_the_same_time() {
        // Each waits until the other runs.
        let folder = env::temp_dir().join(format!("jeton-xtask-jobs-{}", process::id()));
        fs::create_dir_all(&folder).unwrap();
        let meet = |own: &str, other: &str| {
            let folder = folder.display();
            sh(&format!("touch {folder}/{own}; timeout 60 sh -c 'until [ -e {folder}/{other} ]; do :; done'"))
        };
        assert!(run_all(vec![meet("a", "b"), meet("b", "a")], 2).is_ok());
        fs::remove_dir_all(&folder).unwrap();
    }

    #[test]
    fn no_program_is_started_after_a_failure() {
        let marker = env::temp_dir().join(format!("jeton-xtask-marker-{}", process::id()));
        let touch = sh(&format!("touch {}", marker.display()));
        assert!(run_all(vec![sh("exit 3"), touch], 1).is_err());
        assert!(!marker.exists());
        assert!(run_all(vec![program("no-such-program", &[])], 1).is_err());
    }

    #[test]
    fn tests_that_passed_are_counted() {
        let output = "test result: ok. 4 passed; 0 failed\nx\ntest result: ok. 12 passed; 0 failed\n".into();
        let report = Report { line: String::new(), seconds: 0, output, failure: None };
        assert_eq!(report.passed(), 16);
    }
}
