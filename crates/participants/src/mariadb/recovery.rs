//! Prepared branches in MariaDB without their connection: listing, resolving, and ending their sessions.

use std::time::Duration;

use async_trait::async_trait;
use jeton_etx::{CoordinatorId, Outcome, PreparedBranch, ResourceError, Xid};

use super::{MariaDbDriver, error, lock_name};
use crate::driver::{Driver, Recovery};
use crate::query_error::PollDeadline;
use crate::xa_resource::Database;

/// Delay between the end of a session and the resolution of its branches.
const SESSION_END_DELAY: Duration = Duration::from_millis(100);

/// Branches per list whose age is read.
const AGES_MAX: usize = 1_000;

/// The state of the commit marker of a branch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Marker {
    Committed,
    Absent,
    /// Written and not committed.
    Uncommitted,
}

#[async_trait]
impl Recovery for MariaDbDriver {
    /// Counts the rows that the branch has locks on. MariaDB does not report the transaction of a branch
    /// whose session has ended.
    fn locks_sql(xid: &Xid) -> String {
        format!(
            "SELECT CONCAT(trx_rows_locked, ' rows in ', trx_tables_locked, ' tables') \
             FROM information_schema.innodb_trx WHERE trx_mysql_thread_id = {}",
            xid.connection
        )
    }

    /// MariaDB does not report the age of a prepared branch. The commit marker, which is written with the
    /// vote, has it; it is read without waiting for the commit.
    async fn prepared(database: &Database<Self>) -> Result<Vec<PreparedBranch>, ResourceError> {
        let mut listed = database.listed().await?;
        if listed.is_empty() {
            return Ok(listed);
        }
        let gids: Vec<String> =
            listed.iter().take(AGES_MAX).map(|branch| format!("'{}'", branch.name.gid())).collect();
        let markers = database
            .query(&format!(
                "SET TRANSACTION ISOLATION LEVEL READ UNCOMMITTED; \
                 SELECT gid, GREATEST(TIMESTAMPDIFF(SECOND, at, CURRENT_TIMESTAMP), 0) FROM etx_commit_marker WHERE gid IN ({})",
                gids.join(", ")
            ))
            .await?;
        let age_of = |gid: &str| {
            let row =
                markers.iter().find(|row| row.first().is_some_and(|text| text.as_deref() == Some(gid)))?;
            row.get(1)?.as_deref()?.parse().ok().map(Duration::from_secs)
        };
        for branch in &mut listed {
            branch.age = age_of(&branch.name.gid());
        }
        Ok(listed)
    }

    /// MariaDB reports "no such branch" if the branch was committed, rolled back, or never prepared, but also
    /// while its session still exists or another session is resolving it. The list shows the latter two: a
    /// branch is listed until it has ended.
    ///
    /// MariaDB reports success without effect if the session of the branch has detached from it and the
    /// storage engine has not noticed yet. The branch is then no longer listed, and keeps its locks until
    /// MariaDB restarts. So this waits until the session has ended, and reads the commit marker at the end.
    async fn resolve(database: &Database<Self>, xid: &Xid, outcome: Outcome) -> Result<(), ResourceError> {
        let gid = xid.gid();
        let deadline = PollDeadline::new(database.settings.statement_max);
        let mut is_second_look = false;
        loop {
            if database.is_listed(xid).await? {
                database.wait_for_session_end(xid).await?;
                match database.query(&Self::end_sql(xid, outcome)).await {
                    Ok(_) if outcome == Outcome::Abort => database.driver.on_rolled_back(xid),
                    Ok(_) => {}
                    Err(error) if error.code == error::UNKNOWN_BRANCH && mutated!(UnknownIsDone) => {
                        return Ok(());
                    }
                    // Another session is ending it or has ended it.
                    Err(error)
                        if [error::UNKNOWN_BRANCH, error::ROLLED_BACK].contains(&error.code.as_str()) => {}
                    Err(error) => return Err(error.into()),
                }
            }
            // Read the marker after the list: a branch that is not listed has been resolved.
            let marker = database.marker(&gid).await?;
            match (marker, outcome) {
                (Marker::Committed, Outcome::Commit) | (Marker::Absent, Outcome::Abort) => return Ok(()),
                (Marker::Committed, Outcome::Abort) => {
                    return Err(database.settings.damage(gid, "the decision is abort, and it is committed"));
                }
                // Look twice, so that a moment between the two queries is not taken for the end.
                (Marker::Absent, Outcome::Commit) if is_second_look => {
                    let why = "it is neither prepared nor committed: it was rolled back by hand";
                    return Err(database.settings.damage(gid, why));
                }
                (Marker::Absent, Outcome::Commit) => is_second_look = true,
                // Another session resolves or prepares it; or only the storage engine knows it.
                (Marker::Uncommitted, _) => {}
            }
            if !deadline.again().await {
                return Err(if marker == Marker::Uncommitted && !database.is_listed(xid).await? {
                    let why =
                        format!("the storage engine has the branch {gid}, and MariaDB does not list it");
                    database
                        .settings
                        .setup(why, "restart MariaDB; the branch is listed then and can be resolved")
                } else {
                    database
                        .settings
                        .transient(format_args!("the branch {gid} could not be resolved in time"))
                });
            }
        }
    }

    async fn end_session(database: &Database<Self>, xid: &Xid) -> Result<(), ResourceError> {
        let lock = lock_name(&database.settings, xid.coordinator, xid.connection);
        let find =
            format!("SELECT IS_USED_LOCK('{lock}') FROM DUAL WHERE IS_USED_LOCK('{lock}') IS NOT NULL");
        database.end_sessions(&find).await
    }

    async fn fence(database: &Database<Self>, coordinator: CoordinatorId) -> Result<(), ResourceError> {
        let prefix = lock_name(&database.settings, coordinator, "");
        let find = format!(
            "SELECT ID FROM information_schema.PROCESSLIST WHERE IS_USED_LOCK(CONCAT('{prefix}', ID)) = ID"
        );
        database.end_sessions(&find).await
    }
}

impl Database<MariaDbDriver> {
    async fn listed(&self) -> Result<Vec<PreparedBranch>, ResourceError> {
        let own = |row: Vec<Option<String>>| {
            let [Some(format), Some(length), _, Some(data)] = row.as_slice() else { return None };
            let (gtrid, bqual) = data.as_bytes().split_at_checked(length.parse().ok()?)?;
            let name = Xid::from_xid(format.parse().ok()?, gtrid, bqual).ok()?;
            self.settings.is_own(&name).then_some(PreparedBranch { name, age: None })
        };
        let listed = self.query("XA RECOVER").await?.into_iter().filter_map(own);
        #[cfg(feature = "mutations")]
        let listed = listed.filter(|branch| {
            let rolled_back =
                self.driver.rolled_back.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
            !(mutated!(RollbackTrusted) && rolled_back.contains(&branch.name))
        });
        Ok(listed.collect())
    }

    async fn is_listed(&self, xid: &Xid) -> Result<bool, ResourceError> {
        Ok(self.listed().await?.iter().any(|branch| branch.name == *xid))
    }

    /// Terminates the session of a branch, and waits until the storage engine has noticed. The latter cannot
    /// be observed; it takes microseconds unless the machine is busy.
    async fn wait_for_session_end(&self, xid: &Xid) -> Result<(), ResourceError> {
        if [mutated!(UnknownIsDone), mutated!(SessionEndNotAwaited)].contains(&true) {
            return Ok(());
        }
        MariaDbDriver::end_session(self, xid).await?;
        tokio::time::sleep(SESSION_END_DELAY).await;
        Ok(())
    }

    /// A locking read sees an uncommitted marker too.
    async fn marker(&self, gid: &str) -> Result<Marker, ResourceError> {
        let read = format!("SELECT 1 FROM etx_commit_marker WHERE gid = '{gid}' LOCK IN SHARE MODE NOWAIT");
        match self.query(&read).await {
            Ok(rows) if rows.is_empty() => Ok(Marker::Absent),
            Ok(_) => Ok(Marker::Committed),
            Err(error) if error.code == error::LOCKED => Ok(Marker::Uncommitted),
            Err(error) => Err(error.into()),
        }
    }

    /// Terminates the sessions that a query returns, and waits until they are gone: a session releases its
    /// lock after it has detached from its branch.
    async fn end_sessions(&self, query: &str) -> Result<(), ResourceError> {
        let deadline = PollDeadline::new(self.settings.answer_max());
        loop {
            let found = self.query(query).await?;
            if found.is_empty() {
                return Ok(());
            }
            for id in found.into_iter().flatten().flatten() {
                match self.query(&format!("KILL {id}")).await {
                    // It has ended on its own.
                    Err(error) if error.code == "1094" => {}
                    result => drop(result?),
                }
            }
            if !deadline.again().await {
                return Err(self.settings.transient("a terminated session does not end"));
            }
        }
    }
}
