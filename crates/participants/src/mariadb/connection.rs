//! A session of MariaDB.
//!
//! A session is never reset, and the pool of the client library, which resets, is not used: after a reset of a session
//! with a prepared branch, `XA COMMIT` on it reports success and commits nothing.

use jeton_etx::{QueryResult, ResourceError, Row, Value};
use mysql_async::consts::StatusFlags;
use mysql_async::prelude::Queryable;
use mysql_async::{Conn, Opts};

use super::error::query_error;
use super::value::{parameters, read_row};
use crate::query_error::{QueryError, TextRows, first};
use crate::settings::Settings;
use crate::statement_class::{is_reading, mentions};

/// A connection. Dropping it closes it.
pub struct Connection {
    conn: Conn,
    /// The connection id.
    pub id: u64,
    /// Tables whose storage engine is not transactional.
    non_transactional: Vec<String>,
    /// The user lock that identifies its server; empty before the first one.
    lock: String,
}

impl Connection {
    pub async fn open(options: &Opts, settings: &Settings) -> Result<Self, ResourceError> {
        let connect =
            async { Conn::new(options.clone()).await.map_err(|error| query_error(settings, &error).error) };
        let conn = settings.in_time(settings.wait_max, connect).await?;
        let mut connection =
            Self { id: conn.id().into(), conn, non_transactional: Vec::new(), lock: String::new() };
        let non_transactional = "SELECT TABLE_NAME FROM information_schema.TABLES WHERE TABLE_SCHEMA = DATABASE() \
                         AND TABLE_TYPE = 'BASE TABLE' AND ENGINE <> 'InnoDB'";
        let rows = connection.run(settings, non_transactional).await?;
        connection.non_transactional = rows.into_iter().flatten().flatten().collect();
        Ok(connection)
    }

    /// Takes the user lock that identifies the server of the session, unless the session has it.
    pub async fn take_lock(&mut self, settings: &Settings, lock: String) -> Result<(), QueryError> {
        if self.lock == lock {
            return Ok(());
        }
        let taken = self
            .run(settings, &format!("SELECT GET_LOCK(IF(RELEASE_ALL_LOCKS() >= 0, '{lock}', ''), 0)"))
            .await?;
        if first(&taken) != Some("1") {
            return Err(settings.transient("another session has the lock of this one").into());
        }
        self.lock = lock;
        Ok(())
    }

    /// Tables whose storage engine is not transactional: a rollback does not undo changes of them.
    pub fn non_transactional(&self) -> &[String] {
        &self.non_transactional
    }

    /// Executes statements without parameters in one message, up to the first error.
    pub async fn run(&mut self, settings: &Settings, sql: &str) -> Result<TextRows, QueryError> {
        let answer = async {
            let mut result = self.conn.query_iter(sql).await?;
            let mut rows_as_text = TextRows::new();
            loop {
                let rows: Vec<mysql_async::Row> = result.collect().await?;
                rows_as_text.extend(rows.into_iter().map(|row| row.unwrap().into_iter().map(text).collect()));
                if result.is_empty() {
                    break;
                }
            }
            // The client library reports an error of any statement but the first only on the next read.
            if !mutated!(LateErrorIgnored) {
                result.drop_result().await?;
            }
            Ok(rows_as_text)
        };
        match tokio::time::timeout(settings.answer_max(), answer).await {
            Ok(answer) => answer.map_err(|error: mysql_async::Error| query_error(settings, &error)),
            Err(_) => Err(settings.transient("no response in time").into()),
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
            && let Some(table) = self.non_transactional.iter().find(|table| mentions(sql, table))
        {
            let why = format!(
                "the table {table} is not transactional; convert it with ALTER TABLE {table} ENGINE=InnoDB"
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
            Ok(answer) => answer.map_err(|error: mysql_async::Error| query_error(settings, &error))?,
            Err(_) => return Err(settings.transient("no response in time").into()),
        };
        let rows: Result<Vec<Row>, String> = rows.into_iter().map(read_row).collect();
        let rows = rows.map_err(|why| refusal("column", why))?;
        Ok(QueryResult { count: changed.max(rows.len() as u64), rows })
    }

    /// Whether the session was in a transaction at its last response.
    pub fn is_in_transaction(&self) -> bool {
        let flags = self.conn.last_ok_packet().map(|packet| packet.status_flags());
        flags.is_some_and(|flags| flags.contains(StatusFlags::SERVER_STATUS_IN_TRANS))
    }

    /// Resets the session, for a planted bug.
    #[cfg(feature = "mutations")]
    pub async fn reset(&mut self) {
        let _result = self.conn.reset().await;
    }
}

fn text(value: mysql_async::Value) -> Option<String> {
    match value {
        mysql_async::Value::NULL => None,
        mysql_async::Value::Bytes(bytes) => Some(String::from_utf8_lossy(&bytes).into_owned()),
        other => Some(other.as_sql(true).trim_matches('\'').to_owned()),
    }
}
