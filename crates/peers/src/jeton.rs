//! Our own server, started as a user would start it.
//!
//! `JETON_PEERS_COMMAND` replaces the command, with `{data}`, `{resp}` and `{http}` for the folder and the two addresses.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;

use anyhow::{Context, Result, bail};
use rustix::process::Signal;

use crate::contender::Contender;
use crate::resp::{Client, ID, NUMBER, Resp};
use crate::server::{Server, bound_command, free_address};
use crate::workload::COUNTERS;

/// The table whose additions are answered when they are durable.
pub const DURABLE: &str = "bench";
/// The table whose additions are answered before.
pub const RELAXED: &str = "bench-relaxed";

/// The command, unless the environment has another one.
const COMMAND: &str = "{jeton} serve --data {data} --resp {resp} --http {http}";

/// What a server is told before the first addition.
const SETUP: &[&[&str]] =
    &[&["JTABLE", "CREATE", DURABLE], &["JTABLE", "CREATE", RELAXED, "DURABILITY", "relaxed"]];

/// A running server of ours.
pub struct Jeton {
    pub server: Server,
    address: SocketAddr,
}

/// The binary beside this one.
fn binary() -> Result<PathBuf> {
    Ok(std::env::current_exe()?.with_file_name("jeton"))
}

/// Its version.
pub fn version() -> String {
    binary().map_or("unknown".into(), |binary| crate::server::version(&binary))
}

/// Additions to a table.
pub fn dialect(table: &str) -> Resp {
    Resp::new(&["JADD", &format!("{table}/{NUMBER}"), "1", "ID", ID])
}

/// The words of the command for a folder and two addresses.
fn words(data: &Path, resp: SocketAddr, http: SocketAddr) -> Result<Vec<String>> {
    let (line, is_ours) = match std::env::var("JETON_PEERS_COMMAND") {
        Ok(line) => (line, false),
        Err(_) => (COMMAND.to_owned(), true),
    };
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
    /// Starts it on an empty folder, waits until it answers, and makes the tables.
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
        let mut client = Client::connect(address)?;
        for words in SETUP {
            client.ask(words)?;
        }
        Ok(Self { server, address })
    }

    /// Exact additions to a table.
    pub fn contender(&self, table: &'static str) -> Contender {
        let address = self.address;
        let name = if table == DURABLE { "Jeton, exact, durable" } else { "Jeton, exact, relaxed" };
        Contender::new(name, address, Arc::new(dialect(table)), self.server.process()).with_sum(move || {
            Client::connect(address)?.sum(COUNTERS, &["JGET", &format!("{table}/{NUMBER}")])
        })
    }
}
