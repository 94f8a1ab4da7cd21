//! Branches whose connection is not ours any more: listed, ended, and kept from coming about.

use jeton_etx::{BranchName, Executor, Failure, Outcome, Standing};

use super::{Shared, error, xid};
use crate::control::{Patience, first};
use crate::names::at_work;

impl Shared {
    pub async fn prepared(&self) -> Result<Vec<Standing>, Failure> {
        let ours = |row: Vec<Option<String>>| {
            let [Some(format), Some(length), _, Some(data)] = row.as_slice() else { return None };
            let (gtrid, bqual) = data.as_bytes().split_at_checked(length.parse().ok()?)?;
            let name = BranchName::from_xid(format.parse().ok()?, gtrid, bqual).ok()?;
            let is_ours = name.cluster == self.settings.cluster && name.resource == self.settings.number;
            is_ours.then_some(Standing { name, age: None })
        };
        let listed = self.ask("XA RECOVER").await?.into_iter().filter_map(ours);
        #[cfg(feature = "mutations")]
        let listed = listed.filter(|standing| {
            let rolled_back = self.rolled_back.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
            !(mutated!(RollbackTrusted) && rolled_back.contains(&standing.name))
        });
        Ok(listed.collect())
    }

    /// "No such branch" is said of one that is committed, rolled back, or was never prepared; but also of one whose session is still there, and of one that
    /// another is just ending. The list tells the latter: a branch is on it until it has ended.
    pub async fn decide(&self, name: &BranchName, outcome: Outcome) -> Result<(), Failure> {
        let (xid, gid) = (xid(name), name.gid());
        let word = match outcome {
            Outcome::Commit => "COMMIT",
            Outcome::Abort => "ROLLBACK",
        };
        let patience = Patience::new(self.settings.lock_max);
        let mut looks = 0;
        loop {
            let failure = match self.ask(&format!("XA {word} {xid}")).await {
                Ok(_) if outcome == Outcome::Abort => {
                    self.remember_rolled_back(name);
                    return Ok(());
                }
                Ok(_) => {
                    return if self.is_marked(&gid).await? {
                        Ok(())
                    } else {
                        Err(self.settings.damage(gid, "it was committed and has left no mark"))
                    };
                }
                Err(trouble) if trouble.code == error::UNKNOWN_BRANCH && mutated!(UnknownIsDone) => return Ok(()),
                Err(trouble) if trouble.code == error::UNKNOWN_BRANCH => trouble.failure,
                // It had changed nothing, not even set a mark, so it is none of ours. Or an abort, which is as well.
                Err(trouble) if trouble.code == error::ROLLED_BACK => trouble.failure,
                Err(trouble) => return Err(trouble.into()),
            };
            if self.prepared().await?.iter().any(|standing| standing.name == *name) {
                // Its session holds on to it. If there is none, another is just ending it.
                self.end_sessions(name.executor).await?;
            } else {
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

    /// An engine without a binary log may have it again after a crash, prepared. So it is looked for for ever, and this is for a planted bug only.
    pub fn remember_rolled_back(&self, _name: &BranchName) {
        #[cfg(feature = "mutations")]
        self.rolled_back.lock().unwrap_or_else(std::sync::PoisonError::into_inner).insert(*_name);
    }

    async fn is_marked(&self, gid: &str) -> Result<bool, Failure> {
        Ok(!self.ask(&format!("SELECT 1 FROM etx_mark WHERE gid = '{gid}'")).await?.is_empty())
    }

    pub async fn fence(&self, executor: Executor) -> Result<(), Failure> {
        let name = at_work(executor);
        if !mutated!(FenceForgotten) {
            // Who votes after this finds it; who voted before it is among the sessions that are ended now, or done.
            self.ask(&format!("INSERT IGNORE INTO etx_fence (executor) VALUES ('{name}')")).await?;
        }
        self.end_sessions(executor).await
    }

    /// Ends the session in which an executor has a branch, and waits until it is gone: it gives up its lock when it has let go of the branch.
    pub async fn end_sessions(&self, executor: Executor) -> Result<(), Failure> {
        let owner = format!("SELECT IS_USED_LOCK('{}')", self.lock_name(executor));
        let patience = Patience::new(self.settings.answer_max());
        while let Some(id) = first(&self.ask(&owner).await?) {
            match self.ask(&format!("KILL {id}")).await {
                // It went by itself.
                Err(trouble) if trouble.code == "1094" => {}
                answer => drop(answer?),
            }
            if !patience.again().await {
                return Err(self.settings.passing("a session that was ended does not go"));
            }
        }
        Ok(())
    }
}
