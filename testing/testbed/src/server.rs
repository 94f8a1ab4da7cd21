//! A server as a child process, which is ended in every case.

use std::fs::OpenOptions;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use rustix::process::{Pid, Signal, kill_process};

use crate::{process_tree, spawner};

/// Limit for the start and for the shutdown of a server.
const TIMEOUT: Duration = Duration::from_secs(60);

/// Interval at which the state of another process is polled.
const POLL_INTERVAL: Duration = Duration::from_millis(10);

/// Polls, a millisecond apart, until all processes are stopped.
const STOP_POLLS: usize = 2_000;

/// A running server. Dropping it shuts it down, and kills all its processes after a timeout.
pub struct Server {
    name: &'static str,
    child: Child,
    stop: Signal,
    log: PathBuf,
}

/// A system user to run a server as.
#[derive(Clone, Copy)]
pub struct User {
    /// The login name.
    pub name: &'static str,
}

impl User {
    /// The user, if this process runs as root: databases refuse to.
    pub fn unless_allowed(name: &'static str) -> Option<Self> {
        rustix::process::geteuid().is_root().then_some(Self { name })
    }

    /// Creates a folder that belongs to a user.
    pub(crate) fn make_folder(user: Option<Self>, folder: &Path) -> Result<()> {
        std::fs::create_dir_all(folder)?;
        Self::give(user, folder)
    }

    /// Makes a user the owner of a file or folder.
    pub(crate) fn give(user: Option<Self>, path: &Path) -> Result<()> {
        if let Some(user) = user {
            let (owner, group) = (user.number("-u")?, user.number("-g")?);
            std::os::unix::fs::chown(path, Some(owner), Some(group))?;
        }
        Ok(())
    }

    /// The id of the user (`-u`) or of its group (`-g`).
    fn number(self, which: &str) -> Result<u32> {
        let output = Command::new("id").args([which, self.name]).output()?;
        let text = String::from_utf8_lossy(&output.stdout).trim().to_owned();
        text.parse().with_context(|| format!("there is no user `{}`", self.name))
    }
}

/// A command that dies with this process, even if this process is killed. `setpriv` sets the parent death
/// signal after the change of user, which clears the signal, and then replaces itself by the program.
pub fn bound_command(program: &Path, user: Option<User>, stop: Signal) -> Command {
    let mut command = Command::new("setpriv");
    let signal = if stop == Signal::QUIT { "QUIT" } else { "KILL" };
    command.args(["--pdeathsig", signal]);
    if let Some(User { name }) = user {
        command.args(["--reuid", name, "--regid", name, "--clear-groups"]);
    }
    command.arg("--").arg(program).stdin(Stdio::null());
    command
}

/// Runs a command and waits for its exit.
pub(crate) fn run(name: &str, mut command: Command) -> Result<()> {
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    let output = spawner::spawn(command).and_then(Child::wait_with_output);
    let output = output.with_context(|| format!("cannot start {name}"))?;
    if !output.status.success() {
        // The usual cause is a parent folder that the user may not traverse.
        let text = [output.stdout, output.stderr].concat();
        bail!("{name}: {}", String::from_utf8_lossy(&text).trim());
    }
    Ok(())
}

impl Server {
    /// Starts a command in a process group of its own, and appends its output to a file.
    pub fn start(name: &'static str, mut command: Command, stop: Signal, log: PathBuf) -> Result<Self> {
        use std::os::unix::process::CommandExt;
        let file = OpenOptions::new().create(true).append(true).open(&log);
        let file = file.with_context(|| format!("no log for {name}"))?;
        command.stdout(file.try_clone()?).stderr(file).process_group(0);
        let child = spawner::spawn(command).with_context(|| format!("cannot start {name}"))?;
        Ok(Self { name, child, stop, log })
    }

    /// Polls `ready` until it succeeds.
    pub fn await_ready(&mut self, ready: impl FnMut() -> Result<()>) -> Result<()> {
        self.await_ready_within(TIMEOUT, ready)
    }

    /// As [`Server::await_ready`], with another limit.
    pub(crate) fn await_ready_within(
        &mut self,
        timeout: Duration,
        mut ready: impl FnMut() -> Result<()>,
    ) -> Result<()> {
        let started = Instant::now();
        loop {
            let error = match ready() {
                Ok(()) => return Ok(()),
                Err(error) => error,
            };
            if let Some(status) = self.child.try_wait()? {
                bail!("{} ended with {status}: {}", self.name, self.log_tail());
            }
            if started.elapsed() > timeout {
                bail!(
                    "{} did not become ready within {timeout:?} ({error:#}): {}",
                    self.name,
                    self.log_tail()
                );
            }
            std::thread::sleep(POLL_INTERVAL);
        }
    }

    /// The last lines of the log.
    fn log_tail(&self) -> String {
        let text = std::fs::read(&self.log).unwrap_or_default();
        let text = String::from_utf8_lossy(&text);
        let lines: Vec<&str> = text.lines().collect();
        lines[lines.len().saturating_sub(8)..].join(" / ")
    }

    /// The process id.
    pub fn process(&self) -> u32 {
        self.child.id()
    }

    /// Whether the process has exited.
    pub fn has_ended(&mut self) -> bool {
        !matches!(self.child.try_wait(), Ok(None))
    }

    /// Kills all processes of the server and waits until they are gone.
    pub fn kill(mut self) {
        self.kill_all();
    }

    /// Suspends all processes of the server.
    pub fn pause(&self) {
        let processes = process_tree::signal(self.child.id(), Signal::STOP);
        // A process in uninterruptible sleep stops after its I/O; the wait is bounded.
        for _ in 0..STOP_POLLS {
            if processes.iter().all(|process| process_tree::is_stopped(*process)) {
                return;
            }
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    /// Resumes suspended processes.
    pub fn resume(&self) {
        process_tree::signal(self.child.id(), Signal::CONT);
    }

    /// Sends a signal and waits for the exit.
    pub fn stop(mut self, signal: Signal) {
        self.stop = signal;
    }

    fn kill_all(&mut self) {
        let processes = process_tree::signal(self.child.id(), Signal::KILL);
        let _status = self.child.wait();
        // The other processes have another parent by now, so they cannot be waited for.
        while processes.iter().any(|process| process_tree::is_alive(*process)) {
            std::thread::sleep(POLL_INTERVAL);
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        if !matches!(self.child.try_wait(), Ok(None)) {
            return;
        }
        if let Some(pid) = i32::try_from(self.child.id()).ok().and_then(Pid::from_raw) {
            let _already_exited = kill_process(pid, self.stop);
        }
        self.resume();
        let started = Instant::now();
        while matches!(self.child.try_wait(), Ok(None)) {
            if started.elapsed() > TIMEOUT {
                self.kill_all();
                return;
            }
            std::thread::sleep(POLL_INTERVAL);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn early_exit_is_reported_at_once() {
        let folder = crate::folder().unwrap();
        let mut command = bound_command(Path::new("sh"), None, Signal::TERM);
        command.args(["-c", "echo no room; exit 3"]);
        let log = folder.path().join("log");
        let mut server = Server::start("a server", command, Signal::TERM, log).unwrap();
        let error = server.await_ready(|| bail!("not yet")).unwrap_err().to_string();
        assert!(error.contains("no room") && error.contains("3"), "{error}");
    }

    #[test]
    fn server_outlives_the_thread_that_started_it() {
        let folder = crate::folder().unwrap();
        let log = folder.path().join("log");
        let mut command = bound_command(Path::new("sleep"), None, Signal::KILL);
        command.arg("600");
        let start = move || Server::start("a sleeper", command, Signal::KILL, log).unwrap();
        let mut server = std::thread::spawn(start).join().unwrap();
        // A parent death signal would arrive before the join returns, and end the process soon after.
        std::thread::sleep(Duration::from_millis(100));
        assert!(server.child.try_wait().unwrap().is_none());
        let process = server.process();
        server.kill();
        assert!(!process_tree::is_alive(process));
    }
}
