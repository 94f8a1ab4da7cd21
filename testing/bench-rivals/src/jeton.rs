//! A Jeton server, started by its command.
//!
//! `JETON_RIVALS_COMMAND` replaces the command. `{data}`, `{resp}` and `{http}` are replaced by the directory
//! and the addresses. `JETON_RIVALS_BASELINE` is the binary of another version, for the part `baseline`.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use jeton_testbed::{Server, Signal, bound_command, free_address};

use crate::resp::{Client, ID, NUMBER, Resp};
use crate::target::Target;
use crate::workload::COUNTERS;

/// Table with durability `strict`.
pub const DURABLE: &str = "bench";
/// Table with durability `relaxed`.
pub const RELAXED: &str = "bench-relaxed";

/// The default command.
const COMMAND: &str = "{jeton} serve --data {data} --resp {resp} --http {http}";

/// The HTTP request that creates a table.
fn creation(table: &str, host: SocketAddr) -> String {
    let durability = if table == RELAXED { "relaxed" } else { "strict" };
    let body = format!("{{\"durability\":\"{durability}\"}}");
    format!(
        "PUT /v1/tables/{table} HTTP/1.1\r\nHost: {host}\r\nContent-Type: application/json\r\n\
         Content-Length: {}\r\nConnection: close\r\n\r\n{body}",
        body.len()
    )
}

/// A running server.
pub struct Jeton {
    pub server: Server,
    address: SocketAddr,
    http: SocketAddr,
}

/// The binary in the directory of this program.
fn binary() -> Result<PathBuf> {
    Ok(std::env::current_exe()?.with_file_name("jeton"))
}

/// The command from the environment.
fn other_command() -> Option<String> {
    std::env::var("JETON_RIVALS_COMMAND").ok()
}

/// The version of the server, or the command from the environment.
pub fn version() -> String {
    match other_command() {
        Some(line) => format!("by the command `{line}`"),
        None => binary().map_or("unknown".into(), |binary| crate::server::version(&binary)),
    }
}

/// Additions to a table.
pub fn protocol(table: &str) -> Resp {
    Resp::new(&["JADD", &format!("{table}/{NUMBER}"), "1", "ID", ID])
}

/// The words of the command.
fn words(other: Option<String>, data: &Path, resp: SocketAddr, http: SocketAddr) -> Result<Vec<String>> {
    let is_ours = other.is_none();
    let line = other.unwrap_or_else(|| COMMAND.to_owned());
    let binary = binary()?;
    if is_ours {
        let mut probe = Command::new(&binary);
        probe.args(["serve", "--help"]).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        match probe.status() {
            Ok(status) if status.success() => {}
            Ok(_) => bail!("the binary `jeton` has no command `serve`"),
            Err(error) => bail!(
                "there is no binary `jeton` in the directory of this program ({error}); build it with `cargo build --release`"
            ),
        }
    }
    let fill = |word: &str| {
        word.replace("{jeton}", &binary.to_string_lossy())
            .replace("{data}", &data.to_string_lossy())
            .replace("{resp}", &resp.to_string())
            .replace("{http}", &http.to_string())
    };
    Ok(line.split_whitespace().map(fill).collect())
}

impl Jeton {
    /// Starts a server with an empty store, and waits until it responds.
    pub fn start(folder: &Path) -> Result<Self> {
        Self::start_command("jeton", other_command(), folder)
    }

    /// The same with the binary of another version.
    pub fn start_baseline(folder: &Path) -> Result<Self> {
        let binary = std::env::var("JETON_RIVALS_BASELINE")
            .context("set JETON_RIVALS_BASELINE to the `jeton` binary of the version to compare with")?;
        Self::start_command("baseline", Some(COMMAND.replace("{jeton}", &binary)), folder)
    }

    fn start_command(name: &str, command: Option<String>, folder: &Path) -> Result<Self> {
        let data = folder.join(name);
        std::fs::create_dir_all(&data)?;
        let (address, http) = (free_address()?, free_address()?);
        let words = words(command, &data, address, http)?;
        let (program, arguments) = words.split_first().context("the command for Jeton is empty")?;
        let mut command = bound_command(program.as_ref(), None, Signal::TERM);
        command.args(arguments);
        let mut server = Server::start("Jeton", command, Signal::TERM, folder.join(format!("{name}.log")))?;
        server.await_ready(|| Client::connect(address)?.ask(&["PING"]).map(drop))?;
        Ok(Self { server, address, http })
    }

    /// Creates a table if it does not exist.
    fn create_table(&self, table: &str) -> Result<()> {
        let read = || Client::connect(self.address)?.ask(&["JGET", &format!("{table}/{NUMBER}")]);
        if read().is_ok() {
            return Ok(());
        }
        let mut stream = TcpStream::connect_timeout(&self.http, Duration::from_secs(5))?;
        stream.set_read_timeout(Some(Duration::from_secs(10)))?;
        stream.write_all(creation(table, self.http).as_bytes())?;
        let mut response = String::new();
        stream.read_to_string(&mut response)?;
        let status = response.lines().next().unwrap_or_default();
        read().map(drop).with_context(|| format!("the table `{table}` was not created ({status})"))
    }

    /// Additions to a table, with ids.
    pub fn target(&self, table: &'static str) -> Result<Target> {
        self.create_table(table)?;
        let address = self.address;
        let name = if table == DURABLE { "Jeton, exact, durable" } else { "Jeton, exact, relaxed" };
        let target = Target::new(name, address, Arc::new(protocol(table)), self.server.process());
        Ok(target.with_sum(move || {
            Client::connect(address)?.sum(COUNTERS, &["JGET", &format!("{table}/{NUMBER}")])
        }))
    }
}
