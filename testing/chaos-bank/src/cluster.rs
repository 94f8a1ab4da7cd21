//! The cluster under test: three databases behind proxies, and three application servers.

use std::io::Write;
use std::path::Path;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use anyhow::{Context, Result};
use jeton_testbed::{MariaDb, Postgres, Proxy, free_address};
use mysql_async::prelude::Queryable;
use tempfile::TempDir;
use tokio_postgres::NoTls;

use crate::Backend;
use crate::http_client;
use crate::process::{self, Process};
use crate::workload::{ACCOUNTS, OPENING};

const SERVERS: usize = 3;

/// Limit of a start.
const TIMEOUT: Duration = Duration::from_secs(60);

/// A database of the bank, in the order of their numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Database {
    Postgres,
    MariaDb,
    Jeton,
}

impl Database {
    pub const ALL: [Self; 3] = [Self::Postgres, Self::MariaDb, Self::Jeton];

    pub fn name(self) -> &'static str {
        match self {
            Self::Postgres => "PostgreSQL",
            Self::MariaDb => "MariaDB",
            Self::Jeton => "Jeton",
        }
    }
}

pub struct Cluster {
    pub postgres: Postgres,
    pub mariadb: MariaDb,
    /// Proxies in front of each database, and of the registers if those are in PostgreSQL.
    pub networks: Vec<Proxy>,
    pub servers: Vec<Process>,
    /// The Jeton server with the counters.
    pub audit: Process,
    folder: Option<TempDir>,
    started: Instant,
}

impl Cluster {
    pub async fn start(registers: Backend) -> Result<Self> {
        let program = process::program()?;
        let folder = jeton_testbed::folder()?;
        let postgres = Postgres::start(folder.path(), &[])?;
        let mariadb = MariaDb::start(folder.path(), true, &[])?;
        open_accounts(&postgres, &mariadb).await?;
        let mut audit = Process::of_counters(&program, folder.path(), free_address()?)?;
        let mut networks = Vec::new();
        for address in [postgres.address(), mariadb.address(), audit.address] {
            networks.push(Proxy::start(address).await?);
        }
        audit.start(None)?;
        audit.await_ready(TIMEOUT).await?;
        let (status, body) = http_client::put(&format!("{}/v1/tables/audit", audit.url()), "{}").await?;
        anyhow::ensure!(status < 300, "no table for the audit: {status} {body:?}");
        let mut addresses = Vec::new();
        for _ in 0..SERVERS {
            addresses.push(free_address()?);
        }
        let config = folder.path().join("bank.toml");
        let urls: Vec<String> = addresses.iter().map(|address| format!("http://{address}")).collect();
        let registers = match registers {
            Backend::Postgres => {
                let network = Proxy::start(postgres.address()).await?;
                let url = Postgres::url_by(network.address());
                networks.push(network);
                format!("registers = \"postgres\"\nregisters_url = \"{url}\"")
            }
            Backend::Raft => {
                let secret = folder.path().join("secret");
                std::fs::write(&secret, "the shared secret of the servers of this bank")?;
                let mut members = Vec::new();
                for _ in 0..SERVERS {
                    members.push(free_address()?.to_string());
                }
                format!("registers = \"raft\"\nraft = {members:?}\nsecret_file = {secret:?}")
            }
        };
        let [ledger, savings] =
            [Postgres::url_by(networks[0].address()), MariaDb::url_by(networks[1].address())];
        let text = include_str!("bank.toml")
            .replace("@servers", &format!("{urls:?}"))
            .replace("@registers", &registers)
            .replace("@ledger", &ledger)
            .replace("@savings", &savings)
            .replace("@audit", &format!("http://{}", networks[2].address()));
        std::fs::write(&config, text)?;
        init(&program, &config)?;
        let mut servers: Vec<Process> = addresses
            .iter()
            .zip(1..)
            .map(|(address, number)| Process::new(&program, folder.path(), &config, number, *address))
            .collect();
        for server in &mut servers {
            server.start(None)?;
        }
        for server in &mut servers {
            server.await_ready(TIMEOUT).await?;
        }
        println!(
            "PostgreSQL, MariaDB, a Jeton and {SERVERS} servers are running; the data is in {}",
            folder.path().display()
        );
        Ok(Self {
            postgres,
            mariadb,
            networks,
            servers,
            audit,
            folder: Some(folder),
            started: Instant::now(),
        })
    }

    pub fn urls(&self) -> Vec<String> {
        self.servers.iter().map(Process::url).collect()
    }

    /// The proxy in front of PostgreSQL.
    pub fn ledger_network(&self) -> &Proxy {
        &self.networks[0]
    }

    pub fn kill(&mut self, database: Database) {
        match database {
            Database::Postgres => self.postgres.kill(),
            Database::MariaDb => self.mariadb.kill(),
            Database::Jeton => self.audit.kill(),
        }
    }

    pub fn pause(&self, database: Database) {
        match database {
            Database::Postgres => self.postgres.pause(),
            Database::MariaDb => self.mariadb.pause(),
            Database::Jeton => self.audit.pause(),
        }
    }

    /// Shuts a database down in order and starts it again.
    pub fn restart(&mut self, database: Database) -> Result<()> {
        match database {
            Database::Postgres => self.postgres.restart(),
            Database::MariaDb => self.mariadb.restart(),
            Database::Jeton => self.audit.restart(),
        }
    }

    /// Waits until all servers are ready.
    pub async fn await_ready(&mut self, timeout: Duration) -> Result<()> {
        for server in self.servers.iter_mut().chain([&mut self.audit]) {
            server.await_ready(timeout).await?;
        }
        Ok(())
    }

    /// Appends a line to the log of the nemesis.
    pub fn note(&self, what: &str) {
        let Some(folder) = &self.folder else { return };
        let file =
            std::fs::OpenOptions::new().create(true).append(true).open(folder.path().join("nemesis.log"));
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_millis();
        let _best_effort =
            file.and_then(|mut file| writeln!(file, "{now} {:>7.2?} {what}", self.started.elapsed()));
    }

    /// Resumes all stopped processes and starts all killed ones.
    pub fn repair(&mut self) -> Result<()> {
        for network in &self.networks {
            network.release();
        }
        self.postgres.resume();
        self.mariadb.resume();
        self.audit.resume();
        for database in Database::ALL {
            self.start_again(database)?;
        }
        for server in &mut self.servers {
            server.resume();
            if !server.is_running() {
                server.start(None)?;
            }
        }
        Ok(())
    }

    /// Starts a database if it is not running.
    pub fn start_again(&mut self, database: Database) -> Result<()> {
        match database {
            Database::Postgres if self.postgres.process().is_none() => self.postgres.restart(),
            Database::MariaDb if self.mariadb.process().is_none() => self.mariadb.restart(),
            Database::Jeton if !self.audit.is_running() => self.audit.start(None),
            Database::Postgres | Database::MariaDb | Database::Jeton => Ok(()),
        }
    }

    /// Keeps all files, for diagnosis.
    pub fn keep(&mut self) {
        if let Some(folder) = self.folder.take() {
            println!("the logs are kept in {}", folder.keep().display());
        }
    }
}

fn init(program: &Path, config: &Path) -> Result<()> {
    let output = std::process::Command::new(program).arg("init").arg("--config").arg(config).output()?;
    anyhow::ensure!(output.status.success(), "jeton init: {}", String::from_utf8_lossy(&output.stderr));
    Ok(())
}

async fn open_accounts(postgres: &Postgres, mariadb: &MariaDb) -> Result<()> {
    let (client, connection) = tokio_postgres::connect(&postgres.url(), NoTls).await?;
    tokio::spawn(connection);
    let last = ACCOUNTS - 1;
    let tables = format!(
        "CREATE TABLE account (id bigint PRIMARY KEY, balance bigint NOT NULL);
         CREATE TABLE ledger (request text NOT NULL, amount bigint NOT NULL); CREATE INDEX ON ledger (request);
         INSERT INTO account SELECT id, {OPENING} FROM generate_series(0, {last}) id"
    );
    client.batch_execute(&tables).await.context("the accounts in PostgreSQL")?;
    let mut client = mysql_async::Conn::from_url(mariadb.url()).await?;
    for statement in [
        "CREATE TABLE account (id BIGINT PRIMARY KEY, balance BIGINT NOT NULL) ENGINE=InnoDB".to_owned(),
        "CREATE TABLE ledger (request VARCHAR(64) NOT NULL, amount BIGINT NOT NULL, INDEX (request)) ENGINE=InnoDB".to_owned(),
        format!("INSERT INTO account SELECT seq, {OPENING} FROM seq_0_to_{last}"),
    ] {
        client.query_drop(statement).await.context("the accounts in MariaDB")?;
    }
    client.disconnect().await?;
    Ok(())
}
