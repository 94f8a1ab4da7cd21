//! An application server: a `jeton serve` process.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use jeton_testbed::{Server, Signal, bound_command};

use crate::http_client;

/// Interval at which the state of a process is polled.
const POLL_INTERVAL: Duration = Duration::from_millis(5);

/// A server that can be killed and started again.
pub struct Process {
    pub number: usize,
    pub address: SocketAddr,
    /// The path that responds as soon as the server is ready.
    ready: String,
    program: PathBuf,
    config: PathBuf,
    data: PathBuf,
    log: PathBuf,
    /// The length of the log when the process was started.
    log_from: usize,
    running: Option<Server>,
}

/// Returns the program `JETON_BIN`, or builds it.
pub fn program() -> Result<PathBuf> {
    if let Some(binary) = std::env::var_os("JETON_BIN") {
        return Ok(binary.into());
    }
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let built = Command::new(cargo)
        .args(["build", "--quiet", "-p", "jeton-cli", "--features", "failpoints"])
        .status();
    if !built.context("cargo cannot be run")?.success() {
        bail!("jeton cannot be built");
    }
    let own = std::env::current_exe()?;
    let folder = own.parent().context("no folder")?;
    // Test binaries are in a folder below that of the programs.
    let found = [folder, folder.parent().unwrap_or(folder)].map(|folder| folder.join("jeton")).into_iter();
    found.into_iter().find(|path| path.is_file()).context("there is no jeton beside this program")
}

impl Process {
    /// A server of the cluster.
    pub fn new(program: &Path, folder: &Path, config: &Path, number: usize, address: SocketAddr) -> Self {
        Self {
            number,
            address,
            ready: format!("/v1/internal/transactions/{:032x}:0/attempts/1", 0),
            program: program.to_owned(),
            config: config.to_owned(),
            data: folder.join(format!("server-{number}")),
            log: folder.join(format!("server-{number}.log")),
            log_from: 0,
            running: None,
        }
    }

    /// A server with counters only.
    pub fn of_counters(program: &Path, folder: &Path, address: SocketAddr) -> Result<Self> {
        let config = folder.join("audit.toml");
        std::fs::write(&config, "")?;
        let plain = Self::new(program, folder, &config, 1, address);
        let (data, log) = (folder.join("audit"), folder.join("audit.log"));
        Ok(Self { ready: "/readyz".into(), data, log, ..plain })
    }

    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Starts it, with planned faults if there are any. Does not wait until it is ready.
    pub fn start(&mut self, fault: Option<&str>) -> Result<()> {
        self.kill();
        let mut command = bound_command(&self.program, None, Signal::KILL);
        command.arg("serve").arg("--config").arg(&self.config).arg("--data").arg(&self.data);
        command.args(["--resp", "off", "--http", &self.address.to_string()]);
        command.args(["--server-number", &self.number.to_string(), "--log-level", "info"]);
        if let Some(fault) = fault {
            command.env("JETON_FAULT", fault);
        }
        self.log_from = std::fs::metadata(&self.log).map_or(0, |file| file.len() as usize);
        self.running = Some(Server::start("a server of the bank", command, Signal::TERM, self.log.clone())?);
        Ok(())
    }

    /// Shuts it down in order and starts it again.
    pub fn restart(&mut self) -> Result<()> {
        if let Some(server) = self.running.take() {
            server.stop(Signal::TERM);
        }
        self.start(None)
    }

    /// Whether it accepts transactions.
    pub async fn is_ready(&self) -> bool {
        matches!(http_client::get(&format!("{}{}", self.url(), self.ready)).await, Ok((200, _)))
    }

    /// Waits until it accepts transactions.
    pub async fn await_ready(&mut self, timeout: Duration) -> Result<()> {
        let begun = Instant::now();
        while !self.is_ready().await {
            if !self.is_running() || begun.elapsed() > timeout {
                bail!("server {} is not ready; see {}", self.number, self.log.display());
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        Ok(())
    }

    pub fn is_running(&mut self) -> bool {
        self.running.as_mut().is_some_and(|server| !server.has_ended())
    }

    pub fn kill(&mut self) {
        if let Some(server) = self.running.take() {
            server.kill();
        }
    }

    pub fn pause(&self) {
        if let Some(server) = &self.running {
            server.pause();
        }
    }

    pub fn resume(&self) {
        if let Some(server) = &self.running {
            server.resume();
        }
    }

    /// Whether the process is stopped or has ended.
    pub fn is_stopped(&self) -> bool {
        let Some(server) = &self.running else { return true };
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", server.process())).unwrap_or_default();
        // The state follows the name, which is in parentheses. An awaited process has no entry.
        let state = stat.rsplit_once(") ").and_then(|(_, fields)| fields.chars().next());
        matches!(state, None | Some('T' | 'Z' | 'X'))
    }

    /// Waits until the process is stopped or has ended.
    pub async fn stopped(&self) {
        while !self.is_stopped() {
            tokio::time::sleep(POLL_INTERVAL).await;
        }
    }

    /// Whether the log has a panic, from any of its starts.
    pub fn has_panicked(&self) -> bool {
        let text = std::fs::read(&self.log).unwrap_or_default();
        String::from_utf8_lossy(&text).contains("panicked")
    }

    /// The failpoints at which it was killed or stopped since its start.
    pub fn failpoints_reached(&self) -> Vec<String> {
        let text = std::fs::read(&self.log).unwrap_or_default();
        let text = String::from_utf8_lossy(text.get(self.log_from..).unwrap_or_default());
        let met = text.lines().filter(|line| line.contains("failpoint reached"));
        met.filter_map(|line| Some(line.split("point=\"").nth(1)?.split('"').next()?.to_owned())).collect()
    }
}
