//! Prepared branches in PostgreSQL without their connection: listing, resolving, and ending their sessions.

use std::time::Duration;

use async_trait::async_trait;
use jeton_etx::{CoordinatorId, Outcome, PreparedBranch, ResourceError, Xid};

use super::PostgresDriver;
use super::error::{NOT_IN_PREREQUISITE_STATE, UNDEFINED_OBJECT};
use crate::driver::{Driver, Recovery};
use crate::identifiers::session_label;
use crate::query_error::{PollDeadline, first};
use crate::xa_resource::Database;

#[async_trait]
impl Recovery for PostgresDriver {
    /// Lists the tables that the branch has locks on; row locks imply one on their table.
    ///
    /// Locks of a prepared transaction have no process. Their virtual transaction id is that of the session
    /// or, after a restart, derived from the transaction id. The lock of the transaction on itself shows
    /// which.
    fn locks_sql(xid: &Xid) -> String {
        format!(
            "SELECT DISTINCT relation::regclass::text || ': ' || mode FROM pg_locks \
             WHERE pid IS NULL AND relation IS NOT NULL \
             AND virtualtransaction = (SELECT l.virtualtransaction FROM pg_prepared_xacts p JOIN pg_locks l \
             ON l.transactionid = p.transaction AND l.pid IS NULL AND l.granted \
             WHERE p.gid = '{}' AND p.database = current_database() LIMIT 1) ORDER BY 1 LIMIT 32",
            xid.gid()
        )
    }

    async fn prepared(database: &Database<Self>) -> Result<Vec<PreparedBranch>, ResourceError> {
        let rows = database
            .query(
                "SELECT gid, greatest(extract(epoch FROM clock_timestamp() - prepared), 0) \
                 FROM pg_prepared_xacts WHERE database = current_database()",
            )
            .await?;
        let own = |row: Vec<Option<String>>| {
            let name = Xid::from_gid(row.first()?.as_deref()?).ok()?;
            let age = row.get(1)?.as_deref()?.parse().ok().map(Duration::from_secs_f64);
            database.settings.is_own(&name).then_some(PreparedBranch { name, age })
        };
        Ok(rows.into_iter().filter_map(own).collect())
    }

    /// PostgreSQL reports "no such branch" if the branch was committed, rolled back, or never prepared, and
    /// "busy" if another session is resolving it.
    async fn resolve(database: &Database<Self>, xid: &Xid, outcome: Outcome) -> Result<(), ResourceError> {
        let gid = xid.gid();
        let deadline = PollDeadline::new(database.settings.statement_max);
        let mut is_second_look = false;
        loop {
            let error = match database.query(&Self::end_sql(xid, outcome)).await {
                Ok(_) if outcome == Outcome::Abort => return Ok(()),
                Ok(_) if database.has_marker(&gid).await? => return Ok(()),
                Ok(_) => {
                    return Err(database.settings.damage(gid, "it was committed without a commit marker"));
                }
                Err(error) if error.code == UNDEFINED_OBJECT && mutated!(UnknownIsDone) => return Ok(()),
                Err(error)
                    if [UNDEFINED_OBJECT, NOT_IN_PREREQUISITE_STATE].contains(&error.code.as_str()) =>
                {
                    error.error
                }
                Err(error) => return Err(error.into()),
            };
            if !database.is_listed(&gid).await? {
                // Read the marker after the list: a branch that is not listed has been resolved.
                match (database.has_marker(&gid).await?, outcome) {
                    (true, Outcome::Commit) | (false, Outcome::Abort) => return Ok(()),
                    (true, Outcome::Abort) => {
                        return Err(database
                            .settings
                            .damage(gid, "the decision is abort, and it is committed"));
                    }
                    // Look twice, so that a moment between the two queries is not taken for the end.
                    (false, Outcome::Commit) if is_second_look => {
                        let why = "it is neither prepared nor committed: it was rolled back by hand";
                        return Err(database.settings.damage(gid, why));
                    }
                    (false, Outcome::Commit) => is_second_look = true,
                }
            }
            if !deadline.again().await {
                return Err(database.settings.transient(error));
            }
        }
    }

    async fn end_session(database: &Database<Self>, xid: &Xid) -> Result<(), ResourceError> {
        database.end_sessions(xid.coordinator, &format!("AND pid = {}", xid.connection)).await
    }

    async fn fence(database: &Database<Self>, coordinator: CoordinatorId) -> Result<(), ResourceError> {
        database.end_sessions(coordinator, "").await
    }
}

impl Database<PostgresDriver> {
    async fn is_listed(&self, gid: &str) -> Result<bool, ResourceError> {
        let listed = format!("SELECT 1 FROM pg_prepared_xacts WHERE gid = '{gid}'");
        Ok(!self.query(&listed).await?.is_empty())
    }

    async fn has_marker(&self, gid: &str) -> Result<bool, ResourceError> {
        Ok(!self.query(&format!("SELECT 1 FROM etx_commit_marker WHERE gid = '{gid}'")).await?.is_empty())
    }

    /// Terminates the sessions of an incarnation of a server that meet a condition, and waits until they are
    /// gone.
    async fn end_sessions(&self, coordinator: CoordinatorId, condition: &str) -> Result<(), ResourceError> {
        let end = format!(
            "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity \
             WHERE application_name = '{}' AND datname = current_database() {condition}",
            session_label(coordinator)
        );
        let deadline = PollDeadline::new(self.settings.answer_max());
        while first(&self.query(&end).await?) != Some("0") {
            if !deadline.again().await {
                return Err(self.settings.transient("a terminated session does not end"));
            }
        }
        Ok(())
    }
}
