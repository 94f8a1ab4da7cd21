//! A session of MariaDB.
//!
//! It is never reset, and the driver's own pool, which resets, is not used: a reset of a session that holds a prepared branch makes a later `XA COMMIT` on it say
//! that all is well, and commit nothing.

use jeton_etx::{QueryResult, ResourceError, Row, Value};
use mysql_async::consts::StatusFlags;
use mysql_async::prelude::Queryable;
use mysql_async::{Conn, Opts};

use super::error::trouble;
use super::value::{parameters, read_row};
use crate::query_error::{QueryError, TextRows, first};
use crate::settings::Settings;
use crate::statement_class::{is_reading, mentions};

/// A connection. Dropped, it is closed.
pub struct Connection {
    conn: Conn,
    /// MariaDB's number for it.
    pub id: u64,
    /// Tables that do not take part in transactions.
    strangers: Vec<String>,
    /// The lock that tells whose it is; empty if it has none.
    lock: String,
}

impl Connection {
    pub async fn open(options: &Opts, settings: &Settings) -> Result<Self, ResourceError> {
        let connect =
            async { Conn::new(options.clone()).await.map_err(|error| trouble(settings, &error).failure) };
        let conn = settings.in_time(settings.wait_max, connect).await?;
        let mut connection = Self { id: conn.id().into(), conn, strangers: Vec::new(), lock: String::new() };
        let strangers = "SELECT TABLE_NAME FROM information_schema.TABLES WHERE TABLE_SCHEMA = DATABASE() \
                         AND TABLE_TYPE = 'BASE TABLE' AND ENGINE <> 'InnoDB'";
        let rows = connection.run(settings, strangers).await?;
        connection.strangers = rows.into_iter().flatten().flatten().collect();
        Ok(connection)
    }

    /// Takes the lock that tells whose session it is, unless it has it.
    pub async fn take_name(&mut self, settings: &Settings, lock: String) -> Result<(), QueryError> {
        if self.lock == lock {
            return Ok(());
        }
        let taken = self
            .run(settings, &format!("SELECT GET_LOCK(IF(RELEASE_ALL_LOCKS() >= 0, '{lock}', ''), 0)"))
            .await?;
        if first(&taken) != Some("1") {
            return Err(settings.passing("a session has the name of another").into());
        }
        self.lock = lock;
        Ok(())
    }

    /// Tables whose engine takes no part in transactions: what is written there stays, whatever becomes of the branch.
    pub fn strangers(&self) -> &[String] {
        &self.strangers
    }

    /// Executes statements without parameters, in one message. They end with the first error.
    pub async fn run(&mut self, settings: &Settings, sql: &str) -> Result<TextRows, QueryError> {
        let answer = async {
            let mut result = self.conn.query_iter(sql).await?;
            let mut texts = TextRows::new();
            loop {
                let rows: Vec<mysql_async::Row> = result.collect().await?;
                texts.extend(rows.into_iter().map(|row| row.unwrap().into_iter().map(text).collect()));
                if result.is_empty() {
                    break;
                }
            }
            // An error of any statement but the first is kept back until something is asked of the result again.
            if !mutated!(LateErrorIgnored) {
                result.drop_result().await?;
            }
            Ok(texts)
        };
        match tokio::time::timeout(settings.answer_max(), answer).await {
            Ok(answer) => answer.map_err(|error: mysql_async::Error| trouble(settings, &error)),
            Err(_) => Err(settings.passing("no answer").into()),
        }
    }

    /// Executes a statement with parameters.
    pub async fn execute(
        &mut self,
        settings: &Settings,
        sql: &str,
        values: &[Value],
    ) -> Result<QueryResult, QueryError> {
        let refusal =
            |code: &str, why: String| QueryError { is_lost: false, ..settings.statement(code, why).into() };
        if !is_reading(sql)
            && let Some(table) = self.strangers.iter().find(|table| mentions(sql, table))
        {
            let why = format!(
                "the table {table} takes no part in transactions; ALTER TABLE {table} ENGINE=InnoDB makes it do so"
            );
            return Err(refusal("engine", why));
        }
        let answer = async {
            let mut result = self.conn.exec_iter(sql, parameters(values)).await?;
            let rows: Vec<mysql_async::Row> = result.collect().await?;
            result.drop_result().await?;
            let changed = self.conn.affected_rows();
            Ok((rows, changed))
        };
        let (rows, changed) = match tokio::time::timeout(settings.answer_max(), answer).await {
            Ok(answer) => answer.map_err(|error: mysql_async::Error| trouble(settings, &error))?,
            Err(_) => return Err(settings.passing("no answer").into()),
        };
        let rows: Result<Vec<Row>, String> = rows.into_iter().map(read_row).collect();
        let rows = rows.map_err(|why| refusal("column", why))?;
        Ok(QueryResult { count: changed.max(rows.len() as u64), rows })
    }

    /// Whether the session is in a transaction, by the last answer.
    pub fn is_in_transaction(&self) -> bool {
        let flags = self.conn.last_ok_packet().map(|packet| packet.status_flags());
        flags.is_some_and(|flags| flags.contains(StatusFlags::SERVER_STATUS_IN_TRANS))
    }

    /// What is never done.
    #[cfg(feature = "mutations")]
    pub async fn reset(&mut self) {
        let _whatever_it_says = self.conn.reset().await;
    }
}

fn text(value: mysql_async::Value) -> Option<String> {
    match value {
        mysql_async::Value::NULL => None,
        mysql_async::Value::Bytes(bytes) => Some(String::from_utf8_lossy(&bytes).into_owned()),
        other => Some(other.as_sql(true).trim_matches('\'').to_owned()),
    }
}
