//! A session of PostgreSQL.

use std::collections::HashMap;
use std::pin::pin;

use async_trait::async_trait;
use futures_util::TryStreamExt;
use futures_util::future::join;
use jeton_etx::{CoordinatorId, QueryResult, ResourceError, Row, Value};
use jeton_register_postgres::Connector;
use tokio::task::JoinHandle;
use tokio_postgres::types::ToSql;
use tokio_postgres::{Client, SimpleQueryMessage, Statement};

use super::error::query_error;
use super::schema;
use super::value::{Parameter, read_row};
use crate::driver::Session;
use crate::identifiers::session_label;
use crate::query_error::{QueryError, TextRows, first};
use crate::settings::Settings;

/// Prepared statements cached per connection.
const STATEMENTS_MAX: usize = 256;

/// A connection. Dropping it closes it at once, also while a statement is in flight.
pub struct Connection {
    client: Client,
    statements: HashMap<String, Statement>,
    task: JoinHandle<()>,
    /// The label of the server that uses it. `None` while the session lacks the prepared statements.
    label: Option<String>,
    /// The backend process id.
    process: u64,
}

impl Drop for Connection {
    fn drop(&mut self) {
        // Dropping the client alone would wait for outstanding responses.
        self.task.abort();
    }
}

impl Connection {
    pub async fn open(connector: &Connector, settings: &Settings) -> Result<Self, ResourceError> {
        let connect =
            async { connector.connect().await.map_err(|error| query_error(settings, &error).error) };
        let (client, connection) = settings.in_time(settings.wait_max, connect).await?;
        let task = tokio::spawn(async move {
            // Pending and later queries get the error.
            let _result = connection.await;
        });
        let mut connection = Self { client, statements: HashMap::new(), task, label: None, process: 0 };
        // client_connection_check_interval lets a session that waits for a lock notice a closed connection.
        let session = format!(
            "SET lock_timeout = {}; SET statement_timeout = {}; SET idle_in_transaction_session_timeout = {}; \
             SET client_connection_check_interval = 1000; SET synchronous_commit = on; SELECT pg_backend_pid()",
            settings.lock_max.as_millis(),
            settings.statement_max.as_millis(),
            settings.idle_max.as_millis(),
        );
        let answer = connection.run(settings, &session).await?;
        let process = first(&answer).and_then(|text| text.parse().ok());
        connection.process = process.ok_or_else(|| settings.transient("the session has no process id"))?;
        Ok(connection)
    }

    async fn query(
        &mut self,
        settings: &Settings,
        begin: Option<&str>,
        sql: &str,
        values: &[Value],
    ) -> Result<QueryResult, QueryError> {
        let statement = match self.statements.get(sql) {
            Some(statement) => statement.clone(),
            None => {
                let statement =
                    self.client.prepare(sql).await.map_err(|error| query_error(settings, &error))?;
                if self.statements.len() >= STATEMENTS_MAX {
                    self.statements.clear();
                }
                self.statements.insert(sql.to_owned(), statement.clone());
                statement
            }
        };
        let invalid =
            |why: String| QueryError { is_lost: false, ..settings.statement("parameters", why).into() };
        if statement.params().len() != values.len() {
            let (wanted, given) = (statement.params().len(), values.len());
            return Err(invalid(format!("the statement has {wanted} parameters, {given} were given")));
        }
        let parameters: Vec<Parameter<'_>> = values.iter().map(Parameter).collect();
        for (place, (parameter, kind)) in parameters.iter().zip(statement.params()).enumerate() {
            parameter.check(kind).map_err(|why| invalid(format!("parameter {}: {why}", place + 1)))?;
        }
        let references = parameters.iter().map(|one| one as &(dyn ToSql + Sync));
        let answer = async {
            let mut answer = pin!(self.client.query_raw(&statement, references).await?);
            let mut rows = Vec::new();
            while let Some(row) = answer.as_mut().try_next().await? {
                rows.push(row);
            }
            Ok((rows, answer.rows_affected().unwrap_or(0)))
        };
        let begun = async {
            match begin {
                Some(begin) => simple_query(&self.client, settings, begin).await.map(drop),
                None => Ok(()),
            }
        };
        // `join` polls in this order, so `begin` is sent first.
        let (begun, answer) = join(begun, answer).await;
        begun?;
        let (rows, count) = match answer {
            Ok(answer) => answer,
            Err(error) => {
                // The result columns may have changed since it was prepared.
                self.statements.remove(sql);
                return Err(query_error(settings, &error));
            }
        };
        let rows: Result<Vec<Row>, String> = rows.iter().map(read_row).collect();
        Ok(QueryResult { rows: rows.map_err(invalid)?, count })
    }
}

#[async_trait]
impl Session for Connection {
    fn is_open(&self) -> bool {
        !self.client.is_closed()
    }

    fn id(&self) -> u64 {
        self.process
    }

    /// The first call also prepares the statements that end every branch, because planning them takes longer
    /// than executing them, and makes the session read-only outside of transactions that are begun with `READ
    /// WRITE`.
    async fn label(&mut self, settings: &Settings, coordinator: CoordinatorId) -> Result<(), QueryError> {
        let label = session_label(coordinator);
        if self.label.as_ref() == Some(&label) {
            return Ok(());
        }
        let prepare = match self.label {
            Some(_) => String::new(),
            None => {
                schema::prepared_statements(settings.cluster.number)
                    + "; SET default_transaction_read_only = on;"
            }
        };
        self.run(settings, &format!("{prepare} SET application_name = '{label}'")).await?;
        self.label = Some(label);
        Ok(())
    }

    async fn run(&mut self, settings: &Settings, sql: &str) -> Result<TextRows, QueryError> {
        simple_query(&self.client, settings, sql).await
    }

    /// Sends `begin` before the statement in the same round trip. If `begin` fails, the statement changes
    /// nothing, because the session is read-only outside of a branch.
    async fn execute(
        &mut self,
        settings: &Settings,
        begin: Option<&str>,
        sql: &str,
        values: &[Value],
    ) -> Result<QueryResult, QueryError> {
        settings.in_answer_time(self.query(settings, begin, sql, values)).await
    }
}

async fn simple_query(client: &Client, settings: &Settings, sql: &str) -> Result<TextRows, QueryError> {
    let answer = async { client.simple_query(sql).await.map_err(|error| query_error(settings, &error)) };
    let rows = settings.in_answer_time(answer).await?.into_iter().filter_map(|message| match message {
        SimpleQueryMessage::Row(row) => {
            Some((0..row.len()).map(|column| row.get(column).map(str::to_owned)).collect())
        }
        _ => None,
    });
    Ok(rows.collect())
}
