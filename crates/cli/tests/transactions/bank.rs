//! A bank with accounts in two databases.

use std::cell::RefCell;
use std::sync::atomic::{AtomicI64, Ordering};

use jeton_testbed as testbed;
use mysql_async::prelude::Queryable;
use tokio::runtime::Runtime;

/// Balance of a new account.
pub const OPENING: i64 = 100;

/// The databases, and a runtime for their clients.
pub struct Bank {
    pub runtime: Runtime,
    pub postgres: testbed::Postgres,
    mariadb: RefCell<testbed::MariaDb>,
    next_account: AtomicI64,
    _folder: tempfile::TempDir,
}

impl Bank {
    pub fn open() -> Self {
        let folder = testbed::folder().unwrap();
        let postgres = testbed::Postgres::start(&folder.path().join("postgres"), &[]).unwrap();
        let mariadb = testbed::MariaDb::start(&folder.path().join("mariadb"), false, &[]).unwrap();
        let runtime = Runtime::new().unwrap();
        let mariadb = RefCell::new(mariadb);
        let bank = Self { runtime, postgres, mariadb, next_account: AtomicI64::new(1), _folder: folder };
        let table = "CREATE TABLE account (id bigint PRIMARY KEY, balance bigint NOT NULL)";
        bank.ask_postgres(table);
        bank.ask_mariadb(table);
        // No primary key: a transfer that counts twice must be visible.
        bank.ask_postgres("CREATE TABLE entry (request varchar(64) NOT NULL, amount bigint NOT NULL)");
        bank
    }

    pub fn mariadb_url(&self) -> String {
        self.mariadb.borrow().url()
    }

    /// Stops MariaDB until the result is dropped.
    pub fn stop_mariadb(&self) -> Outage<'_> {
        self.mariadb.borrow_mut().stop();
        Outage(self)
    }

    /// A new account in each database, with the same number.
    pub fn account(&self) -> i64 {
        let account = self.next_account.fetch_add(1, Ordering::Relaxed);
        let sql = format!("INSERT INTO account VALUES ({account}, {OPENING})");
        self.ask_postgres(&sql);
        self.ask_mariadb(&sql);
        account
    }

    /// Balances of an account in PostgreSQL and MariaDB.
    pub fn balances(&self, account: i64) -> (i64, i64) {
        let sql = format!("SELECT CAST(balance AS char(20)) FROM account WHERE id = {account}");
        let read = |rows: Vec<String>| rows[0].trim().parse().unwrap();
        (read(self.ask_postgres(&sql)), read(self.ask_mariadb(&sql)))
    }

    /// Executes a statement. Returns the first column.
    pub fn ask_postgres(&self, sql: &str) -> Vec<String> {
        self.ask_postgres_at(&self.postgres.url(), sql)
    }

    /// Like `ask_postgres`, in another database.
    pub fn ask_postgres_at(&self, url: &str, sql: &str) -> Vec<String> {
        self.runtime.block_on(async {
            let (client, connection) = tokio_postgres::connect(url, tokio_postgres::NoTls).await.unwrap();
            tokio::spawn(connection);
            let messages = client.simple_query(sql).await.unwrap();
            let rows = messages.into_iter().filter_map(|message| match message {
                tokio_postgres::SimpleQueryMessage::Row(row) => row.get(0).map(str::to_owned),
                _ => None,
            });
            rows.collect()
        })
    }

    /// Executes a statement in MariaDB. Returns the first column.
    pub fn ask_mariadb(&self, sql: &str) -> Vec<String> {
        let mut rows = self.mariadb_rows(sql);
        rows.iter_mut().map(|row| row.take(0).unwrap()).collect()
    }

    fn mariadb_rows(&self, sql: &str) -> Vec<mysql_async::Row> {
        self.runtime.block_on(async {
            let options = mysql_async::Opts::from_url(&self.mariadb_url()).unwrap();
            let mut connection = mysql_async::Conn::new(options).await.unwrap();
            let rows = connection.query(sql).await.unwrap();
            connection.disconnect().await.unwrap();
            rows
        })
    }

    /// The identity of a cluster.
    pub fn cluster(&self, number: u32) -> jeton_etx::Cluster {
        let sql = format!("SELECT deployment FROM etx_deployment WHERE cluster = {number}");
        let deployment = self.ask_postgres(&sql)[0].parse().unwrap();
        jeton_etx::Cluster { number, deployment }
    }

    /// A database of PostgreSQL for the registers of a cluster.
    pub fn registers(&self, number: u32) -> String {
        let name = format!("registers_{number}");
        if self.ask_postgres(&format!("SELECT 1 FROM pg_database WHERE datname = '{name}'")).is_empty() {
            self.ask_postgres(&format!("CREATE DATABASE {name}"));
        }
        self.postgres.url().replace("/postgres", &format!("/{name}"))
    }

    /// Number of prepared branches of a cluster in both databases.
    pub fn prepared(&self, cluster: u32) -> usize {
        let mark = format!("{cluster:08x}");
        let sql = format!("SELECT gid FROM pg_prepared_xacts WHERE gid LIKE 'etx1:{mark}%'");
        let postgres = self.ask_postgres(&sql).len();
        let mut rows = self.mariadb_rows("XA RECOVER");
        rows.retain_mut(|row| row.take::<String, _>("data").unwrap().starts_with(&mark));
        postgres + rows.len()
    }
}

/// MariaDB is stopped.
pub struct Outage<'a>(&'a Bank);

impl Drop for Outage<'_> {
    fn drop(&mut self) {
        self.0.mariadb.borrow_mut().restart().unwrap();
    }
}
