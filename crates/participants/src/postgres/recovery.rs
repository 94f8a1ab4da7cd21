//! Branches whose connection is not ours any more: listed, ended, and kept from coming about.

use std::time::Duration;

use jeton_etx::{CoordinatorId, Outcome, PreparedBranch, ResourceError, Xid};

use super::Inner;
use crate::identifiers::at_work;
use crate::query_error::{PollDeadline, first};

impl Inner {
    pub async fn prepared(&self) -> Result<Vec<PreparedBranch>, ResourceError> {
        let rows = self
            .ask(
                "SELECT gid, greatest(extract(epoch FROM clock_timestamp() - prepared), 0) FROM pg_prepared_xacts \
                 WHERE database = current_database()",
            )
            .await?;
        let ours = |row: Vec<Option<String>>| {
            let name = Xid::from_gid(row.first()?.as_deref()?).ok()?;
            let age = row.get(1)?.as_deref()?.parse().ok().map(Duration::from_secs_f64);
            self.settings.is_ours(&name).then_some(PreparedBranch { name, age })
        };
        Ok(rows.into_iter().filter_map(ours).collect())
    }

    /// Tables that it has locks on, which are those on rows too.
    /// What a prepared transaction holds has no process, and a virtual number that it took from its session or, after a restart, made from its own. Its lock on
    /// itself tells which.
    pub async fn locks(&self, name: &Xid) -> Result<Vec<String>, ResourceError> {
        let held = format!(
            "SELECT DISTINCT relation::regclass::text || ': ' || mode FROM pg_locks WHERE pid IS NULL AND relation IS NOT NULL \
             AND virtualtransaction = (SELECT l.virtualtransaction FROM pg_prepared_xacts p JOIN pg_locks l \
             ON l.transactionid = p.transaction AND l.pid IS NULL AND l.granted \
             WHERE p.gid = '{}' AND p.database = current_database() LIMIT 1) ORDER BY 1 LIMIT 32",
            name.gid()
        );
        let rows = self.ask(&held).await?;
        Ok(rows.into_iter().filter_map(|row| row.into_iter().next().flatten()).collect())
    }

    /// "No such branch" is said of one that is committed, rolled back, or was never prepared; "busy" of one that another is just ending.
    pub async fn decide(&self, name: &Xid, outcome: Outcome) -> Result<(), ResourceError> {
        let gid = name.gid();
        let word = match outcome {
            Outcome::Commit => "COMMIT",
            Outcome::Abort => "ROLLBACK",
        };
        let patience = PollDeadline::new(self.settings.statement_max);
        let mut looks = 0;
        loop {
            let failure = match self.ask(&format!("{word} PREPARED '{gid}'")).await {
                Ok(_) if outcome == Outcome::Abort => return Ok(()),
                Ok(_) => {
                    return if self.is_marked(&gid).await? {
                        Ok(())
                    } else {
                        Err(self.settings.damage(gid, "it was committed and has left no mark"))
                    };
                }
                Err(trouble) if trouble.code == "42704" && mutated!(UnknownIsDone) => return Ok(()),
                // Unknown, or busy.
                Err(trouble) if trouble.code == "42704" || trouble.code == "55000" => trouble.failure,
                Err(trouble) => return Err(trouble.into()),
            };
            if !self.is_listed(&gid).await? {
                // Looked at after the list: whoever ended it has done so by now.
                match (self.is_marked(&gid).await?, outcome) {
                    (true, Outcome::Commit) | (false, Outcome::Abort) => return Ok(()),
                    (true, Outcome::Abort) => {
                        return Err(self.settings.damage(gid, "it was to be rolled back and is committed"));
                    }
                    // Twice, so that no moment between the two looks is taken for the end.
                    (false, Outcome::Commit) if looks > 0 => {
                        let why = "it is neither prepared nor committed: it was rolled back by hand";
                        return Err(self.settings.damage(gid, why));
                    }
                    (false, Outcome::Commit) => looks += 1,
                }
            }
            if !patience.again().await {
                return Err(self.settings.passing(failure));
            }
        }
    }

    async fn is_listed(&self, gid: &str) -> Result<bool, ResourceError> {
        let listed = format!("SELECT 1 FROM pg_prepared_xacts WHERE gid = '{gid}'");
        Ok(!self.ask(&listed).await?.is_empty())
    }

    async fn is_marked(&self, gid: &str) -> Result<bool, ResourceError> {
        Ok(!self.ask(&format!("SELECT 1 FROM etx_mark WHERE gid = '{gid}'")).await?.is_empty())
    }

    pub async fn fence(&self, executor: CoordinatorId) -> Result<(), ResourceError> {
        if mutated!(FenceOmitted) {
            return Ok(());
        }
        self.end_sessions(executor, "").await
    }

    /// Ends the session that a branch was made in.
    pub async fn end_session(&self, name: &Xid) -> Result<(), ResourceError> {
        self.end_sessions(name.executor, &format!("AND pid = {}", name.connection)).await
    }

    /// Ends the sessions of a server in this life of it, or those of them that a condition is true of, and waits until they are gone.
    async fn end_sessions(&self, executor: CoordinatorId, which: &str) -> Result<(), ResourceError> {
        let end = format!(
            "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity \
             WHERE application_name = '{}' AND datname = current_database() {which}",
            at_work(executor)
        );
        let patience = PollDeadline::new(self.settings.answer_max());
        while first(&self.ask(&end).await?) != Some("0") {
            if !patience.again().await {
                return Err(self.settings.passing("a session that was ended does not go"));
            }
        }
        Ok(())
    }
}
