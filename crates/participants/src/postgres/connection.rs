//! A session of PostgreSQL.

use std::collections::HashMap;
use std::pin::pin;

use futures_util::TryStreamExt;
use futures_util::future::join;
use jeton_etx::{CoordinatorId, QueryResult, ResourceError, Row, Value};
use tokio::task::JoinHandle;
use tokio_postgres::types::ToSql;
use tokio_postgres::{Client, Config, NoTls, SimpleQueryMessage, Statement};

use super::error::trouble;
use super::schema;
use super::value::{Parameter, read_row};
use crate::identifiers::at_work;
use crate::query_error::{QueryError, TextRows, first};
use crate::settings::Settings;

/// How many statements a connection remembers how to execute.
const STATEMENTS_MAX: usize = 256;

/// A connection. Dropped, it is closed at once, whatever it waits for.
pub struct Connection {
    client: Client,
    statements: HashMap<String, Statement>,
    task: JoinHandle<()>,
    /// The server that works on it, if it has the statements of votes and decisions.
    owner: Option<String>,
    /// The process that serves it.
    pub process: u64,
}

impl Drop for Connection {
    fn drop(&mut self) {
        // The client alone would wait for answers that are still to come.
        self.task.abort();
    }
}

impl Connection {
    pub async fn open(config: &Config, settings: &Settings) -> Result<Self, ResourceError> {
        let connect =
            async { config.connect(NoTls).await.map_err(|error| trouble(settings, &error).failure) };
        let (client, connection) = settings.in_time(settings.wait_max, connect).await?;
        let task = tokio::spawn(async move {
            // Whoever asks something on it is told how it ended.
            let _how_it_ended = connection.await;
        });
        let mut connection = Self { client, statements: HashMap::new(), task, owner: None, process: 0 };
        // The last one lets a session that waits for a lock notice that nobody waits for it.
        let session = format!(
            "SET lock_timeout = {}; SET statement_timeout = {}; SET idle_in_transaction_session_timeout = {}; \
             SET client_connection_check_interval = 1000; SET synchronous_commit = on; SELECT pg_backend_pid()",
            settings.lock_max.as_millis(),
            settings.statement_max.as_millis(),
            settings.idle_max.as_millis(),
        );
        let answer = connection.run(settings, &session).await?;
        let process = first(&answer).and_then(|text| text.parse().ok());
        connection.process = process.ok_or_else(|| settings.passing("a session without a process"))?;
        Ok(connection)
    }

    pub fn is_open(&self) -> bool {
        !self.client.is_closed()
    }

    /// Prepares what every branch says at its end, once: to plan it each time takes longer than to do it. From then on the session has the name of the server that works on it, and
    /// nothing can be written but in a transaction that is begun to write.
    pub async fn learn(&mut self, settings: &Settings, executor: CoordinatorId) -> Result<(), QueryError> {
        let owner = at_work(executor);
        if self.owner.as_ref() == Some(&owner) {
            return Ok(());
        }
        let ours = match self.owner {
            Some(_) => String::new(),
            None => schema::statements(settings.cluster.number) + "; SET default_transaction_read_only = on;",
        };
        self.run(settings, &format!("{ours} SET application_name = '{owner}'")).await?;
        self.owner = Some(owner);
        Ok(())
    }

    /// Executes statements without parameters, in one message. They end with the first error.
    pub async fn run(&self, settings: &Settings, sql: &str) -> Result<TextRows, QueryError> {
        let answer = tokio::time::timeout(settings.answer_max(), self.client.simple_query(sql)).await;
        let messages = match answer {
            Ok(answer) => answer.map_err(|error| trouble(settings, &error))?,
            Err(_) => return Err(settings.passing("no answer").into()),
        };
        let texts = messages.into_iter().filter_map(|message| match message {
            SimpleQueryMessage::Row(row) => {
                Some((0..row.len()).map(|column| row.get(column).map(str::to_owned)).collect())
            }
            _ => None,
        });
        Ok(texts.collect())
    }

    /// Executes a statement with parameters; before it, in the same breath, another one that begins a transaction. Should that fail, the statement fails or
    /// writes nothing, for the session does not write outside of a transaction that is begun to write.
    pub async fn execute(
        &mut self,
        settings: &Settings,
        begin: Option<&str>,
        sql: &str,
        values: &[Value],
    ) -> Result<QueryResult, QueryError> {
        let answer = self.query(settings, begin, sql, values);
        match tokio::time::timeout(settings.answer_max(), answer).await {
            Ok(answer) => answer,
            Err(_) => Err(settings.passing("no answer").into()),
        }
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
                let statement = self.client.prepare(sql).await.map_err(|error| trouble(settings, &error))?;
                if self.statements.len() >= STATEMENTS_MAX {
                    self.statements.clear();
                }
                self.statements.insert(sql.to_owned(), statement.clone());
                statement
            }
        };
        let wrong =
            |why: String| QueryError { is_lost: false, ..settings.statement("parameters", why).into() };
        if statement.params().len() != values.len() {
            let (wanted, given) = (statement.params().len(), values.len());
            return Err(wrong(format!("the statement has {wanted} parameters, and {given} were given")));
        }
        let parameters: Vec<Parameter<'_>> = values.iter().map(Parameter).collect();
        for (place, (parameter, kind)) in parameters.iter().zip(statement.params()).enumerate() {
            parameter.check(kind).map_err(|why| wrong(format!("parameter {}: {why}", place + 1)))?;
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
                Some(begin) => self.run(settings, begin).await.map(drop),
                None => Ok(()),
            }
        };
        // The first is sent first: they are polled in this order.
        let (begun, answer) = join(begun, answer).await;
        begun?;
        let (rows, count) = match answer {
            Ok(answer) => answer,
            Err(error) => {
                // What it returns may have changed since it was prepared.
                self.statements.remove(sql);
                return Err(trouble(settings, &error));
            }
        };
        let rows: Result<Vec<Row>, String> = rows.iter().map(read_row).collect();
        Ok(QueryResult { rows: rows.map_err(wrong)?, count })
    }
}
