//! The end of a run: without further faults, every client retries until it has a response; then all counters
//! are checked.

use crate::client;
use crate::model::op::Op;
use crate::rng::Rng;
use crate::simulation::Simulation;
use crate::violation::{Checked, violated};

/// Rounds of retries before a missing response is a violation.
const ROUNDS_MAX: usize = 200;

impl Simulation {
    pub fn finish(&mut self, rng: &mut Rng) -> Checked {
        self.at_step(u64::MAX);
        self.note("the faults end".into());
        self.clear_faults();
        if self.process.is_none() || !self.is_alive() {
            self.crash(rng)?;
            self.clear_faults();
        }
        self.answer_all(rng)?;
        self.store_all(rng)?;
        self.account(rng)?;
        if self.has_ended() {
            return Ok(());
        }
        self.profile.fault_level = 0;
        self.restart(rng)?;
        self.ask_again(rng)?;
        self.account(rng)
    }

    /// Removes all faults, planned ones included.
    fn clear_faults(&mut self) {
        self.clear_limits();
        self.disk.die_at(u64::MAX / 2);
    }

    fn run_due_work(&mut self, rng: &mut Rng) -> Checked {
        for _ in 0..4 {
            if let Some(process) = &mut self.process {
                process.log.flush();
                process.log.segment_step();
                process.store_step();
            }
            self.settle(rng, true)?;
        }
        self.clock.pass(1);
        Ok(())
    }

    fn answer_all(&mut self, rng: &mut Rng) -> Checked {
        let open = |op: &Op| !op.answered && op.id().is_some();
        for _ in 0..ROUNDS_MAX {
            if self.has_ended() {
                return Ok(());
            }
            self.create_tables();
            for branch in 0..self.model.branches.len() {
                if !self.model.branches[branch].ended {
                    self.end_branch(branch, rng);
                }
            }
            for op in 0..self.model.ops.len() {
                if open(&self.model.ops[op]) && self.model.ops[op].in_flight[0] == 0 {
                    self.attempt(op, 0, rng);
                }
            }
            self.run_due_work(rng)?;
            // From outside, a lost branch shows in the counters.
            let all_ended = self.outside || self.model.branches.iter().all(|branch| branch.ended);
            if self.calls.is_empty() && all_ended && !self.model.ops.iter().any(open) {
                return Ok(());
            }
        }
        // A damaged store may reject requests permanently.
        if self.damaged {
            return Ok(());
        }
        let waiting = self.model.ops.iter().position(open);
        violated!(
            "answering",
            "no response for operation {waiting:?} or branch {:?} after all retries",
            self.model.branches.iter().position(|branch| !branch.ended)
        )
    }

    fn store_all(&mut self, rng: &mut Rng) -> Checked {
        let filters = rng.one_in(2);
        for round in 0..12 {
            if let Some(process) = &mut self.process {
                if round == 0 {
                    process.health.demand_checkpoint();
                }
                if filters && round < 6 {
                    process.filters_step();
                }
            }
            self.run_due_work(rng)?;
        }
        Ok(())
    }

    /// Reads and checks every cell.
    fn account(&mut self, rng: &mut Rng) -> Checked {
        for table in 1..=self.model.tables.len() as u32 {
            for cell in client::cells(&self.model.secret, table) {
                self.read(0, cell);
                self.settle(rng, true)?;
            }
        }
        for _ in 0..6 {
            self.run_due_work(rng)?;
        }
        if !self.calls.is_empty() && !self.damaged && !self.has_ended() {
            return violated!("answering", "no response to a read");
        }
        Ok(())
    }

    /// Retries answered operations.
    fn ask_again(&mut self, rng: &mut Rng) -> Checked {
        if self.model.ops.is_empty() {
            return Ok(());
        }
        for _ in 0..30 {
            let op = rng.index(self.model.ops.len());
            if self.model.ops[op].id().is_some() {
                self.attempt(op, 0, rng);
            }
            self.run_due_work(rng)?;
        }
        Ok(())
    }
}
