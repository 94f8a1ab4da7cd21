//! A database adapter that records when calls start and end, for the phases of a transaction.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use async_trait::async_trait;
use jeton_etx::{
    AttemptId, AttemptNumber, Branch, CoordinatorId, Dialect, Outcome, PreparedBranch, QueryResult,
    RequestId, Resource, ResourceError, Value, Vote, Xid,
};

use super::protocol::PhaseTimes;

/// When the latest call of each kind ended, for one transaction at a time.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct PhaseStamps {
    sql: Option<Instant>,
    prepare: Option<Instant>,
    /// When the first call started.
    commit: Option<Instant>,
}

impl PhaseStamps {
    /// The parts of a transaction that began and ended then.
    pub(crate) fn parts(self, started: Instant, ended: Instant) -> PhaseTimes {
        let sql = self.sql.unwrap_or(started);
        let prepared = self.prepare.unwrap_or(sql);
        // Without a branch to commit afterwards, the commit that decides counts as a commit.
        let decided = self.commit.unwrap_or(prepared);
        PhaseTimes {
            sql: sql - started,
            prepare: prepared - sql,
            decide: decided - prepared,
            commit: ended - decided,
        }
    }
}

/// Shared by all databases of a server.
pub(crate) type SharedStamps = Arc<Mutex<PhaseStamps>>;

pub(crate) fn take(stamps: &SharedStamps) -> PhaseStamps {
    std::mem::take(&mut *lock(stamps))
}

fn lock(stamps: &SharedStamps) -> MutexGuard<'_, PhaseStamps> {
    // No code panics while holding it.
    stamps.lock().unwrap_or_else(PoisonError::into_inner)
}

pub(crate) struct TimedResource {
    pub(crate) resource: Arc<dyn Resource>,
    pub(crate) stamps: SharedStamps,
}

struct TimedBranch {
    branch: Box<dyn Branch>,
    stamps: SharedStamps,
}

#[async_trait]
impl Resource for TimedResource {
    fn name(&self) -> &str {
        self.resource.name()
    }

    fn dialect(&self) -> Dialect {
        self.resource.dialect()
    }

    fn keeps_decisions(&self) -> bool {
        self.resource.keeps_decisions()
    }

    async fn begin(&self, attempt: AttemptId) -> Result<Box<dyn Branch>, ResourceError> {
        let branch = self.resource.begin(attempt).await?;
        Ok(Box::new(TimedBranch { branch, stamps: Arc::clone(&self.stamps) }))
    }

    async fn prepared(&self) -> Result<Vec<PreparedBranch>, ResourceError> {
        self.resource.prepared().await
    }

    async fn locks(&self, branch: &Xid) -> Result<Vec<String>, ResourceError> {
        self.resource.locks(branch).await
    }

    async fn decide(&self, branch: &Xid, outcome: Outcome) -> Result<(), ResourceError> {
        self.resource.decide(branch, outcome).await
    }

    async fn write_decision(
        &self,
        request: RequestId,
        attempt: AttemptNumber,
        decision: &[u8],
    ) -> Result<Vec<u8>, ResourceError> {
        self.resource.write_decision(request, attempt, decision).await
    }

    async fn read_decision(
        &self,
        request: RequestId,
        attempt: AttemptNumber,
    ) -> Result<Option<Vec<u8>>, ResourceError> {
        self.resource.read_decision(request, attempt).await
    }

    async fn forget(&self, below: u128) -> Result<(), ResourceError> {
        self.resource.forget(below).await
    }

    async fn fence(&self, executor: CoordinatorId) -> Result<(), ResourceError> {
        self.resource.fence(executor).await
    }
}

#[async_trait]
impl Branch for TimedBranch {
    fn name(&self) -> Xid {
        self.branch.name()
    }

    async fn execute(&mut self, statement: &str, parameters: &[Value]) -> Result<QueryResult, ResourceError> {
        let result = self.branch.execute(statement, parameters).await;
        lock(&self.stamps).sql = Some(Instant::now());
        result
    }

    async fn vote(&mut self) -> Vote {
        let vote = self.branch.vote().await;
        lock(&self.stamps).prepare = Some(Instant::now());
        vote
    }

    async fn commit_deciding(self: Box<Self>, decision: &[u8]) -> Result<Vec<u8>, ResourceError> {
        self.branch.commit_deciding(decision).await
    }

    async fn decide(self: Box<Self>, outcome: Outcome) -> Result<(), ResourceError> {
        lock(&self.stamps).commit.get_or_insert_with(Instant::now);
        self.branch.decide(outcome).await
    }
}
