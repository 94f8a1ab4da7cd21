//! A server as a process of ours: started in a folder, awaited, measured from outside, and ended whatever happens.

use std::collections::BTreeSet;
use std::fs::File;
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use rustix::process::{Pid, Signal, kill_process, kill_process_group};

/// How long a server may take to answer for the first time, and to go when it is told to.
const PATIENCE: Duration = Duration::from_secs(30);

/// How often a condition of another process is looked at: it cannot be awaited.
const LOOK: Duration = Duration::from_millis(20);

/// A running server. Dropped, it is told to go, and killed with its process group if it does not.
pub struct Server {
    name: &'static str,
    child: Child,
    stop: Signal,
    log: PathBuf,
}

/// Another user to run as.
#[derive(Clone, Copy)]
pub struct User {
    pub name: &'static str,
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

impl Server {
    /// Starts a command in a process group of its own; what it says goes to a file beside its folder.
    pub fn start(name: &'static str, mut command: Command, stop: Signal, log: PathBuf) -> Result<Self> {
        use std::os::unix::process::CommandExt;
        let file = File::create(&log).with_context(|| format!("no log for {name}"))?;
        command.stdout(file.try_clone()?).stderr(file).process_group(0);
        let child = command.spawn().with_context(|| format!("cannot start {name}"))?;
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
}

impl Drop for Server {
    fn drop(&mut self) {
        let Some(pid) = i32::try_from(self.child.id()).ok().and_then(Pid::from_raw) else { return };
        let _gone_already = kill_process(pid, self.stop);
        let started = Instant::now();
        while matches!(self.child.try_wait(), Ok(None)) && started.elapsed() < PATIENCE {
            std::thread::sleep(LOOK);
        }
        let _nobody_left = kill_process_group(pid, Signal::KILL);
        let _its_status = self.child.wait();
    }
}

/// An address that nobody listens at.
pub fn free_address() -> Result<SocketAddr> {
    Ok(TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?.local_addr()?)
}

/// Seconds of processor that a process and all its descendants have used, those that ended included.
pub fn processor_seconds(process: u32) -> f64 {
    let mut family = vec![process];
    let mut ticks = 0;
    let all: Vec<(u32, u32, u64)> = std::fs::read_dir("/proc")
        .into_iter()
        .flatten()
        .flatten()
        .filter_map(|entry| usage(&std::fs::read_to_string(entry.path().join("stat")).ok()?))
        .collect();
    // Children come after their parents in the family, so that each is found by the time its parent is looked at.
    let mut at = 0;
    while let Some(&member) = family.get(at) {
        for &(id, parent, used) in &all {
            if id == member {
                ticks += used;
            }
            if parent == member {
                family.push(id);
            }
        }
        at += 1;
    }
    ticks as f64 / rustix::param::clock_ticks_per_second() as f64
}

/// Process, parent, and ticks of a line of `/proc/<process>/stat`, those of ended children included.
fn usage(stat: &str) -> Option<(u32, u32, u64)> {
    // The name is in brackets and may hold spaces.
    let (head, tail) = stat.rsplit_once(')')?;
    let process = head.split_once(' ')?.0.parse().ok()?;
    let fields: Vec<&str> = tail.split_whitespace().collect();
    let parent = fields.get(1)?.parse().ok()?;
    let ticks = fields.get(11..15)?.iter().filter_map(|field| field.parse::<u64>().ok()).sum();
    Some((process, parent, ticks))
}

/// Resident memory of a process, in bytes.
pub fn resident_bytes(process: u32) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{process}/status")).unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap_or("0");
    line.trim().trim_end_matches(" kB").parse::<u64>().unwrap_or(0) * 1024
}

/// Waits until servers have finished what they do behind the back of their clients, so that nobody pays for another. Not for
/// long: some never rest.
pub fn await_rest(processes: &[u32]) {
    const STEP: Duration = Duration::from_millis(100);
    // A tick of the system's clock is 10 ms, and everybody has one now and then.
    const REST: f64 = 0.015;
    let distinct: BTreeSet<u32> = processes.iter().copied().collect();
    let used = || distinct.iter().map(|process| processor_seconds(*process)).sum::<f64>();
    let mut before = used();
    for _ in 0..20 {
        std::thread::sleep(STEP);
        let after = used();
        if after - before <= REST {
            return;
        }
        before = after;
    }
}

/// The first line of what a program says of its version.
pub fn version(program: &Path) -> String {
    let output = Command::new(program).arg("--version").output();
    let text = output.map(|output| String::from_utf8_lossy(&output.stdout).into_owned()).unwrap_or_default();
    text.lines().next().unwrap_or("version unknown").to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn processor_time_is_read_past_a_name_with_spaces() {
        let stat = "42 (a (b) c) S 7 42 42 0 -1 4194560 1 2 3 4 10 20 300 4000 20 0 1 0";
        assert_eq!(usage(stat), Some((42, 7, 4330)));
        assert!(processor_seconds(std::process::id()) >= 0.0);
        assert!(resident_bytes(std::process::id()) > 0);
    }

    #[test]
    fn a_server_that_ends_at_once_is_not_waited_for() {
        let log = std::env::temp_dir().join(format!("jeton-peers-{}", std::process::id()));
        let mut command = bound_command(Path::new("sh"), None, Signal::TERM);
        command.args(["-c", "echo no room; exit 3"]);
        let mut server = Server::start("a server", command, Signal::TERM, log.clone()).unwrap();
        let error = server.await_ready(|| bail!("not yet")).unwrap_err().to_string();
        assert!(error.contains("no room") && error.contains("3"), "{error}");
        std::fs::remove_file(log).unwrap();
    }
}
