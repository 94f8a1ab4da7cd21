//! The workload of transaction coordinators: each step prepares, decides or finishes a branch, with retries
//! and out of order.

use jeton_core::{Addition, Branch, BranchName, BranchOutcome};
use jeton_engine::{BranchRequest, BranchResponse, EngineError};

use crate::checkers::branches;
use crate::client;
use crate::model::branch::BranchModel;
use crate::rng::Rng;
use crate::simulation::{Call, CallKind, Simulation};
use crate::violation::Checked;

/// Maximum number of prepared branches. More would leave no counters for the other clients.
const OPEN_MAX: usize = 5;

impl Simulation {
    /// Prepares a new branch, repeats a request, or finishes a branch.
    pub(crate) fn step_branches(&mut self, rng: &mut Rng) {
        let open = self.model.branches.iter().filter(|one| !one.ended).count();
        let choice = rng.below(6);
        if choice < 2 && open < OPEN_MAX {
            self.new_branch(rng);
        } else if !self.model.branches.is_empty() {
            let all = self.model.branches.len();
            // Usually a recent one; sometimes any, because requests about finished branches are repeated too.
            let from = if rng.one_in(4) { 0 } else { all.saturating_sub(OPEN_MAX) };
            let branch = rng.within(from as u64, all as u64 - 1) as usize;
            if choice == 5 {
                self.request_branch(branch, None, rng);
            } else {
                self.end_branch(branch, rng);
            }
        }
    }

    fn new_branch(&mut self, rng: &mut Rng) {
        let created: Vec<u32> =
            (1..=self.model.tables.len() as u32).filter(|table| self.model.table(*table).created).collect();
        if created.is_empty() {
            return;
        }
        let cells = client::cells(&self.model.secret, *rng.pick(&created));
        let first = rng.pick(&cells).clone();
        let of_row: Vec<_> = cells.into_iter().filter(|cell| cell.partition() == first.partition()).collect();
        let mut additions = Vec::new();
        for _ in 0..rng.within(1, 3) {
            let cell = rng.pick(&of_row).clone();
            additions.push(if client::is_add_only(&cell) {
                Addition { cell, delta: rng.below(100) as i64, min: None, max: None }
            } else {
                let min = (!rng.one_in(3)).then(|| rng.below(20) as i64 - 15);
                let max = (!rng.one_in(3)).then(|| 10 + rng.below(60) as i64);
                Addition { cell, delta: rng.below(60) as i64 - 30, min, max }
            });
        }
        let number = self.model.branches.len();
        let name = BranchName::new(format!("b{number}").as_bytes()).expect("a short name");
        let branch = Branch::new(name, additions, Vec::new()).expect("the branch is within all limits");
        self.note(format!("new branch {number}: {branch:?}"));
        self.model.branches.push(BranchModel::new(branch, first.partition()));
        self.stats.count("branch");
        if rng.one_in(8) {
            self.note(format!("the prepare of branch {number} is lost or late"));
        } else {
            self.request_branch(number, None, rng);
        }
    }

    /// Decides commit or abort, unless decided before, and requests it.
    pub(crate) fn end_branch(&mut self, branch: usize, rng: &mut Rng) {
        let one = &mut self.model.branches[branch];
        let commit = one.voted && !rng.one_in(3);
        let ending =
            *one.decided.get_or_insert(if commit { BranchOutcome::Commit } else { BranchOutcome::Abort });
        self.request_branch(branch, Some(ending), rng);
    }

    fn request_branch(&mut self, branch: usize, ending: Option<BranchOutcome>, rng: &mut Rng) {
        let one = &self.model.branches[branch];
        let what = match ending {
            None => BranchRequest::Prepare(one.branch.clone()),
            Some(ending) => BranchRequest::Finish {
                name: one.branch.name().clone(),
                outcome: ending,
                others_finished: false,
            },
        };
        let partition = one.partition;
        let Some(answer) = self.process.as_ref().and_then(|process| process.branch(what, partition)) else {
            return;
        };
        self.note(format!(
            "request for branch {branch}: {}",
            ending.map_or("prepare".into(), |how| format!("{how:?}"))
        ));
        if rng.one_in(12) {
            self.note(format!("the response about branch {branch} will be lost"));
        } else {
            self.calls.push(Call { what: CallKind::Branch { branch, ending }, answer });
        }
    }

    pub(crate) fn branch_answered(
        &mut self,
        branch: usize,
        ending: Option<BranchOutcome>,
        reply: &Result<BranchResponse, EngineError>,
    ) -> Checked {
        self.note(format!("   branch {branch} answered: {reply:?}"));
        self.judge(branches::answered(&self.model, branch, ending, reply))?;
        let one = &mut self.model.branches[branch];
        match reply {
            Ok(BranchResponse::Prepared { .. }) => {
                one.voted = true;
                self.stats.count("branch prepared");
            }
            Ok(BranchResponse::Finished { outcome: ending, fresh, .. }) => {
                one.ended = true;
                self.stats.count(match (ending, fresh) {
                    (BranchOutcome::Commit, true) => "branch committed",
                    (BranchOutcome::Abort, true) => "branch aborted",
                    (_, false) => "branch finished before",
                });
            }
            Ok(_) => {}
            Err(EngineError::Rejected(_)) => self.stats.count("branch rejected"),
            Err(_) => {}
        }
        Ok(())
    }
}
