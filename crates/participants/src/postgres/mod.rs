//! PostgreSQL as a participant.
//!
//! A branch is a transaction that ends with `PREPARE TRANSACTION`. The `application_name` of a session identifies
//! the server that uses it.
//!
//! `PREPARE TRANSACTION` of a failed transaction, or outside of a transaction, executes a `ROLLBACK` and reports
//! success, and the client library does not show the difference. The commit marker guards against both: a failed
//! transaction executes nothing, and outside of a branch the sessions are read-only.

mod connection;
mod decisions;
mod error;
mod numeric;
mod recovery;
mod schema;
mod time;
mod value;

use std::str::FromStr;

use async_trait::async_trait;
use jeton_etx::{
    AttemptNumber, CoordinatorId, Dialect, Outcome, PreparedBranch, QueryResult, RequestId, ResourceError,
    Value, Vote, Xid,
};
use tokio_postgres::Config;

use crate::driver::{Driver, ErrorClass};
use crate::query_error::{QueryError, TextRows};
use crate::settings::Settings;
use crate::statement_class::is_control;
use crate::xa_resource::{Database, XaResource};
use connection::Connection;

/// A PostgreSQL database that takes part in transactions. All servers of a cluster must use the same role.
pub type Postgres = XaResource<PostgresDriver>;

pub struct PostgresDriver {
    config: Config,
}

#[async_trait]
impl Driver for PostgresDriver {
    type Connection = Connection;

    const DIALECT: Dialect = Dialect::Numbered;
    const INVALID_STATE: &'static str = "25P01";
    const REFUSED_STATEMENT: &'static str = "2D000";
    const BEGIN_WITH_STATEMENT: bool = true;
    const ERROR_FAILS_TRANSACTION: bool = true;
    const CURRENT_SCHEMA: &'static str = "current_schema()";
    const TRUE: &'static str = "t";

    fn new(url: &str, settings: &Settings) -> Result<Self, ResourceError> {
        let mut config = Config::from_str(url).map_err(|error| {
            settings.setup(error, "use a URL such as postgresql://role:password@host:5432/database")
        })?;
        config.connect_timeout(settings.wait_max);
        config.application_name("jeton");
        Ok(Self { config })
    }

    async fn connect(&self, settings: &Settings) -> Result<Connection, ResourceError> {
        Connection::open(&self.config, settings).await
    }

    fn is_open(connection: &Connection) -> bool {
        connection.is_open()
    }

    fn id(connection: &Connection) -> u64 {
        connection.process
    }

    async fn label(
        connection: &mut Connection,
        settings: &Settings,
        coordinator: CoordinatorId,
    ) -> Result<(), QueryError> {
        connection.label(settings, coordinator).await
    }

    async fn run(
        connection: &mut Connection,
        settings: &Settings,
        sql: &str,
    ) -> Result<TextRows, QueryError> {
        connection.run(settings, sql).await
    }

    async fn execute(
        connection: &mut Connection,
        settings: &Settings,
        begin: Option<&str>,
        sql: &str,
        values: &[Value],
    ) -> Result<QueryResult, QueryError> {
        connection.execute(settings, begin, sql, values).await
    }

    fn refusal(statement: &str) -> Option<&'static str> {
        is_control(statement).then_some("only the coordinator begins and ends a branch")
    }

    /// Outside of the transaction that this begins, the session is read-only.
    fn begin_sql(_: &Xid, _decides_here: bool) -> String {
        "BEGIN READ WRITE".into()
    }

    fn rollback_sql(_: &Xid, _decides_here: bool) -> String {
        "ROLLBACK".into()
    }

    fn end_sql(xid: &Xid, outcome: Outcome) -> String {
        let verb = match outcome {
            Outcome::Commit => "COMMIT",
            Outcome::Abort => "ROLLBACK",
        };
        format!("{verb} PREPARED '{}'", xid.gid())
    }

    /// Checks whether the transaction changed anything, unless that is known, writes the commit marker and prepares,
    /// in one message. [`schema::prepared_statements`] has the statements.
    async fn prepare(
        connection: &mut Connection,
        settings: &Settings,
        xid: &Xid,
        has_changed: bool,
    ) -> Result<Vote, QueryError> {
        let gid = xid.gid();
        let check = if has_changed { "" } else { "SAVEPOINT etx; EXECUTE etx_changed; RELEASE etx;" };
        let prepare = match mutated!(UnguardedVote) {
            true => format!("PREPARE TRANSACTION '{gid}'"),
            false => format!("{check} EXECUTE etx_vote('{gid}'); PREPARE TRANSACTION '{gid}'"),
        };
        match connection.run(settings, &prepare).await {
            Ok(_) => Ok(Vote::Yes),
            // Nothing changed. If another statement caused the error, the savepoint is gone, and this fails.
            Err(error) if error.code == error::DIVISION_BY_ZERO => {
                match connection.run(settings, "ROLLBACK TO etx; COMMIT").await {
                    Ok(_) => Ok(Vote::Unchanged),
                    Err(_) => Err(error),
                }
            }
            Err(error) => Err(error),
        }
    }

    fn commit_deciding_sql(_: &Settings, begin: Option<&str>, xid: &Xid, decision: &[u8]) -> String {
        decisions::commit_sql(begin, xid, decision)
    }

    fn write_decision_sql(
        settings: &Settings,
        request: RequestId,
        attempt: AttemptNumber,
        decision: &[u8],
    ) -> String {
        decisions::write_sql(settings, request, attempt, decision)
    }

    fn read_decision_sql(settings: &Settings, request: RequestId, attempt: AttemptNumber) -> String {
        decisions::read_sql(settings, request, attempt)
    }

    fn raise_retention_sql(settings: &Settings, below: u128) -> String {
        decisions::raise_retention_sql(settings, below)
    }

    fn delete_expired_sql(settings: &Settings, below: u128, batch: usize) -> [String; 2] {
        decisions::delete_expired_sql(settings, below, batch)
    }

    fn claim_sql(settings: &Settings) -> String {
        schema::claim_sql(settings)
    }

    fn classify(error: &QueryError) -> ErrorClass {
        match (error.code.as_str(), error.table.as_str()) {
            (error::UNIQUE_VIOLATION, "etx_decision") => ErrorClass::DecisionExists,
            (error::NOT_NULL_VIOLATION, "etx_decision") => ErrorClass::Forgotten,
            _ => ErrorClass::Other,
        }
    }

    async fn ensure_schema(database: &Database<Self>) -> Result<Vec<String>, ResourceError> {
        database.ensure_schema().await
    }

    async fn prepared(database: &Database<Self>) -> Result<Vec<PreparedBranch>, ResourceError> {
        database.prepared().await
    }

    fn locks_sql(xid: &Xid) -> String {
        recovery::locks_sql(xid)
    }

    async fn resolve(database: &Database<Self>, xid: &Xid, outcome: Outcome) -> Result<(), ResourceError> {
        database.resolve(xid, outcome).await
    }

    async fn end_session(database: &Database<Self>, xid: &Xid) -> Result<(), ResourceError> {
        let condition = format!("AND pid = {}", xid.connection);
        database.end_sessions(xid.coordinator, &condition).await
    }

    async fn fence(database: &Database<Self>, coordinator: CoordinatorId) -> Result<(), ResourceError> {
        database.end_sessions(coordinator, "").await
    }
}
