//! Branches whose connection is not ours any more: listed, ended, and kept from coming about.

use std::time::Duration;

use jeton_etx::{CoordinatorId, Outcome, PreparedBranch, ResourceError, Xid};

use super::{Inner, error, xid};
use crate::query_error::PollDeadline;

/// How long after the end of a session its branches are left alone.
const PARTING: Duration = Duration::from_millis(100);

/// Of how many branches it is looked up since when they are prepared.
const AGES_MAX: usize = 1_000;

/// What the mark of a branch tells.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Mark {
    Committed,
    Absent,
    /// It is written and not committed.
    Open,
}

impl Inner {
    /// MariaDB does not tell since when a branch is prepared. Its mark does, which is written with the vote and can be read before it is committed.
    pub async fn prepared(&self) -> Result<Vec<PreparedBranch>, ResourceError> {
        let mut listed = self.listed().await?;
        if listed.is_empty() {
            return Ok(listed);
        }
        let gids: Vec<String> =
            listed.iter().take(AGES_MAX).map(|standing| format!("'{}'", standing.name.gid())).collect();
        let marks = self
            .ask(&format!(
                "SET TRANSACTION ISOLATION LEVEL READ UNCOMMITTED; \
                 SELECT gid, GREATEST(TIMESTAMPDIFF(SECOND, at, CURRENT_TIMESTAMP), 0) FROM etx_mark WHERE gid IN ({})",
                gids.join(", ")
            ))
            .await?;
        let age_of = |gid: &str| {
            let row =
                marks.iter().find(|row| row.first().is_some_and(|text| text.as_deref() == Some(gid)))?;
            row.get(1)?.as_deref()?.parse().ok().map(Duration::from_secs)
        };
        for standing in &mut listed {
            standing.age = age_of(&standing.name.gid());
        }
        Ok(listed)
    }

    async fn listed(&self) -> Result<Vec<PreparedBranch>, ResourceError> {
        let ours = |row: Vec<Option<String>>| {
            let [Some(format), Some(length), _, Some(data)] = row.as_slice() else { return None };
            let (gtrid, bqual) = data.as_bytes().split_at_checked(length.parse().ok()?)?;
            let name = Xid::from_xid(format.parse().ok()?, gtrid, bqual).ok()?;
            self.settings.is_ours(&name).then_some(PreparedBranch { name, age: None })
        };
        let listed = self.ask("XA RECOVER").await?.into_iter().filter_map(ours);
        #[cfg(feature = "mutations")]
        let listed = listed.filter(|standing| {
            let rolled_back = self.rolled_back.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
            !(mutated!(RollbackTrusted) && rolled_back.contains(&standing.name))
        });
        Ok(listed.collect())
    }

    /// How many rows it has locks on. MariaDB does not tell of a branch whose session has gone which transaction it is.
    pub async fn locks(&self, name: &Xid) -> Result<Vec<String>, ResourceError> {
        let held = format!(
            "SELECT CONCAT(trx_rows_locked, ' rows in ', trx_tables_locked, ' tables') FROM information_schema.innodb_trx \
             WHERE trx_mysql_thread_id = {}",
            name.connection
        );
        let rows = self.ask(&held).await?;
        Ok(rows.into_iter().filter_map(|row| row.into_iter().next().flatten()).collect())
    }

    /// "No such branch" is said of one that is committed, rolled back, or was never prepared; but also of one whose session is still there, and of one that
    /// another is just ending. The list tells the latter: a branch is on it until it has ended.
    ///
    /// And "done" is said, though nothing is, in the moment in which the session of the owner has let go of the branch and the engine not yet of the session. Then the branch
    /// is on no list any more, and keeps its locks until MariaDB is started again. So that moment is waited for, and the mark is looked at in the end.
    pub async fn decide(&self, name: &Xid, outcome: Outcome) -> Result<(), ResourceError> {
        let (xid, gid) = (xid(name), name.gid());
        let word = match outcome {
            Outcome::Commit => "COMMIT",
            Outcome::Abort => "ROLLBACK",
        };
        let patience = PollDeadline::new(self.settings.statement_max);
        let mut looks = 0;
        loop {
            if self.is_listed(name).await? {
                self.wait_for_session_end(name).await?;
                match self.ask(&format!("XA {word} {xid}")).await {
                    Ok(_) if outcome == Outcome::Abort => self.remember_rolled_back(name),
                    Ok(_) => {}
                    Err(trouble) if trouble.code == error::UNKNOWN_BRANCH && mutated!(UnknownIsDone) => {
                        return Ok(());
                    }
                    // Another is just ending it, or has ended it; or, without a mark, it is none of ours.
                    Err(trouble)
                        if [error::UNKNOWN_BRANCH, error::ROLLED_BACK].contains(&trouble.code.as_str()) => {}
                    Err(trouble) => return Err(trouble.into()),
                }
            }
            // Looked at after the list: whoever ended it has done so by now.
            let mark = self.mark(&gid).await?;
            match (mark, outcome) {
                (Mark::Committed, Outcome::Commit) | (Mark::Absent, Outcome::Abort) => return Ok(()),
                (Mark::Committed, Outcome::Abort) => {
                    return Err(self.settings.damage(gid, "it was to be rolled back and is committed"));
                }
                // Twice, so that no moment between the two looks is taken for the end.
                (Mark::Absent, Outcome::Commit) if looks > 0 => {
                    let why = "it is neither prepared nor committed: it was rolled back by hand";
                    return Err(self.settings.damage(gid, why));
                }
                (Mark::Absent, Outcome::Commit) => looks += 1,
                // It is being ended, or being prepared; or the engine has it and nothing else knows.
                (Mark::Open, _) => {}
            }
            if !patience.again().await {
                return Err(if mark == Mark::Open && !self.is_listed(name).await? {
                    let why = format!("it has the branch {gid} and does not know it");
                    self.settings.setup(why, "restart MariaDB: the branch is prepared then, and can be ended")
                } else {
                    self.settings.passing(format_args!("the branch {gid} does not end"))
                });
            }
        }
    }

    async fn is_listed(&self, name: &Xid) -> Result<bool, ResourceError> {
        Ok(self.listed().await?.iter().any(|standing| standing.name == *name))
    }

    /// Ends the session that made a branch, if it is still there, and waits until the engine has noticed that it is gone. There is nothing to look at for the latter; it
    /// is a matter of microseconds, unless the machine is busy.
    async fn wait_for_session_end(&self, name: &Xid) -> Result<(), ResourceError> {
        if [mutated!(UnknownIsDone), mutated!(PartingNotAwaited)].contains(&true) {
            return Ok(());
        }
        self.end_session(name).await?;
        tokio::time::sleep(PARTING).await;
        Ok(())
    }

    /// An engine without a binary log may have it again after a crash, prepared. So it is looked for for ever, and this is for a planted bug only.
    pub fn remember_rolled_back(&self, _name: &Xid) {
        #[cfg(feature = "mutations")]
        self.rolled_back.lock().unwrap_or_else(std::sync::PoisonError::into_inner).insert(*_name);
    }

    /// Reads with a lock, and so sees a mark that is not committed, too.
    async fn mark(&self, gid: &str) -> Result<Mark, ResourceError> {
        let look = format!("SELECT 1 FROM etx_mark WHERE gid = '{gid}' LOCK IN SHARE MODE NOWAIT");
        match self.ask(&look).await {
            Ok(rows) if rows.is_empty() => Ok(Mark::Absent),
            Ok(_) => Ok(Mark::Committed),
            Err(trouble) if trouble.code == error::LOCKED => Ok(Mark::Open),
            Err(trouble) => Err(trouble.into()),
        }
    }

    pub async fn fence(&self, executor: CoordinatorId) -> Result<(), ResourceError> {
        if mutated!(FenceOmitted) {
            return Ok(());
        }
        let of_the_server = self.lock_name(executor, "");
        self.end_sessions(&format!(
            "SELECT ID FROM information_schema.PROCESSLIST WHERE IS_USED_LOCK(CONCAT('{of_the_server}', ID)) = ID"
        ))
        .await
    }

    /// Ends the session that a branch was made in.
    pub async fn end_session(&self, name: &Xid) -> Result<(), ResourceError> {
        let lock = self.lock_name(name.executor, name.connection);
        self.end_sessions(&format!(
            "SELECT IS_USED_LOCK('{lock}') FROM DUAL WHERE IS_USED_LOCK('{lock}') IS NOT NULL"
        ))
        .await
    }

    /// Ends the sessions that a query finds, and waits until they are gone: a session gives up its lock when it has let go of its branch.
    async fn end_sessions(&self, query: &str) -> Result<(), ResourceError> {
        let patience = PollDeadline::new(self.settings.answer_max());
        loop {
            let found = self.ask(query).await?;
            if found.is_empty() {
                return Ok(());
            }
            for id in found.into_iter().flatten().flatten() {
                match self.ask(&format!("KILL {id}")).await {
                    // It went by itself.
                    Err(trouble) if trouble.code == "1094" => {}
                    answer => drop(answer?),
                }
            }
            if !patience.again().await {
                return Err(self.settings.passing("a session that was ended does not go"));
            }
        }
    }
}
