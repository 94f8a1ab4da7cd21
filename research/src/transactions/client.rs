//! The sessions of two-phase commit with both databases, through the drivers of the adapters, with prepared
//! statements.

use anyhow::{Context, Result};
use mysql_async::prelude::Queryable;
use mysql_async::{Conn, Opts, OptsBuilder};
use tokio_postgres::{Client, NoTls, Statement};

use super::databases::TestDatabases;
use super::transfer::{CREDIT, DEBIT, Transfer};

pub(crate) struct PostgresClient {
    client: Client,
    debit: Statement,
    /// The prepared statement that sleeps, and its text.
    sleep: Option<(String, Statement)>,
}

impl PostgresClient {
    pub(crate) async fn open(pair: &TestDatabases) -> Result<Self> {
        let (client, connection) = tokio_postgres::connect(&pair.postgres, NoTls).await?;
        tokio::spawn(connection);
        let debit = client.prepare(DEBIT).await?;
        Ok(Self { client, debit, sleep: None })
    }

    /// Executes the statements in a transaction that stays open.
    pub(crate) async fn work(&mut self, task: Transfer) -> Result<()> {
        self.run("BEGIN").await?;
        self.client.execute(&self.debit, &[&Transfer::AMOUNT, &task.from]).await?;
        if let Some(sql) = task.postgres_sleep() {
            let known = self.sleep.as_ref().is_some_and(|(text, _)| *text == sql);
            if !known {
                let statement = self.client.prepare(&sql).await?;
                self.sleep = Some((sql, statement));
            }
            if let Some((_, sleep)) = &self.sleep {
                self.client.query(sleep, &[]).await?;
            }
        }
        Ok(())
    }

    pub(crate) async fn run(&self, sql: &str) -> Result<()> {
        self.client.simple_query(sql).await?;
        Ok(())
    }
}

pub(crate) struct MariaDbClient {
    conn: Conn,
    credit: mysql_async::Statement,
    sleep: Option<(String, mysql_async::Statement)>,
}

impl MariaDbClient {
    pub(crate) async fn open(pair: &TestDatabases) -> Result<Self> {
        let options = Opts::from_url(&pair.mariadb).context("the URL of MariaDB")?;
        // As in the adapter.
        let options = OptsBuilder::from_opts(options).prefer_socket(false).tcp_nodelay(true);
        let mut conn = Conn::new(options).await?;
        let credit = conn.prep(CREDIT).await?;
        Ok(Self { conn, credit, sleep: None })
    }

    /// Executes the statements in a transaction or branch that a statement opens.
    pub(crate) async fn work(&mut self, begin: &str, task: Transfer) -> Result<()> {
        self.run(begin).await?;
        self.conn.exec_drop(&self.credit, (Transfer::AMOUNT, task.to)).await?;
        if let Some(sql) = task.mariadb_sleep() {
            let known = self.sleep.as_ref().is_some_and(|(text, _)| *text == sql);
            if !known {
                let statement = self.conn.prep(&sql).await?;
                self.sleep = Some((sql, statement));
            }
            if let Some((_, sleep)) = &self.sleep {
                self.conn.exec_drop(sleep, ()).await?;
            }
        }
        Ok(())
    }

    /// Several statements in one message; waits for all results.
    pub(crate) async fn run(&mut self, sql: &str) -> Result<()> {
        let result = self.conn.query_iter(sql).await?;
        result.drop_result().await?;
        Ok(())
    }
}
