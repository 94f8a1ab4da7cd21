//! The end of a run: nothing breaks any more, every client asks until it is answered, and then all accounts must agree.

use crate::client;
use crate::model::op::Op;
use crate::rng::Rng;
use crate::simulation::Simulation;
use crate::violation::{Checked, Violation};

/// How often clients ask before it is called a failure to answer.
const ROUNDS_MAX: usize = 200;

impl Simulation {
    /// Brings a run to its end.
    pub fn finish(&mut self, rng: &mut Rng) -> Checked {
        self.at_step(u64::MAX);
        self.note("nothing breaks any more".into());
        self.calm();
        if self.life.is_none() || !self.is_alive() {
            self.crash(rng)?;
            self.calm();
        }
        self.answer_all(rng)?;
        self.store_all(rng)?;
        self.account(rng)?;
        if self.has_ended() {
            return Ok(());
        }
        self.profile.rough = 0;
        self.restart(rng)?;
        self.ask_again(rng)?;
        self.account(rng)
    }

    /// Takes all faults away, those to come too.
    fn calm(&mut self) {
        self.relieve();
        self.disk.die_at(u64::MAX / 2);
    }

    /// One round of all work that is due.
    fn work_off(&mut self, rng: &mut Rng) -> Checked {
        for _ in 0..4 {
            if let Some(life) = &mut self.life {
                life.log.flush();
                life.log.segment_step();
                life.keep_step();
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
            self.make_tables();
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
            self.work_off(rng)?;
            // From outside, a promise that is forgotten is seen by what is counted.
            let all_ended = self.outside || self.model.branches.iter().all(|branch| branch.ended);
            if self.calls.is_empty() && all_ended && !self.model.ops.iter().any(open) {
                return Ok(());
            }
        }
        // A damaged store may be refused permanently.
        if self.damaged {
            return Ok(());
        }
        let waiting = self.model.ops.iter().position(open);
        Err(Violation::new(
            "answering",
            format!(
                "operation {waiting:?} is not answered, or branch {:?} not settled, however often it is asked for",
                self.model.branches.iter().position(|branch| !branch.ended)
            ),
        ))
    }

    /// Stores what waits to be stored.
    fn store_all(&mut self, rng: &mut Rng) -> Checked {
        let filters = rng.one_in(2);
        for round in 0..12 {
            if let Some(life) = &mut self.life {
                if round == 0 {
                    life.health.demand_checkpoint();
                }
                if filters && round < 6 {
                    life.filters_step();
                }
            }
            self.work_off(rng)?;
        }
        Ok(())
    }

    /// Every cell is read, and holds what it must.
    fn account(&mut self, rng: &mut Rng) -> Checked {
        for table in 1..=self.model.tables.len() as u32 {
            for cell in client::cells(&self.model.secret, table) {
                self.read(0, cell);
                self.settle(rng, true)?;
            }
        }
        for _ in 0..6 {
            self.work_off(rng)?;
        }
        if !self.calls.is_empty() && !self.damaged && !self.has_ended() {
            return Err(Violation::new("answering", "a read is not answered"));
        }
        Ok(())
    }

    /// Clients ask once more for what they know.
    fn ask_again(&mut self, rng: &mut Rng) -> Checked {
        if self.model.ops.is_empty() {
            return Ok(());
        }
        for _ in 0..30 {
            let op = rng.index(self.model.ops.len());
            if self.model.ops[op].id().is_some() {
                self.attempt(op, 0, rng);
            }
            self.work_off(rng)?;
        }
        Ok(())
    }
}
