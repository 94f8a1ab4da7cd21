//! Branches of transactions, in all the partitions that they concern: hold, settle, list.
//!
//! A branch is held at home first, which is the partition that follows from its name, and then where else it adds something; it is settled elsewhere first, and at home last.
//! What must hold:
//! - *Yes* is said only when every part is held, durably.
//! - Whoever settles finds every part that can ever be held: home knows where they are from before the first of them is there, until the last has ended. An
//!   abort leaves word in each of them, so that what is still on its way is not held when it comes.
//! - Nothing is committed anywhere unless every part is held, or committed already.

use std::collections::BTreeMap;

use jeton_core::{
    Addition, Branch, BranchError, BranchName, BranchOutcome, PartitionId, limits::ADDITIONS_MAX,
};

use crate::engine::Engine;
use crate::request::{BranchRequest, Request};
use crate::response::{BranchResponse, CommittedCount, EngineError, Response};

/// What became of a branch that was to be held.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PrepareResult {
    /// It is held: since now, or since before if not `fresh`.
    Held {
        /// Whether any of it was not held before.
        fresh: bool,
    },
    /// It is not, and will not be: it has ended.
    Settled(BranchOutcome),
}

/// What became of a branch that was to be settled.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FinishResult {
    /// It has ended as it should: now, or before if not `fresh`.
    Done {
        /// Whether some of it had not before.
        fresh: bool,
        /// What was counted by that, just now.
        counted: Vec<CommittedCount>,
    },
    /// It ended before, the other way.
    Otherwise,
    /// It cannot be committed: it is not held, or not everywhere, and was not committed either, as far as is remembered.
    Unknown,
}

/// A branch that is held.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PreparedBranchInfo {
    /// What it is called.
    pub name: BranchName,
    /// Since when some part of it is held, in milliseconds since 1970, on the store's timeline.
    pub since: u64,
    /// What is held, in the order of the partitions.
    pub additions: Vec<Addition>,
}

impl Engine {
    /// Holds additions until they are settled: durably, and so that they can be committed whatever happens to their counters. If this is an error, some of them may be held
    /// all the same: settle the branch.
    pub async fn prepare_branch(
        &self,
        name: &BranchName,
        additions: Vec<Addition>,
    ) -> Result<PrepareResult, PrepareError> {
        if additions.len() > ADDITIONS_MAX {
            return Err(BranchError::TooMany.into());
        }
        let home = self.secret.branch_home(name);
        let mut parts: BTreeMap<PartitionId, Vec<Addition>> = BTreeMap::new();
        for one in additions {
            parts.entry(one.cell.partition()).or_default().push(one);
        }
        let at_home = parts.remove(&home).unwrap_or_default();
        let at_home = Branch::new(name.clone(), at_home, parts.keys().copied().collect())?;
        let mut rest = Vec::new();
        for (partition, additions) in parts {
            rest.push((partition, BranchRequest::Hold(Branch::new(name.clone(), additions, Vec::new())?)));
        }
        let mut fresh = false;
        for round in [vec![(home, BranchRequest::Hold(at_home))], rest] {
            for reply in self.ask_branch(round).await {
                match reply? {
                    BranchResponse::Held { fresh: now } => fresh |= now,
                    BranchResponse::Settled { ending, .. } => return Ok(PrepareResult::Settled(ending)),
                    other => unreachable!("a branch to be held is not answered with {other:?}"),
                }
            }
        }
        Ok(PrepareResult::Held { fresh })
    }

    /// Ends a branch wherever it is held, for good. After an error it may have ended in some partitions: settle it again, the same way.
    pub async fn finish_branch(
        &self,
        name: &BranchName,
        ending: BranchOutcome,
    ) -> Result<FinishResult, EngineError> {
        let home = self.secret.branch_home(name);
        let settle = |rest_settled| BranchRequest::Settle { name: name.clone(), ending, rest_settled };
        let mut all = Vec::new();
        let reply = match self.ask_branch_in(home, settle(false)).await? {
            BranchResponse::Elsewhere(rest) => {
                if ending == BranchOutcome::Commit {
                    let look = |partition: &PartitionId| (*partition, BranchRequest::Look(name.clone()));
                    for reply in self.ask_branch(rest.iter().map(look).collect()).await {
                        match reply? {
                            BranchResponse::Held { .. }
                            | BranchResponse::Settled { ending: BranchOutcome::Commit, .. } => {}
                            _ => return Ok(FinishResult::Unknown),
                        }
                    }
                }
                let parts = rest.into_iter().map(|partition| (partition, settle(true)));
                for reply in self.ask_branch(parts.collect()).await {
                    match as_asked(reply?, ending) {
                        FinishResult::Done { counted, .. } => all.extend(counted),
                        settled => return Ok(settled),
                    }
                }
                self.ask_branch_in(home, settle(true)).await?
            }
            reply => reply,
        };
        let mut settled = as_asked(reply, ending);
        if let FinishResult::Done { counted, .. } = &mut settled {
            counted.extend(all);
        }
        Ok(settled)
    }

    /// The branches that are held, wherever any part of one is.
    pub async fn prepared_branches(&self) -> Result<Vec<PreparedBranchInfo>, EngineError> {
        let ask = |partition| Request::Held { partition };
        let mut found: BTreeMap<BranchName, PreparedBranchInfo> = BTreeMap::new();
        for response in self.submit_prehashed(PartitionId::all().map(ask).collect()).await {
            let held = match response {
                Response::Held(held) => held,
                Response::Applied(Err(refusal)) => return Err(refusal),
                other => unreachable!("a question is not answered with {other:?}"),
            };
            for part in held {
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

    async fn ask_branch_in(
        &self,
        partition: PartitionId,
        what: BranchRequest,
    ) -> Result<BranchResponse, EngineError> {
        let mut replies = self.ask_branch(vec![(partition, what)]).await;
        replies.pop().unwrap_or(Err(EngineError::Closed))
    }

    async fn ask_branch(
        &self,
        asks: Vec<(PartitionId, BranchRequest)>,
    ) -> Vec<Result<BranchResponse, EngineError>> {
        let request = |(partition, what)| Request::branch(what, partition, &self.secret);
        let responses = self.submit_prehashed(asks.into_iter().map(request).collect()).await;
        let reply = |response| match response {
            Response::Branch(reply) => reply,
            Response::Applied(Err(refusal)) => Err(refusal),
            other => unreachable!("a branch is not answered with {other:?}"),
        };
        responses.into_iter().map(reply).collect()
    }
}

fn as_asked(reply: BranchResponse, wanted: BranchOutcome) -> FinishResult {
    match reply {
        BranchResponse::Settled { ending, fresh, counted } if ending == wanted => {
            FinishResult::Done { fresh, counted }
        }
        BranchResponse::Settled { .. } => FinishResult::Otherwise,
        BranchResponse::Unknown => FinishResult::Unknown,
        other => unreachable!("the end of a branch is not answered with {other:?}"),
    }
}

/// Why a branch is not held.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PrepareError {
    /// There cannot be such a branch.
    #[error(transparent)]
    Branch(#[from] BranchError),
    /// It was not taken.
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

    /// A store, a branch with parts in two partitions beside its home, and the steps in which it is held.
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
            let mut steps = vec![(home, BranchRequest::Hold(at_home))];
            for one in &additions {
                let part = Branch::new(name.clone(), vec![one.clone()], Vec::new()).unwrap();
                steps.push((one.cell.partition(), BranchRequest::Hold(part)));
            }
            Self { engine, name, steps, additions, _folder: folder }
        }

        /// Takes one step of those in which it is held.
        fn step(&self, at: usize) -> Result<BranchResponse, EngineError> {
            let (partition, what) = self.steps[at].clone();
            block_on(self.engine.ask_branch_in(partition, what))
        }

        fn values(&self) -> Vec<i64> {
            let read = |one: &Addition| block_on(self.engine.get(one.cell.clone())).unwrap();
            self.additions
                .iter()
                .map(|one| read(one).and_then(|value| Value::counter(&value)).unwrap_or(0))
                .collect()
        }
    }

    /// Whoever votes may be anywhere on its way when the branch is aborted.
    #[test]
    fn what_is_on_its_way_is_not_held_after_the_abort() {
        for arrived in 0..=3 {
            let scenario = Scenario::new();
            for at in 0..arrived {
                assert_eq!(scenario.step(at), Ok(BranchResponse::Held { fresh: true }));
            }
            let settled =
                block_on(scenario.engine.finish_branch(&scenario.name, BranchOutcome::Abort)).unwrap();
            assert_eq!(settled, FinishResult::Done { fresh: true, counted: Vec::new() });
            // Without its home it does not come to the rest.
            let late = if arrived == 0 { 0..1 } else { arrived..3 };
            for at in late {
                let refused = BranchResponse::Settled {
                    ending: BranchOutcome::Abort,
                    fresh: false,
                    counted: Vec::new(),
                };
                assert_eq!(scenario.step(at), Ok(refused), "{arrived} of 3 had come, then {at}");
            }
            assert_eq!(block_on(scenario.engine.prepared_branches()), Ok(Vec::new()));
            assert_eq!(scenario.values(), [0, 0]);
        }
    }

    #[test]
    fn nothing_is_committed_unless_all_of_it_is_held() {
        for arrived in 0..3 {
            let scenario = Scenario::new();
            for at in 0..arrived {
                assert_eq!(scenario.step(at), Ok(BranchResponse::Held { fresh: true }));
            }
            assert_eq!(
                block_on(scenario.engine.finish_branch(&scenario.name, BranchOutcome::Commit)),
                Ok(FinishResult::Unknown)
            );
            assert_eq!(scenario.values(), [0, 0], "{arrived} of 3 had come");
            // Nothing is lost by that: the vote goes on, and is a yes.
            let vote = block_on(scenario.engine.prepare_branch(&scenario.name, scenario.additions.clone()));
            assert_eq!(vote, Ok(PrepareResult::Held { fresh: true }));
            let settled =
                block_on(scenario.engine.finish_branch(&scenario.name, BranchOutcome::Commit)).unwrap();
            assert!(
                matches!(settled, FinishResult::Done { fresh: true, ref counted } if counted.len() == 2),
                "{settled:?}"
            );
            assert_eq!(scenario.values(), [5, 5]);
        }
    }

    /// Whoever commits may have died on its way.
    #[test]
    fn a_commit_that_was_begun_is_finished() {
        let scenario = Scenario::new();
        block_on(scenario.engine.prepare_branch(&scenario.name, scenario.additions.clone())).unwrap();
        let ask = BranchRequest::Settle {
            name: scenario.name.clone(),
            ending: BranchOutcome::Commit,
            rest_settled: true,
        };
        block_on(scenario.engine.ask_branch_in(scenario.steps[1].0, ask)).unwrap();
        assert_eq!(scenario.values(), [5, 0]);
        assert_eq!(block_on(scenario.engine.prepared_branches()).unwrap().len(), 1);
        block_on(scenario.engine.finish_branch(&scenario.name, BranchOutcome::Commit)).unwrap();
        assert_eq!(scenario.values(), [5, 5]);
        assert_eq!(block_on(scenario.engine.prepared_branches()), Ok(Vec::new()));
    }

    #[test]
    fn another_branch_of_the_name_is_refused() {
        let scenario = Scenario::new();
        block_on(scenario.engine.prepare_branch(&scenario.name, scenario.additions.clone())).unwrap();
        let fewer = scenario.additions[..1].to_vec();
        let refused = block_on(scenario.engine.prepare_branch(&scenario.name, fewer));
        assert_eq!(refused, Err(PrepareError::Refused(Rejection::Mismatch.into())));
    }
}
