//! Branches whose connection is not ours any more: listed, ended, and kept from coming about.

use std::time::Duration;

use jeton_etx::{BranchName, Executor, Failure, Outcome, Standing};

use super::Shared;
use crate::control::{Patience, first};
use crate::names::at_work;

impl Shared {
    pub async fn prepared(&self) -> Result<Vec<Standing>, Failure> {
        let rows = self
            .ask(
                "SELECT gid, greatest(extract(epoch FROM clock_timestamp() - prepared), 0) FROM pg_prepared_xacts \
                 WHERE database = current_database()",
            )
            .await?;
        let ours = |row: Vec<Option<String>>| {
            let name = BranchName::from_gid(row.first()?.as_deref()?).ok()?;
            let age = row.get(1)?.as_deref()?.parse().ok().map(Duration::from_secs_f64);
            let is_ours = name.cluster == self.settings.cluster && name.resource == self.settings.number;
            is_ours.then_some(Standing { name, age })
        };
        Ok(rows.into_iter().filter_map(ours).collect())
    }

    /// "No such branch" is said of one that is committed, rolled back, or was never prepared; "busy" of one that another is just ending.
    pub async fn decide(&self, name: &BranchName, outcome: Outcome) -> Result<(), Failure> {
        let gid = name.gid();
        let word = match outcome {
            Outcome::Commit => "COMMIT",
            Outcome::Abort => "ROLLBACK",
        };
        let patience = Patience::new(self.settings.statement_max);
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

    async fn is_listed(&self, gid: &str) -> Result<bool, Failure> {
        let listed = format!("SELECT 1 FROM pg_prepared_xacts WHERE gid = '{gid}'");
        Ok(!self.ask(&listed).await?.is_empty())
    }

    async fn is_marked(&self, gid: &str) -> Result<bool, Failure> {
        Ok(!self.ask(&format!("SELECT 1 FROM etx_mark WHERE gid = '{gid}'")).await?.is_empty())
    }

    pub async fn fence(&self, executor: Executor) -> Result<(), Failure> {
        let name = at_work(executor);
        if !mutated!(FenceForgotten) {
            // Who votes after this finds it; who voted before it is among the sessions that are ended now, or done.
            self.ask(&format!("INSERT INTO etx_fence (executor) VALUES ('{name}') ON CONFLICT DO NOTHING"))
                .await?;
        }
        self.end_sessions(executor).await
    }

    /// Ends the sessions in which an executor has an open branch, and waits until they are gone.
    pub async fn end_sessions(&self, executor: Executor) -> Result<(), Failure> {
        let end = format!(
            "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity \
             WHERE application_name = '{}' AND datname = current_database()",
            at_work(executor)
        );
        let patience = Patience::new(self.settings.answer_max());
        while first(&self.ask(&end).await?) != Some("0") {
            if !patience.again().await {
                return Err(self.settings.passing("a session that was ended does not go"));
            }
        }
        Ok(())
    }
}
