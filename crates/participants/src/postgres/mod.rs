//! PostgreSQL as a participant.
//!
//! A branch is a transaction that ends with `PREPARE TRANSACTION`. The `application_name` of a session
//! identifies the server that uses it.
//!
//! `PREPARE TRANSACTION` of a failed transaction, or outside of a transaction, executes a `ROLLBACK` and
//! reports success, and the client library does not show the difference. The commit marker guards against
//! both: a failed transaction executes nothing, and outside of a branch the sessions are read-only.

mod connection;
mod decisions;
mod error;
mod numeric;
mod recovery;
mod schema;
mod time;
mod value;

use async_trait::async_trait;
use jeton_etx::{Dialect, Outcome, ResourceError, Vote, Xid};
use jeton_register_postgres::Connector;

use crate::driver::{Driver, Session};
use crate::query_error::QueryError;
use crate::settings::Settings;
use crate::statement_class::is_control;
use crate::xa_resource::XaResource;
use connection::Connection;

/// A PostgreSQL database that takes part in transactions. All servers of a cluster must use the same role.
pub type Postgres = XaResource<PostgresDriver>;

pub struct PostgresDriver {
    connector: Connector,
}

#[async_trait]
impl Driver for PostgresDriver {
    type Session = Connection;

    const DIALECT: Dialect = Dialect::Numbered;
    const INVALID_STATE: &'static str = "25P01";
    const REFUSED_STATEMENT: &'static str = "2D000";
    const BEGIN_WITH_STATEMENT: bool = true;
    const ERROR_FAILS_TRANSACTION: bool = true;
    const CURRENT_SCHEMA: &'static str = "current_schema()";
    const TRUE: &'static str = "t";

    fn new(url: &str, settings: &Settings) -> Result<Self, ResourceError> {
        let mut connector = Connector::parse(url).map_err(|error| {
            settings.setup(error, "use a URL such as postgresql://role:password@host:5432/database")
        })?;
        connector.config.connect_timeout(settings.wait_max);
        connector.config.application_name("jeton");
        Ok(Self { connector })
    }

    async fn connect(&self, settings: &Settings) -> Result<Connection, ResourceError> {
        Connection::open(&self.connector, settings).await
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

    /// Checks whether the transaction changed anything, unless that is known, writes the commit marker and
    /// prepares, in one message. [`schema::prepared_statements`] has the statements.
    async fn prepare(
        session: &mut Connection,
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
        match session.run(settings, &prepare).await {
            Ok(_) => Ok(Vote::Yes),
            // Nothing changed. If another statement caused the error, the savepoint is gone, and this fails.
            Err(error) if error.code == error::DIVISION_BY_ZERO => {
                match session.run(settings, "ROLLBACK TO etx; COMMIT").await {
                    Ok(_) => Ok(Vote::Unchanged),
                    Err(_) => Err(error),
                }
            }
            Err(error) => Err(error),
        }
    }
}
