//! A session of MariaDB.
//!
//! A session is never reset, and the pool of the client library, which resets, is not used: after a reset of
//! a session with a prepared branch, `XA COMMIT` on it reports success and commits nothing.

use async_trait::async_trait;
use jeton_etx::{CoordinatorId, QueryResult, ResourceError, Row, Value};
use mysql_async::consts::StatusFlags;
use mysql_async::prelude::Queryable;
use mysql_async::{Conn, Opts};

use super::error::query_error;
use super::lock_name;
use super::value::{parameters, read_row};
use crate::driver::Session;
use crate::query_error::{QueryError, TextRows, first};
use crate::settings::Settings;
use crate::statement_class::{is_reading, mentions};

/// A connection. Dropping it closes it.
pub struct Connection {
    conn: Conn,
    /// The connection id.
    id: u64,
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

    /// Tables whose storage engine is not transactional: a rollback does not undo changes of them.
    pub fn non_transactional(&self) -> &[String] {
        &self.non_transactional
    }
}

#[async_trait]
impl Session for Connection {
    fn id(&self) -> u64 {
        self.id
    }

    /// Takes the user lock that identifies the server of the session, unless the session has it.
    async fn label(&mut self, settings: &Settings, coordinator: CoordinatorId) -> Result<(), QueryError> {
        let lock = lock_name(settings, coordinator, self.id);
        if self.lock == lock {
            return Ok(());
        }
        let take = format!("SELECT GET_LOCK(IF(RELEASE_ALL_LOCKS() >= 0, '{lock}', ''), 0)");
        if first(&self.run(settings, &take).await?) != Some("1") {
            return Err(settings.transient("another session has the lock of this one").into());
        }
        self.lock = lock;
        Ok(())
    }

    async fn run(&mut self, settings: &Settings, sql: &str) -> Result<TextRows, QueryError> {
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
        let answer = async { answer.await.map_err(|error| query_error(settings, &error)) };
        settings.in_answer_time(answer).await
    }

    async fn execute(
        &mut self,
        settings: &Settings,
        begin: Option<&str>,
        sql: &str,
        values: &[Value],
    ) -> Result<QueryResult, QueryError> {
        if let Some(begin) = begin {
            self.run(settings, begin).await?;
        }
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
            Ok((rows, self.conn.affected_rows()))
        };
        let answer = async { answer.await.map_err(|error| query_error(settings, &error)) };
        let (rows, changed) = settings.in_answer_time(answer).await?;
        let rows: Result<Vec<Row>, String> = rows.into_iter().map(read_row).collect();
        let rows = rows.map_err(|why| refusal("column", why))?;
        Ok(QueryResult { count: changed.max(rows.len() as u64), rows })
    }

    fn is_in_transaction(&self) -> bool {
        let flags = self.conn.last_ok_packet().map(|packet| packet.status_flags());
        flags.is_some_and(|flags| flags.contains(StatusFlags::SERVER_STATUS_IN_TRANS))
    }

    #[cfg(feature = "mutations")]
    async fn reset(&mut self) {
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
