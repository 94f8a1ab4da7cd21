//! Branches of transactions over all their partitions: prepare, commit, abort, list.
//!
//! A branch is prepared at its home partition first, which follows from its name, then in the other
//! partitions. It is committed or aborted in the others first, and at home last. Invariants:
//! - A vote is *yes* only when every part is durably prepared.
//! - A commit or abort finds every part that can ever be prepared: the home knows the partitions before the
//!   first of them is prepared, and until the last is finished. An abort is recorded in each of them, so that
//!   a prepare in flight is refused when it arrives.
//! - Nothing is committed in any partition unless every part is prepared or committed already.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;

use jeton_core::{
    Addition, Branch, BranchError, BranchName, BranchOutcome, PartitionId, Secret, limits::ADDITIONS_MAX,
};

use crate::creation_quota::CreationQuota;
use crate::engine::Engine;
use crate::partition_log::{BlobStore, PartitionLog};
use crate::request::{BranchRequest, Request};
use crate::response::{BranchResponse, CommittedCount, EngineError, Response};

/// The vote on a prepare.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PrepareResult {
    /// The branch is prepared: now if `fresh`, otherwise before.
    Prepared {
        fresh: bool,
    },
    Finished(BranchOutcome),
}

/// The result of a commit or abort.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FinishResult {
    /// The branch has the requested outcome: now if `fresh`, otherwise before.
    Done {
        fresh: bool,
        /// The counters that this call changed.
        counted: Vec<CommittedCount>,
    },
    /// It was finished before with the other outcome.
    Otherwise,
    /// It cannot be committed: at least one part is neither prepared nor recorded as committed.
    Unknown,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PreparedBranchInfo {
    pub name: BranchName,
    /// Earliest prepare of a part on the store's clock, in milliseconds since 1970.
    pub since: u64,
    /// The prepared additions, in the order of the partitions.
    pub additions: Vec<Addition>,
}

/// Where the requests of a branch go: one engine, or the owners of the partitions.
pub trait BranchRouter: Sync {
    fn secret(&self) -> &Secret;

    fn submit(&self, requests: Vec<Request>) -> impl Future<Output = Vec<Response>> + Send;
}

impl<L: PartitionLog + BlobStore> BranchRouter for Engine<L> {
    fn secret(&self) -> &Secret {
        &self.secret
    }

    fn submit(&self, requests: Vec<Request>) -> impl Future<Output = Vec<Response>> + Send {
        self.submit_prehashed(requests)
    }
}

impl<L: PartitionLog + BlobStore> Engine<L> {
    /// See [`Branches::prepare`].
    pub async fn prepare_branch(
        &self,
        name: &BranchName,
        additions: Vec<Addition>,
        quota: Option<&Arc<dyn CreationQuota>>,
    ) -> Result<PrepareResult, PrepareError> {
        Branches(self).prepare(name, additions, quota).await
    }

    /// See [`Branches::finish`].
    pub async fn finish_branch(
        &self,
        name: &BranchName,
        outcome: BranchOutcome,
        quota: Option<&Arc<dyn CreationQuota>>,
    ) -> Result<FinishResult, EngineError> {
        Branches(self).finish(name, outcome, quota).await
    }

    /// All prepared branches of its partitions, also those of which only some parts are prepared.
    pub async fn prepared_branches(&self) -> Result<Vec<PreparedBranchInfo>, EngineError> {
        Branches(self).list(self.partitions.clone()).await
    }
}

/// The branches behind a router.
pub struct Branches<'a, R>(pub &'a R);

impl<R: BranchRouter> Branches<'_, R> {
    /// Prepares additions durably: they can commit whatever other writes do to the counters. After an error
    /// some parts may be prepared: the caller must abort the branch. `quota` is charged for the cells that
    /// its commit would create.
    pub async fn prepare(
        &self,
        name: &BranchName,
        additions: Vec<Addition>,
        quota: Option<&Arc<dyn CreationQuota>>,
    ) -> Result<PrepareResult, PrepareError> {
        if additions.len() > ADDITIONS_MAX {
            return Err(BranchError::TooMany.into());
        }
        let home = self.0.secret().branch_home(name);
        let mut parts: BTreeMap<PartitionId, Vec<Addition>> = BTreeMap::new();
        for one in additions {
            parts.entry(one.cell.partition()).or_default().push(one);
        }
        let at_home = parts.remove(&home).unwrap_or_default();
        let at_home = Branch::new(name.clone(), at_home, parts.keys().copied().collect())?;
        let mut rest = Vec::new();
        for (partition, additions) in parts {
            rest.push((partition, BranchRequest::Prepare(Branch::new(name.clone(), additions, Vec::new())?)));
        }
        let mut fresh = false;
        for round in [vec![(home, BranchRequest::Prepare(at_home))], rest] {
            for reply in self.send_branch_requests(round, quota).await {
                match reply? {
                    BranchResponse::Prepared { fresh: now } => fresh |= now,
                    BranchResponse::Finished { outcome, .. } => return Ok(PrepareResult::Finished(outcome)),
                    other => unreachable!("the response to a prepare is {other:?}"),
                }
            }
        }
        Ok(PrepareResult::Prepared { fresh })
    }

    /// Commits or aborts a branch in all its partitions. After an error some parts may be finished: the
    /// caller must retry with the same outcome. A commit reports the cells that it creates to `quota`.
    pub async fn finish(
        &self,
        name: &BranchName,
        outcome: BranchOutcome,
        quota: Option<&Arc<dyn CreationQuota>>,
    ) -> Result<FinishResult, EngineError> {
        let home = self.0.secret().branch_home(name);
        let finish = |others_finished| BranchRequest::Finish { name: name.clone(), outcome, others_finished };
        let mut all = Vec::new();
        let reply = match self.send_branch_request(home, finish(false), quota).await? {
            BranchResponse::Elsewhere(rest) => {
                if outcome == BranchOutcome::Commit {
                    let look = |partition: &PartitionId| (*partition, BranchRequest::Lookup(name.clone()));
                    for reply in self.send_branch_requests(rest.iter().map(look).collect(), None).await {
                        match reply? {
                            BranchResponse::Prepared { .. }
                            | BranchResponse::Finished { outcome: BranchOutcome::Commit, .. } => {}
                            _ => return Ok(FinishResult::Unknown),
                        }
                    }
                }
                let parts = rest.into_iter().map(|partition| (partition, finish(true)));
                for reply in self.send_branch_requests(parts.collect(), quota).await {
                    match finish_result(reply?, outcome) {
                        FinishResult::Done { counted, .. } => all.extend(counted),
                        other => return Ok(other),
                    }
                }
                self.send_branch_request(home, finish(true), quota).await?
            }
            reply => reply,
        };
        let mut result = finish_result(reply, outcome);
        if let FinishResult::Done { counted, .. } = &mut result {
            counted.extend(all);
        }
        Ok(result)
    }

    /// All prepared branches of these partitions, also those of which only some parts are prepared.
    pub async fn list(&self, partitions: Range<u16>) -> Result<Vec<PreparedBranchInfo>, EngineError> {
        let request = |partition| Request::PreparedBranches { partition };
        let mut found: BTreeMap<BranchName, PreparedBranchInfo> = BTreeMap::new();
        for response in self.0.submit(partitions.map(PartitionId).map(request).collect()).await {
            let prepared = match response {
                Response::PreparedBranches(prepared) => prepared,
                Response::Applied(Err(refusal)) => return Err(refusal),
                other => unreachable!("the response to a list of branches is {other:?}"),
            };
            for part in prepared {
                let name = part.branch.name();
                let none =
                    || PreparedBranchInfo { name: name.clone(), since: part.since, additions: Vec::new() };
                let whole = found.entry(name.clone()).or_insert_with(none);
                whole.since = whole.since.min(part.since);
                whole.additions.extend_from_slice(part.branch.additions());
            }
        }
        Ok(found.into_values().collect())
    }

    async fn send_branch_request(
        &self,
        partition: PartitionId,
        what: BranchRequest,
        quota: Option<&Arc<dyn CreationQuota>>,
    ) -> Result<BranchResponse, EngineError> {
        let mut replies = self.send_branch_requests(vec![(partition, what)], quota).await;
        replies.pop().unwrap_or(Err(EngineError::Closed))
    }

    async fn send_branch_requests(
        &self,
        requests: Vec<(PartitionId, BranchRequest)>,
        quota: Option<&Arc<dyn CreationQuota>>,
    ) -> Vec<Result<BranchResponse, EngineError>> {
        let request = |(partition, what)| {
            let request = Request::branch(what, partition, self.0.secret());
            match quota {
                Some(quota) => request.with_quota(quota),
                None => request,
            }
        };
        let responses = self.0.submit(requests.into_iter().map(request).collect()).await;
        let reply = |response| match response {
            Response::Branch(reply) => reply,
            Response::Applied(Err(refusal)) => Err(refusal),
            other => unreachable!("the response to a branch request is {other:?}"),
        };
        responses.into_iter().map(reply).collect()
    }
}

fn finish_result(reply: BranchResponse, requested: BranchOutcome) -> FinishResult {
    match reply {
        BranchResponse::Finished { outcome, fresh, counted } if outcome == requested => {
            FinishResult::Done { fresh, counted }
        }
        BranchResponse::Finished { .. } => FinishResult::Otherwise,
        BranchResponse::Unknown => FinishResult::Unknown,
        other => unreachable!("the response to a commit or abort is {other:?}"),
    }
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PrepareError {
    #[error(transparent)]
    Branch(#[from] BranchError),
    #[error(transparent)]
    Refused(#[from] EngineError),
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test may panic")]
mod tests {
    use futures_executor::block_on;
    use jeton_core::{Column, Rejection, TableSettings, Value};

    use super::*;
    use crate::options::Options;

    /// A store, a branch with parts in two partitions beside its home, and its prepare requests.
    struct Scenario {
        engine: Engine,
        name: BranchName,
        steps: Vec<(PartitionId, BranchRequest)>,
        additions: Vec<Addition>,
        _folder: tempfile::TempDir,
    }

    impl Scenario {
        fn new() -> Self {
            let folder = tempfile::tempdir().unwrap();
            let engine = Engine::open(folder.path(), Options { shards: 2, ..Options::default() }).unwrap();
            let table = engine.create_table("t", TableSettings::default()).unwrap();
            let name = BranchName::new(b"b").unwrap();
            let home = engine.secret.branch_home(&name);
            let mut additions: Vec<Addition> = Vec::new();
            for row in 0u32.. {
                let cell = engine.cell(&table, &row.to_be_bytes(), &Column::unnamed()).unwrap();
                let taken = additions.iter().any(|one| one.cell.partition() == cell.partition());
                if cell.partition() != home && !taken {
                    additions.push(Addition { cell, delta: 5, min: None, max: None });
                }
                if additions.len() == 2 {
                    break;
                }
            }
            let elsewhere = additions.iter().map(|one| one.cell.partition()).collect();
            let at_home = Branch::new(name.clone(), Vec::new(), elsewhere).unwrap();
            let mut steps = vec![(home, BranchRequest::Prepare(at_home))];
            for one in &additions {
                let part = Branch::new(name.clone(), vec![one.clone()], Vec::new()).unwrap();
                steps.push((one.cell.partition(), BranchRequest::Prepare(part)));
            }
            Self { engine, name, steps, additions, _folder: folder }
        }

        /// Sends one of the prepare requests.
        fn step(&self, at: usize) -> Result<BranchResponse, EngineError> {
            let (partition, what) = self.steps[at].clone();
            block_on(Branches(&self.engine).send_branch_request(partition, what, None))
        }

        fn prepare(&self, additions: &[Addition]) -> Result<PrepareResult, PrepareError> {
            block_on(self.engine.prepare_branch(&self.name, additions.to_vec(), None))
        }

        fn finish(&self, outcome: BranchOutcome) -> FinishResult {
            block_on(self.engine.finish_branch(&self.name, outcome, None)).unwrap()
        }

        fn prepared(&self) -> usize {
            block_on(self.engine.prepared_branches()).unwrap().len()
        }

        fn values(&self) -> Vec<i64> {
            let read = |one: &Addition| block_on(self.engine.get(one.cell.clone())).unwrap();
            let value = |one| read(one).and_then(|value| Value::counter(&value)).unwrap_or(0);
            self.additions.iter().map(value).collect()
        }
    }

    /// The coordinator may have sent any number of prepares when the branch is aborted.
    #[test]
    fn late_prepares_are_refused_after_an_abort() {
        for arrived in 0..=3 {
            let scenario = Scenario::new();
            for at in 0..arrived {
                assert_eq!(scenario.step(at), Ok(BranchResponse::Prepared { fresh: true }));
            }
            let done = FinishResult::Done { fresh: true, counted: Vec::new() };
            assert_eq!(scenario.finish(BranchOutcome::Abort), done);
            // Without a prepare at home the other partitions are not reached.
            let late = if arrived == 0 { 0..1 } else { arrived..3 };
            for at in late {
                let refused = BranchResponse::Finished {
                    outcome: BranchOutcome::Abort,
                    fresh: false,
                    counted: Vec::new(),
                };
                assert_eq!(scenario.step(at), Ok(refused), "after {arrived} of 3 prepares, then {at}");
            }
            assert_eq!((scenario.prepared(), scenario.values()), (0, vec![0, 0]));
        }
    }

    #[test]
    fn commit_requires_all_parts_prepared() {
        for arrived in 0..3 {
            let scenario = Scenario::new();
            for at in 0..arrived {
                assert_eq!(scenario.step(at), Ok(BranchResponse::Prepared { fresh: true }));
            }
            assert_eq!(scenario.finish(BranchOutcome::Commit), FinishResult::Unknown);
            assert_eq!(scenario.values(), [0, 0], "after {arrived} of 3 prepares");
            // The prepare can still complete, with a yes vote.
            let vote = scenario.prepare(&scenario.additions);
            assert_eq!(vote, Ok(PrepareResult::Prepared { fresh: true }));
            let result = scenario.finish(BranchOutcome::Commit);
            assert!(
                matches!(result, FinishResult::Done { fresh: true, ref counted } if counted.len() == 2),
                "{result:?}"
            );
            assert_eq!(scenario.values(), [5, 5]);
        }
    }

    /// The coordinator may have stopped between two partitions.
    #[test]
    fn a_partial_commit_is_completed() {
        let scenario = Scenario::new();
        scenario.prepare(&scenario.additions).unwrap();
        let commit = BranchRequest::Finish {
            name: scenario.name.clone(),
            outcome: BranchOutcome::Commit,
            others_finished: true,
        };
        block_on(Branches(&scenario.engine).send_branch_request(scenario.steps[1].0, commit, None)).unwrap();
        assert_eq!((scenario.prepared(), scenario.values()), (1, vec![5, 0]));
        scenario.finish(BranchOutcome::Commit);
        assert_eq!((scenario.prepared(), scenario.values()), (0, vec![5, 5]));
    }

    #[test]
    fn another_branch_with_the_same_name_is_refused() {
        let scenario = Scenario::new();
        scenario.prepare(&scenario.additions).unwrap();
        let refused = scenario.prepare(&scenario.additions[..1]);
        assert_eq!(refused, Err(PrepareError::Refused(Rejection::Mismatch.into())));
    }
}
