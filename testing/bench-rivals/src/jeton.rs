//! Our own server, started as a user would start it.
//!
//! `JETON_PEERS_COMMAND` replaces the command, with `{data}`, `{resp}` and `{http}` for the folder and the two addresses.

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

/// The table whose additions are answered when they are durable.
pub const DURABLE: &str = "bench";
/// The table whose additions are answered before.
pub const RELAXED: &str = "bench-relaxed";

/// The command, unless the environment has another one.
const COMMAND: &str = "{jeton} serve --data {data} --resp {resp} --http {http}";

/// The request that makes a table, over HTTP.
fn creation(table: &str, host: SocketAddr) -> String {
    let durability = if table == RELAXED { "relaxed" } else { "strict" };
    let body = format!("{{\"durability\":\"{durability}\"}}");
    format!(
        "PUT /v1/tables/{table} HTTP/1.1\r\nHost: {host}\r\nContent-Type: application/json\r\n\
         Content-Length: {}\r\nConnection: close\r\n\r\n{body}",
        body.len()
    )
}

/// A running server of ours.
pub struct Jeton {
    pub server: Server,
    address: SocketAddr,
    http: SocketAddr,
}

/// The binary beside this one.
fn binary() -> Result<PathBuf> {
    Ok(std::env::current_exe()?.with_file_name("jeton"))
}

/// Another command for the server, from the environment.
fn other_command() -> Option<String> {
    std::env::var("JETON_PEERS_COMMAND").ok()
}

/// Its version; or the command that stands in for it, so that nobody takes its numbers for ours.
pub fn version() -> String {
    match other_command() {
        Some(line) => format!("by the command `{line}`"),
        None => binary().map_or("unknown".into(), |binary| crate::server::version(&binary)),
    }
}

/// Additions to a table.
pub fn dialect(table: &str) -> Resp {
    Resp::new(&["JADD", &format!("{table}/{NUMBER}"), "1", "ID", ID])
}

/// The words of the command for a folder and two addresses.
fn words(data: &Path, resp: SocketAddr, http: SocketAddr) -> Result<Vec<String>> {
    let other = other_command();
    let is_ours = other.is_none();
    let line = other.unwrap_or_else(|| COMMAND.to_owned());
    let binary = binary()?;
    if is_ours {
        let mut probe = Command::new(&binary);
        probe.args(["serve", "--help"]).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        match probe.status() {
            Ok(status) if status.success() => {}
            Ok(_) => bail!("the binary `jeton` has no `serve` yet"),
            Err(error) => bail!(
                "there is no binary `jeton` beside this one ({error}); build it with `cargo build --release`"
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
    /// Starts it on an empty folder, and waits until it answers.
    pub fn start(folder: &Path) -> Result<Self> {
        let data = folder.join("jeton");
        std::fs::create_dir_all(&data)?;
        let (address, http) = (free_address()?, free_address()?);
        let words = words(&data, address, http)?;
        let (program, arguments) = words.split_first().context("the command for Jeton is empty")?;
        let mut command = bound_command(program.as_ref(), None, Signal::TERM);
        command.args(arguments);
        let mut server = Server::start("Jeton", command, Signal::TERM, folder.join("jeton.log"))?;
        server.await_ready(|| Client::connect(address)?.ask(&["PING"]).map(drop))?;
        Ok(Self { server, address, http })
    }

    /// Makes a table, unless it is there: then it can be read.
    fn make(&self, table: &str) -> Result<()> {
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
        read().map(drop).with_context(|| format!("the table `{table}` could not be made ({status})"))
    }

    /// Exact additions to a table.
    pub fn contender(&self, table: &'static str) -> Result<Target> {
        self.make(table)?;
        let address = self.address;
        let name = if table == DURABLE { "Jeton, exact, durable" } else { "Jeton, exact, relaxed" };
        let contender = Target::new(name, address, Arc::new(dialect(table)), self.server.process());
        Ok(contender.with_sum(move || {
            Client::connect(address)?.sum(COUNTERS, &["JGET", &format!("{table}/{NUMBER}")])
        }))
    }
}
