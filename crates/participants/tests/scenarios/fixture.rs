//! A real database and two servers that use it, one of them through a proxy.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use jeton_etx::{
    AttemptId, AttemptNumber, Branch, CoordinatorId, DecisionLocation, Outcome, RequestId, Resource,
    ResourceError, Value, Vote, Xid,
};
use jeton_participants::{MariaDb, Postgres, Settings};
use jeton_testbed::{MariaDb as MariaDbServer, Postgres as PostgresServer, Proxy};
use mysql_async::prelude::Queryable;

use super::Scenario;
use crate::expect_vote;

pub const CLUSTER: u32 = 7;
pub const NUMBER: u8 = 3;

/// Timeout of conditions that must become true.
const TIMEOUT: Duration = Duration::from_secs(20);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Engine {
    Postgres,
    MariaDb { binlog: bool },
}

impl Engine {
    pub fn label(self) -> &'static str {
        match self {
            Self::Postgres => "PostgreSQL",
            Self::MariaDb { binlog: false } => "MariaDB",
            Self::MariaDb { binlog: true } => "MariaDB with a binary log",
        }
    }

    /// A statement with the placeholders of this engine, for up to two parameters.
    pub fn sql(self, text: &str) -> String {
        match self {
            Self::Postgres => text.replacen('?', "$1", 1).replacen('?', "$2", 1),
            Self::MariaDb { .. } => text.to_owned(),
        }
    }
}

pub enum Server {
    Postgres(PostgresServer),
    MariaDb(MariaDbServer),
}

impl Server {
    pub fn kill(&mut self) {
        match self {
            Self::Postgres(server) => server.kill(),
            Self::MariaDb(server) => server.kill(),
        }
    }

    pub fn restart(&mut self) -> Result<()> {
        match self {
            Self::Postgres(server) => server.restart(),
            Self::MariaDb(server) => server.restart(),
        }
    }

    pub fn address(&self) -> std::net::SocketAddr {
        match self {
            Self::Postgres(server) => server.address(),
            Self::MariaDb(server) => server.address(),
        }
    }

    /// The participant, at the address of the server or of a proxy.
    fn participant(
        &self,
        address: std::net::SocketAddr,
        settings: Settings,
    ) -> Result<Box<dyn Resource>, ResourceError> {
        Ok(match self {
            Self::Postgres(_) => Box::new(Postgres::new(&PostgresServer::url_by(address), settings)?),
            Self::MariaDb(_) => Box::new(MariaDb::new(&MariaDbServer::url_by(address), settings)?),
        })
    }
}

/// Calls a method of a new participant of either engine.
macro_rules! call {
    ($fixture:expr, $settings:expr, $method:ident) => {
        match &$fixture.server {
            Server::Postgres(server) => Postgres::new(&server.url(), $settings)?.$method().await,
            Server::MariaDb(server) => MariaDb::new(&server.url(), $settings)?.$method().await,
        }
    };
}

pub struct Fixture {
    pub engine: Engine,
    pub server: Server,
    pub proxy: Proxy,
    /// Reaches the database through the proxy.
    pub own: Box<dyn Resource>,
    /// Another server with connections of its own.
    pub other: Box<dyn Resource>,
    /// Repetitions of scenarios that depend on timing.
    pub rounds: usize,
    _folder: tempfile::TempDir,
}

impl Fixture {
    pub async fn build(engine: Engine) -> Result<Self> {
        let folder = jeton_testbed::folder()?;
        let server = match engine {
            Engine::Postgres => Server::Postgres(PostgresServer::start(folder.path(), &[])?),
            Engine::MariaDb { binlog } => Server::MariaDb(MariaDbServer::start(
                folder.path(),
                binlog,
                &["--innodb-lock-wait-timeout=2"],
            )?),
        };
        let proxy = Proxy::start(server.address()).await?;
        let own = server.participant(proxy.address(), settings())?;
        let other = server.participant(server.address(), settings())?;
        let fixture = Self { engine, server, proxy, own, other, rounds: 10, _folder: folder };
        fixture.ensure_schema().await?;
        fixture.raw("CREATE TABLE account (id int PRIMARY KEY, n int NOT NULL)").await?;
        Ok(fixture)
    }

    /// Runs a scenario with new servers, so that scenarios do not affect each other.
    pub async fn run(&mut self, scenario: Scenario) -> Result<()> {
        self.proxy = Proxy::start(self.server.address()).await?;
        (self.own, self.other) = (self.server(true, settings())?, self.server(false, settings())?);
        self.ensure_schema().await?;
        let result = scenario(self).await;
        let left = self.other.prepared().await?;
        for listed in &left {
            // Clean up for the next scenario.
            self.other.decide(&listed.name, Outcome::Abort).await?;
        }
        result?;
        ensure!(left.is_empty(), "left behind: {left:?}");
        Ok(())
    }

    /// Another server, through the proxy or not.
    pub fn server(&self, by_proxy: bool, settings: Settings) -> Result<Box<dyn Resource>, ResourceError> {
        let address = if by_proxy { self.proxy.address() } else { self.server.address() };
        self.server.participant(address, settings)
    }

    /// Creates and checks the tables, as `jeton init` does.
    pub async fn ensure_schema(&self) -> Result<Vec<String>, ResourceError> {
        call!(self, settings(), ensure_schema)
    }

    /// Claims the cluster number for a deployment.
    pub async fn claim(&self, settings: Settings) -> Result<(), ResourceError> {
        call!(self, settings, claim)
    }

    /// Executes a statement on a separate connection, and returns the rows as text.
    pub async fn raw(&self, sql: &str) -> Result<Vec<Vec<String>>> {
        raw(&self.server, sql).await.with_context(|| sql.to_owned())
    }

    /// Creates an account with balance 0.
    pub async fn account(&self) -> Result<i64> {
        let id = next() as i64;
        self.raw(&format!("INSERT INTO account VALUES ({id}, 0)")).await?;
        Ok(id)
    }

    pub async fn balance(&self, account: i64) -> Result<i64> {
        let rows = self.raw(&format!("SELECT n FROM account WHERE id = {account}")).await?;
        Ok(rows.first().and_then(|row| row.first()).context("no account")?.parse()?)
    }

    pub async fn expect_balance(&self, account: i64, expected: i64) -> Result<()> {
        let balance = self.balance(account).await?;
        ensure!(balance == expected, "the balance is {balance}, not {expected}");
        Ok(())
    }

    /// Adds one to an account.
    pub async fn deposit(&self, branch: &mut Box<dyn Branch>, account: i64) -> Result<()> {
        branch
            .execute(
                &self.engine.sql("UPDATE account SET n = n + 1 WHERE id = ?"),
                &[Value::Integer(account)],
            )
            .await?;
        Ok(())
    }

    /// A new account, and an open branch with a deposit into it.
    pub async fn open_deposit(&self, attempt: AttemptId) -> Result<(i64, Box<dyn Branch>)> {
        let account = self.account().await?;
        let mut branch = self.own.begin(attempt).await?;
        self.deposit(&mut branch, account).await?;
        Ok((account, branch))
    }

    /// A new account, and a branch with a deposit into it that has voted yes.
    pub async fn prepared_deposit(&self) -> Result<(i64, Box<dyn Branch>)> {
        let account = self.account().await?;
        Ok((account, self.prepared_deposit_into(account).await?))
    }

    pub async fn prepared_deposit_into(&self, account: i64) -> Result<Box<dyn Branch>> {
        let mut branch = self.own.begin(attempt()).await?;
        self.deposit(&mut branch, account).await?;
        expect_vote!(branch, Vote::Yes);
        Ok(branch)
    }

    pub async fn is_prepared(&self, branch: &Xid) -> Result<bool> {
        Ok(self.other.prepared().await?.iter().any(|listed| listed.name == *branch))
    }

    /// Rolls a prepared branch back by hand.
    pub async fn end_by_hand(&self, name: &Xid) -> Result<()> {
        let sql = match self.engine {
            Engine::Postgres => format!("ROLLBACK PREPARED '{}'", name.gid()),
            Engine::MariaDb { .. } => {
                format!("XA ROLLBACK '{}','{}',{}", name.gtrid(), name.bqual(), Xid::FORMAT)
            }
        };
        let started = Instant::now();
        // The session of its owner may not have ended yet.
        while let Err(error) = self.raw(&sql).await {
            ensure!(started.elapsed() < TIMEOUT, error);
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        Ok(())
    }
}

/// Requires a vote of a branch.
#[macro_export]
macro_rules! expect_vote {
    ($branch:expr, $vote:pat) => {{
        let vote = $branch.vote().await;
        anyhow::ensure!(matches!(vote, $vote), "it votes {vote:?}");
    }};
}

/// Waits until a condition holds.
#[macro_export]
macro_rules! until {
    ($condition:expr) => {{
        let started = std::time::Instant::now();
        while !$condition {
            anyhow::ensure!(started.elapsed().as_secs() < 20, "never: {}", stringify!($condition));
            tokio::time::sleep(std::time::Duration::from_millis(5)).await;
        }
    }};
}

pub async fn raw(server: &Server, sql: &str) -> Result<Vec<Vec<String>>> {
    match server {
        Server::Postgres(server) => {
            let (client, connection) = tokio_postgres::connect(&server.url(), tokio_postgres::NoTls).await?;
            tokio::spawn(connection);
            let rows = client.simple_query(sql).await?.into_iter().filter_map(|message| match message {
                tokio_postgres::SimpleQueryMessage::Row(row) => {
                    Some((0..row.len()).map(|column| row.get(column).unwrap_or("").to_owned()).collect())
                }
                _ => None,
            });
            Ok(rows.collect())
        }
        Server::MariaDb(server) => {
            let mut conn = mariadb(server).await?;
            let rows: Vec<mysql_async::Row> = conn.query(sql).await?;
            conn.disconnect().await?;
            let text = |value: mysql_async::Value| {
                mysql_async::from_value::<Option<String>>(value).unwrap_or_default()
            };
            Ok(rows.into_iter().map(|row| row.unwrap().into_iter().map(text).collect()).collect())
        }
    }
}

pub async fn mariadb(server: &MariaDbServer) -> Result<mysql_async::Conn> {
    let options = mysql_async::OptsBuilder::from_opts(mysql_async::Opts::from_url(&server.url())?);
    Ok(mysql_async::Conn::new(options.prefer_socket(false)).await?)
}

pub fn settings() -> Settings {
    let (lock_max, statement_max) = (Duration::from_secs(1), Duration::from_secs(10));
    Settings { lock_max, statement_max, ..Settings::new("the bank", CLUSTER, NUMBER) }
}

/// A number that is unique in this process.
fn next() -> u64 {
    static LAST: AtomicU64 = AtomicU64::new(0);
    LAST.fetch_add(1, Ordering::SeqCst) + 1
}

/// A new coordinator on a new request, decided in the registers.
pub fn attempt() -> AttemptId {
    attempt_at(DecisionLocation::Registers)
}

/// The same, decided in the database.
pub fn attempt_at_home() -> AttemptId {
    attempt_at(DecisionLocation::Resource(NUMBER))
}

fn attempt_at(decision_location: DecisionLocation) -> AttemptId {
    let number = next();
    // Sessions increase, so those of later scenarios are newer.
    let request = RequestId { session: 1 << 100 | u128::from(number), sequence: 1 };
    let coordinator = CoordinatorId { server: 1, incarnation: u64::from(std::process::id()), work: number };
    AttemptId { request, number: AttemptNumber::FIRST, coordinator, decision_location }
}
