//! `jeton dev-cluster`: PostgreSQL and several nodes on this machine, in a temporary directory.

mod postgres;

use std::fs::{File, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow};
use clap::Args;
use jeton_server::node::init_cluster;
use rustix::process::{Pid, Signal, kill_process};
use signal_hook::consts::{SIGCHLD, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;

use self::postgres::Postgres;
use crate::cli_error::CliError;
use crate::{id, output};

const START_TIMEOUT: Duration = Duration::from_secs(60);
const STOP_TIMEOUT: Duration = Duration::from_secs(30);
const POLL_INTERVAL: Duration = Duration::from_millis(20);

const STRIPES: u16 = 32;

/// Distance between the ports of two nodes.
const PORTS: u16 = 10;

/// Run PostgreSQL and several nodes on this machine, to try a cluster
///
/// Everything is in a temporary directory, which is removed at the end: Ctrl-C. Needs PostgreSQL (initdb).
#[derive(Args)]
pub struct DevCluster {
    /// Number of nodes
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = clap::value_parser!(u16).range(1..=9))]
    nodes: u16,

    /// First port: the Redis protocol of node 1. HTTP and the other nodes use the next two; node 2 begins 10
    /// ports higher
    #[arg(long, value_name = "PORT", default_value_t = 6380, value_parser = clap::value_parser!(u16).range(1..=65_000))]
    port: u16,
}

/// A child process. Dropping it kills it.
struct Process {
    name: String,
    child: Child,
    /// Whether its end was reported.
    reported: bool,
}

/// A program that ends with this process, also if this process is killed, where the system has `setpriv`.
fn bound_command(program: &Path) -> Command {
    let setpriv = Path::new("/usr/bin/setpriv");
    if !setpriv.is_file() {
        return Command::new(program);
    }
    let mut command = Command::new(setpriv);
    command.args(["--pdeathsig", "KILL", "--"]).arg(program);
    command
}

impl Process {
    fn signal(&self, signal: Signal) {
        if let Some(pid) = i32::try_from(self.child.id()).ok().and_then(Pid::from_raw) {
            let _gone = kill_process(pid, signal);
        }
    }

    fn await_end(&mut self, started: Instant) {
        while matches!(self.child.try_wait(), Ok(None)) && started.elapsed() < STOP_TIMEOUT {
            std::thread::sleep(POLL_INTERVAL);
        }
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        if matches!(self.child.try_wait(), Ok(None)) {
            let _gone = self.child.kill();
            let _gone = self.child.wait();
        }
    }
}

/// The addresses of a node on this machine.
struct Addresses {
    resp: u16,
    http: u16,
    peers: u16,
}

impl DevCluster {
    fn addresses(&self, number: u16) -> Addresses {
        let resp = self.port + (number - 1) * PORTS;
        Addresses { resp, http: resp + 1, peers: resp + 2 }
    }

    pub fn run(&self) -> Result<()> {
        // Before the children, so that no signal is missed.
        let mut signals = Signals::new([SIGINT, SIGTERM, SIGCHLD])?;
        let folder = tempfile::Builder::new().prefix("jeton-dev-cluster-").tempdir()?;
        if rustix::process::geteuid().is_root() {
            // PostgreSQL runs as another user, who reaches its own folder below this one.
            std::fs::set_permissions(folder.path(), Permissions::from_mode(0o711))?;
        }
        output::aside("Starting PostgreSQL ...");
        let postgres = Postgres::start(&folder.path().join("postgres"))?;
        let url = postgres.url();
        let mut postgres = Process { name: "PostgreSQL".into(), child: postgres.server, reported: false };
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        runtime.block_on(init_cluster(&url, STRIPES))?;
        output::aside(&format!("Starting {} nodes ...", self.nodes));
        let mut nodes = Vec::new();
        for number in 1..=self.nodes {
            nodes.push(self.start_node(number, &url, folder.path())?);
        }
        for (node, number) in nodes.iter_mut().zip(1..) {
            self.await_ready(node, number, folder.path())?;
        }
        self.lines(&nodes, folder.path(), &id::uuid7()?).iter().try_for_each(|line| output::line(line))?;
        for signal in signals.forever() {
            if signal != SIGCHLD {
                break;
            }
            for (process, number) in nodes.iter_mut().zip(1..).chain([(&mut postgres, 0)]) {
                self.report_end(process, number, &url, folder.path())?;
            }
        }
        output::aside("Stopping ...");
        let started = Instant::now();
        nodes.iter().for_each(|node| node.signal(Signal::TERM));
        nodes.iter_mut().for_each(|node| node.await_end(started));
        postgres.signal(Signal::INT);
        postgres.await_end(Instant::now());
        Ok(())
    }

    /// The arguments of `jeton` for a node.
    fn arguments(&self, number: u16, url: &str, folder: &Path) -> Vec<String> {
        let Addresses { resp, http, peers } = self.addresses(number);
        let data = folder.join(format!("node-{number}"));
        let mut arguments = vec!["serve".to_owned()];
        for (flag, value) in [
            ("--cluster", url.to_owned()),
            ("--data", data.display().to_string()),
            ("--resp", format!("127.0.0.1:{resp}")),
            ("--http", format!("127.0.0.1:{http}")),
            ("--cluster-peers", format!("127.0.0.1:{peers}")),
        ] {
            arguments.extend([flag.to_owned(), value]);
        }
        arguments
    }

    fn start_node(&self, number: u16, url: &str, folder: &Path) -> Result<Process> {
        let log = File::create(log_of(folder, number))?;
        let mut command = bound_command(&std::env::current_exe()?);
        command.args(self.arguments(number, url, folder)).current_dir(folder);
        // Settings of this user are for another server.
        for (name, _) in std::env::vars_os().filter(|(name, _)| name.to_string_lossy().starts_with("JETON_"))
        {
            command.env_remove(name);
        }
        command.stdin(Stdio::null()).stdout(log.try_clone()?).stderr(log);
        // A group of its own: Ctrl-C reaches this process only, which stops the nodes in order.
        let child = command.process_group(0).spawn().context("the node cannot be started")?;
        Ok(Process { name: format!("node {number}"), child, reported: false })
    }

    fn await_ready(&self, node: &mut Process, number: u16, folder: &Path) -> Result<()> {
        let started = Instant::now();
        let address = format!("127.0.0.1:{}", self.addresses(number).http);
        while !is_ready(&address) {
            if node.child.try_wait()?.is_some() || started.elapsed() > START_TIMEOUT {
                let log = std::fs::read_to_string(log_of(folder, number)).unwrap_or_default();
                let cause = anyhow!("{}", log.trim().to_owned());
                let fix = "if a port is in use, choose others with --port";
                return Err(CliError::of(cause, format!("node {number} did not start"), fix));
            }
            std::thread::sleep(POLL_INTERVAL);
        }
        Ok(())
    }

    fn report_end(&self, process: &mut Process, number: u16, url: &str, folder: &Path) -> Result<()> {
        if process.reported {
            return Ok(());
        }
        let Some(status) = process.child.try_wait()? else { return Ok(()) };
        process.reported = true;
        output::line(&format!("{} ended ({status}).", process.name))?;
        if number > 0 {
            let arguments = self.arguments(number, url, folder).join(" ");
            output::line(&format!("Start it again with: jeton {arguments}"))?;
        }
        Ok(())
    }

    /// What is shown once all nodes are ready.
    fn lines(&self, nodes: &[Process], folder: &Path, id: &str) -> Vec<String> {
        let mut lines =
            vec![format!("A cluster of {} nodes over PostgreSQL is ready.", self.nodes), String::new()];
        for (node, number) in nodes.iter().zip(1..) {
            let Addresses { resp, http, .. } = self.addresses(number);
            let process = node.child.id();
            lines.push(format!(
                "  node {number}   RESP 127.0.0.1:{resp}   HTTP http://127.0.0.1:{http}   process {process}"
            ));
        }
        lines.push(format!("  files    {}", folder.display()));
        let (first, last) = (self.addresses(1), self.addresses(self.nodes));
        let middle = nodes.get(1).or(nodes.first()).map_or(0, |node| node.child.id());
        lines.extend([String::new(), "Try it in a second terminal:".into(), String::new()]);
        lines.extend([
            format!("  jeton add --resp 127.0.0.1:{} --id {id} home 1   # add on node 1", first.resp),
            format!("  jeton cluster --http 127.0.0.1:{}   # nodes, stripes and their owners", first.http),
            format!("  kill -9 {middle}   # kill node {}", self.nodes.min(2)),
            format!("  jeton get --resp 127.0.0.1:{} home   # read on node {}", last.resp, self.nodes),
            format!(
                "  jeton add --resp 127.0.0.1:{} --id {id} home 1   # retry elsewhere: counts once",
                last.resp
            ),
            String::new(),
            "Ctrl-C stops all and removes the files.".into(),
        ]);
        lines
    }
}

fn log_of(folder: &Path, number: u16) -> PathBuf {
    folder.join(format!("node-{number}.log"))
}

/// Whether the server accepts writes.
fn is_ready(address: &str) -> bool {
    use std::io::{Read, Write};
    let probe = || -> std::io::Result<bool> {
        let mut stream = std::net::TcpStream::connect(address)?;
        stream.set_read_timeout(Some(Duration::from_secs(2)))?;
        write!(stream, "GET /readyz HTTP/1.1\r\nhost: {address}\r\nconnection: close\r\n\r\n")?;
        let mut start = [0; 12];
        stream.read_exact(&mut start)?;
        Ok(start.ends_with(b" 200"))
    };
    probe().unwrap_or(false)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nodes_have_ports_of_their_own() {
        let cluster = DevCluster { nodes: 9, port: 6380 };
        let ports = (1..=9).flat_map(|number| {
            let Addresses { resp, http, peers } = cluster.addresses(number);
            [resp, http, peers]
        });
        let ports: Vec<u16> = ports.collect();
        assert_eq!(ports[..4], [6380, 6381, 6382, 6390]);
        let distinct: std::collections::BTreeSet<u16> = ports.iter().copied().collect();
        assert_eq!(distinct.len(), ports.len());
    }
}
