//! The servers of a cluster.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::atomic::{AtomicU32, Ordering};

use anyhow::ensure;
use jeton_testbed::{self as testbed, Certificate, Server, Signal};
use tempfile::TempDir;

use crate::bank::Bank;
use crate::http_client::ask;
use crate::program::{Run, command};

/// Options of a cluster.
pub struct Setup<'a> {
    pub servers: usize,
    pub registers: &'a str,
    /// More lines for `[transactions]`.
    pub more: &'a str,
    /// Servers and clients use `https` with this certificate.
    pub certificate: Option<&'a Certificate>,
}

impl Default for Setup<'_> {
    fn default() -> Self {
        Self { servers: 1, registers: "embedded", more: "", certificate: None }
    }
}

/// The servers of a cluster.
pub struct Cluster {
    pub number: u32,
    pub addresses: Vec<String>,
    /// Addresses for HTTPS; empty without a certificate.
    encrypted: Vec<String>,
    servers: Vec<Option<Server>>,
    folders: Vec<PathBuf>,
    folder: TempDir,
}

const PROCEDURES: &str = r#"
[procedures.transfer]
about = "Moves money from the ledger to the vault"
parameters = { from = "integer", to = "integer", amount = { kind = "integer", min = 1 } }
returns = { left = "debit.balance", amount = ":amount" }
[[procedures.transfer.steps]]
name = "debit"
database = "ledger"
run = "UPDATE account SET balance = balance - :amount WHERE id = :from RETURNING balance"
require = [
    { that = "rows = 1", otherwise = "no such account" },
    { that = "balance >= 0", otherwise = "not enough money" },
]
[[procedures.transfer.steps]]
database = "ledger"
run = "INSERT INTO entry VALUES (:request, :amount)"
[[procedures.transfer.steps]]
database = "vault"
run = "UPDATE account SET balance = balance + :amount WHERE id = :to"
require = [{ that = "rows = 1", otherwise = "no such account" }]

[procedures.slow]
about = "A slow transfer"
parameters = { account = "integer" }
returns = { left = "debit.balance" }
[[procedures.slow.steps]]
name = "debit"
database = "ledger"
run = "UPDATE account SET balance = balance - 1 WHERE id = :account RETURNING balance"
[[procedures.slow.steps]]
database = "vault"
run = "UPDATE account SET balance = balance + 1 WHERE id = :account"
[[procedures.slow.steps]]
database = "ledger"
run = "SELECT 1 AS slept FROM pg_sleep(2)"

[procedures.deposit]
about = "A deposit in one database, which is also the decision store"
parameters = { to = "integer", amount = "integer" }
returns = { now = "credit.balance" }
[[procedures.deposit.steps]]
name = "credit"
database = "ledger"
run = "UPDATE account SET balance = balance + :amount WHERE id = :to RETURNING balance"
"#;

/// The URLs of servers, encrypted if possible.
fn urls(addresses: &[String], encrypted: &[String]) -> Vec<String> {
    match encrypted {
        [] => addresses.iter().map(|address| format!("http://{address}")).collect(),
        _ => encrypted.iter().map(|address| format!("https://{address}")).collect(),
    }
}

impl Cluster {
    /// Starts servers and waits until all accept transactions.
    pub fn start(bank: &Bank, setup: &Setup<'_>) -> Self {
        static NEXT: AtomicU32 = AtomicU32::new(100);
        let mut cluster = Self::configure(bank, setup, NEXT.fetch_add(1, Ordering::Relaxed));
        let init = cluster.must(&["init"]);
        assert!(init.contains("ledger: ready") && init.contains("vault: ready"), "{init}");
        cluster.servers = (0..setup.servers).map(|server| Some(cluster.spawn(server))).collect();
        for server in 0..setup.servers {
            cluster.await_ready(server);
        }
        cluster
    }

    /// A cluster whose servers are not started.
    pub fn configure(bank: &Bank, setup: &Setup<'_>, number: u32) -> Self {
        let folder = testbed::folder().unwrap();
        let free = || testbed::free_address().unwrap().to_string();
        let addresses: Vec<String> = (0..setup.servers).map(|_| free()).collect();
        let raft: Vec<String> = (0..setup.servers).map(|_| free()).collect();
        let secret = folder.path().join("secret");
        fs::write(&secret, "secret of the test cluster\n").unwrap();
        let mut encrypted = Vec::new();
        let mut ca_file = String::new();
        if let Some(certificate) = setup.certificate {
            certificate.write(folder.path()).unwrap();
            encrypted = (0..setup.servers).map(|_| free()).collect();
            fs::write(folder.path().join("ca.pem"), &certificate.pem).unwrap();
            ca_file = format!("ca_file = {:?}\n", folder.path().join("ca.pem"));
        }
        let urls = urls(&addresses, &encrypted);
        let registers = match setup.registers {
            "postgres" => format!("registers_url = {:?}\n", bank.registers(number)),
            "raft" => format!("raft = {raft:?}\nsecret_file = {secret:?}\n"),
            _ => String::new(),
        };
        let config = format!(
            "[transactions]\ncluster = {number}\nservers = {urls:?}\nregisters = {:?}\n{registers}{ca_file}{}\n\
             [databases.ledger]\nkind = \"postgres\"\nnumber = 0\nurl = {:?}\n\
             [databases.vault]\nkind = \"mariadb\"\nnumber = 1\nurl = {:?}\n{PROCEDURES}",
            setup.registers,
            setup.more,
            bank.postgres.url(),
            bank.mariadb_url(),
        );
        let folders: Vec<PathBuf> =
            (1..=setup.servers).map(|server| folder.path().join(server.to_string())).collect();
        for folder in &folders {
            fs::create_dir(folder).unwrap();
            fs::write(folder.join("jeton.toml"), &config).unwrap();
        }
        Self { number, addresses, encrypted, servers: Vec::new(), folders, folder }
    }

    /// Changes the configuration of all servers.
    pub fn reconfigure(&self, change: impl Fn(String) -> String) {
        for folder in &self.folders {
            let file = folder.join("jeton.toml");
            fs::write(&file, change(fs::read_to_string(&file).unwrap())).unwrap();
        }
    }

    /// Starts the first server, which must fail. Returns its log.
    pub fn start_must_fail(&self) -> String {
        let ended = self.spawn(0).await_ready(|| anyhow::bail!("not yet")).unwrap_err().to_string();
        assert!(ended.contains("ended with exit status: 1"), "{ended}");
        self.logs().swap_remove(0)
    }

    fn spawn(&self, server: usize) -> Server {
        let number = (server + 1).to_string();
        let mut command = command(&["serve", "--data", "data", "--shards", "1", "--segment-bytes", "4 MiB"]);
        if let Some(address) = self.encrypted.get(server) {
            let [certificate, key] = ["cert.pem", "key.pem"].map(|name| self.folder.path().join(name));
            command.args(["--http-tls", address, "--tls-cert"]).arg(certificate).arg("--tls-key").arg(key);
        }
        command
            .args(["--resp", "127.0.0.1:0", "--http", &self.addresses[server], "--server-number", &number])
            .current_dir(&self.folders[server])
            .stdin(Stdio::null());
        let log = self.folders[server].join("log");
        // The log is that of the last start.
        fs::write(&log, "").unwrap();
        Server::start("a server", command, Signal::KILL, log).unwrap()
    }

    fn await_ready(&mut self, server: usize) {
        let address = &self.addresses[server];
        let ready = || {
            let answer = ask(address, "GET", "/v1/transactions", &[], "");
            ensure!(answer.is_some_and(|answer| answer.status == 200), "it accepts no transactions");
            Ok(())
        };
        self.servers[server].as_mut().unwrap().await_ready(ready).unwrap();
    }

    /// Address of the first server.
    pub fn address(&self) -> &str {
        &self.addresses[0]
    }

    pub fn urls(&self) -> Vec<String> {
        urls(&self.addresses, &self.encrypted)
    }

    /// Replaces the certificates that the servers trust in each other from their next start on.
    pub fn trust(&self, pem: &str) {
        fs::write(self.folder.path().join("ca.pem"), pem).unwrap();
    }

    /// Starts a killed server.
    pub fn start_again(&mut self, server: usize) {
        self.servers[server] = Some(self.spawn(server));
        self.await_ready(server);
    }

    pub fn kill(&mut self, server: usize) {
        self.servers[server].take().unwrap().kill();
    }

    /// Runs a command of the binary against the first server.
    pub fn run(&self, arguments: &[&str]) -> Run {
        let mut command = command(arguments);
        command.env("JETON_HTTP", &self.addresses[0]).current_dir(&self.folders[0]).stdin(Stdio::null());
        Run::of(&mut command)
    }

    /// Runs a command that must succeed. Returns its output.
    pub fn must(&self, arguments: &[&str]) -> String {
        let run = self.run(arguments);
        assert_eq!(run.code, Some(0), "{arguments:?}\n{}{}", run.out, run.err);
        run.out
    }

    /// The log of each server.
    pub fn logs(&self) -> Vec<String> {
        self.folders.iter().map(|folder| fs::read_to_string(folder.join("log")).unwrap_or_default()).collect()
    }

    pub fn folder(&self) -> &Path {
        &self.folders[0]
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        if std::thread::panicking() {
            for (folder, log) in self.folders.iter().zip(self.logs()) {
                let lines: Vec<&str> = log.lines().collect();
                eprintln!("--- {}\n{}", folder.display(), lines[lines.len().saturating_sub(30)..].join("\n"));
            }
        }
    }
}
