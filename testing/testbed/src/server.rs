//! A server as a process of ours: started in a folder, awaited, and ended whatever happens.

use std::fs::OpenOptions;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use rustix::process::{Pid, Signal, kill_process};

use crate::{process_tree, spawner};

/// How long a server may take to answer for the first time, and to go when it is told to.
const PATIENCE: Duration = Duration::from_secs(60);

/// How often a condition of another process is looked at: it cannot be awaited.
const LOOK: Duration = Duration::from_millis(10);

/// How often it is looked, a millisecond apart, whether all are stopped.
const STOP_LOOKS: usize = 2_000;

/// A running server. Dropped, it is told to go, and killed with all its processes if it does not.
pub struct Server {
    name: &'static str,
    child: Child,
    stop: Signal,
    log: PathBuf,
}

/// Another user to run as.
#[derive(Clone, Copy)]
pub struct User {
    /// Its name.
    pub name: &'static str,
}

impl User {
    /// The user, if we are allowed to become it and would otherwise be one that databases refuse to run as.
    pub fn unless_allowed(name: &'static str) -> Option<Self> {
        rustix::process::geteuid().is_root().then_some(Self { name })
    }

    /// Makes a folder and gives it to a user.
    pub(crate) fn make_folder(user: Option<Self>, folder: &Path) -> Result<()> {
        std::fs::create_dir_all(folder)?;
        if let Some(user) = user {
            let (owner, group) = (user.number("-u")?, user.number("-g")?);
            std::os::unix::fs::chown(folder, Some(owner), Some(group))?;
        }
        Ok(())
    }

    /// The number of the user or of its group.
    fn number(self, which: &str) -> Result<u32> {
        let output = Command::new("id").args([which, self.name]).output()?;
        let text = String::from_utf8_lossy(&output.stdout).trim().to_owned();
        text.parse().with_context(|| format!("there is no user `{}`", self.name))
    }
}

/// A command that dies with this process, even if this one is killed: `setpriv` replaces itself by the program. It
/// tells the kernel about the parent after the change of user, which would make the kernel forget it.
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

/// Runs a command to its end.
pub(crate) fn run(name: &str, mut command: Command) -> Result<()> {
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    let output = spawner::spawn(command).and_then(Child::wait_with_output);
    let output = output.with_context(|| format!("cannot start {name}"))?;
    if !output.status.success() {
        // Mostly a folder above that its user may not pass.
        let words = [output.stdout, output.stderr].concat();
        bail!("{name}: {}", String::from_utf8_lossy(&words).trim());
    }
    Ok(())
}

impl Server {
    /// Starts a command in a process group of its own; what it says goes to the end of a file.
    pub fn start(name: &'static str, mut command: Command, stop: Signal, log: PathBuf) -> Result<Self> {
        use std::os::unix::process::CommandExt;
        let file = OpenOptions::new().create(true).append(true).open(&log);
        let file = file.with_context(|| format!("no log for {name}"))?;
        command.stdout(file.try_clone()?).stderr(file).process_group(0);
        let child = spawner::spawn(command).with_context(|| format!("cannot start {name}"))?;
        Ok(Self { name, child, stop, log })
    }

    /// Waits until it is ready by its own answer.
    pub fn await_ready(&mut self, mut ready: impl FnMut() -> Result<()>) -> Result<()> {
        let started = Instant::now();
        loop {
            let error = match ready() {
                Ok(()) => return Ok(()),
                Err(error) => error,
            };
            if let Some(status) = self.child.try_wait()? {
                bail!("{} ended with {status}: {}", self.name, self.last_words());
            }
            if started.elapsed() > PATIENCE {
                bail!("{} does not answer within {PATIENCE:?} ({error:#}): {}", self.name, self.last_words());
            }
            std::thread::sleep(LOOK);
        }
    }

    /// The end of what it said.
    fn last_words(&self) -> String {
        let text = std::fs::read(&self.log).unwrap_or_default();
        let text = String::from_utf8_lossy(&text);
        let lines: Vec<&str> = text.lines().collect();
        lines[lines.len().saturating_sub(8)..].join(" / ")
    }

    /// Its process.
    pub fn process(&self) -> u32 {
        self.child.id()
    }

    /// Whether it is gone, by itself or by another.
    pub fn has_ended(&mut self) -> bool {
        !matches!(self.child.try_wait(), Ok(None))
    }

    /// Kills it with all its processes, and waits until none is left.
    pub fn kill(mut self) {
        self.kill_family();
    }

    /// Stops all its processes where they are.
    pub fn pause(&self) {
        let family = process_tree::signal(self.child.id(), Signal::STOP);
        // One that waits for a disk stops when that has answered; so long as it is limited.
        for _ in 0..STOP_LOOKS {
            if family.iter().all(|member| process_tree::is_stopped(*member)) {
                return;
            }
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    /// Lets them go on.
    pub fn resume(&self) {
        process_tree::signal(self.child.id(), Signal::CONT);
    }

    /// Ends it with a signal, and waits until it is gone.
    pub fn stop(mut self, signal: Signal) {
        self.stop = signal;
    }

    fn kill_family(&mut self) {
        let family = process_tree::signal(self.child.id(), Signal::KILL);
        let _its_status = self.child.wait();
        // The others are children of somebody else by now.
        while family.iter().any(|member| process_tree::is_alive(*member)) {
            std::thread::sleep(LOOK);
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        if !matches!(self.child.try_wait(), Ok(None)) {
            return;
        }
        if let Some(pid) = i32::try_from(self.child.id()).ok().and_then(Pid::from_raw) {
            let _gone_already = kill_process(pid, self.stop);
        }
        self.resume();
        let started = Instant::now();
        while matches!(self.child.try_wait(), Ok(None)) {
            if started.elapsed() > PATIENCE {
                self.kill_family();
                return;
            }
            std::thread::sleep(LOOK);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_that_ends_at_once_is_not_waited_for() {
        let folder = crate::folder().unwrap();
        let mut command = bound_command(Path::new("sh"), None, Signal::TERM);
        command.args(["-c", "echo no room; exit 3"]);
        let log = folder.path().join("log");
        let mut server = Server::start("a server", command, Signal::TERM, log).unwrap();
        let error = server.await_ready(|| bail!("not yet")).unwrap_err().to_string();
        assert!(error.contains("no room") && error.contains("3"), "{error}");
    }

    #[test]
    fn a_server_outlives_the_thread_that_started_it() {
        let folder = crate::folder().unwrap();
        let log = folder.path().join("log");
        let mut command = bound_command(Path::new("sleep"), None, Signal::KILL);
        command.arg("600");
        let start = move || Server::start("a sleeper", command, Signal::KILL, log).unwrap();
        let mut server = std::thread::spawn(start).join().unwrap();
        // The signal would be there before the thread has been joined, and the end soon after.
        std::thread::sleep(Duration::from_millis(100));
        assert!(server.child.try_wait().unwrap().is_none());
        let process = server.process();
        server.kill();
        assert!(!process_tree::is_alive(process));
    }
}
