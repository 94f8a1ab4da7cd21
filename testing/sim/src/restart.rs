//! The end of a process, and the start of the next: what is found must be what was durable, and nothing must be refused without
//! a cause.

use jeton_core::PartitionId;
use jeton_wal::disk::Disk;

use crate::checkers::reads;
use crate::client;
use crate::process::SimProcess;
use crate::rng::Rng;
use crate::simulation::Simulation;
use crate::violation::{Checked, Violation};

/// How often a start is tried.
const STARTS_MAX: usize = 12;

impl Simulation {
    /// The process ends with all requests in flight, and the machine restarts.
    pub(crate) fn crash(&mut self, rng: &mut Rng) -> Checked {
        self.stats.count("crash");
        self.power_off(rng);
        self.recover(rng)
    }

    /// What was not synced is lost, or kept, or half of it.
    fn power_off(&mut self, rng: &mut Rng) {
        for call in std::mem::take(&mut self.calls) {
            self.forsake(&call.what);
        }
        // First the power, then the memory: a dying process does not tidy up.
        self.disk = self.disk.crash(&mut || rng.draw());
        self.life = None;
        self.values.move_to(self.disk.clone());
        self.relieve();
    }

    /// The process is ended in good order, and started again.
    pub(crate) fn restart(&mut self, rng: &mut Rng) -> Checked {
        let Some(life) = self.life.take() else { return Ok(()) };
        self.stats.count("restart");
        self.note("the process is ended in good order".into());
        let log = life.log.clone();
        let closed = life.close();
        let tap = log.tap();
        drop(log);
        let absorbed = self.model.absorb(tap, &self.clock);
        self.judge(absorbed)?;
        // What was answered on the way out is heard; the rest is not known.
        for mut call in std::mem::take(&mut self.calls) {
            match call.answer.try_recv() {
                Ok(response) => self.heard(call.what, response)?,
                Err(_) => self.forsake(&call.what),
            }
        }
        if !closed || self.disk.list("log").is_err() {
            self.note("it did not come to its end".into());
            return self.crash(rng);
        }
        self.recover(rng)
    }

    /// Starts the machine, until it runs.
    pub(crate) fn recover(&mut self, rng: &mut Rng) -> Checked {
        for start in 0..STARTS_MAX {
            if self.profile.rough > 0 && start < 3 && rng.one_in(4) {
                let nth = rng.within(1, 12);
                self.note(format!("the power fails during operation {nth} of the disk from now"));
                self.disk.die_at(nth);
            }
            let mut options = self.profile.options.clone();
            if rng.one_in(3) {
                options.shards = rng.within(1, 3) as usize;
            }
            self.clock.pass(*rng.pick(&[1, 50, 2_000]));
            self.model.life += 1;
            self.model.bound.begin(&self.clock);
            let secret = *self.model.secret.as_bytes();
            match SimProcess::open(&self.disk, &self.values, &self.clock, &options, secret) {
                Ok(life) => {
                    self.life = Some(life);
                    self.note(format!("the machine runs, with {} shards", options.shards));
                    return self.compare(rng);
                }
                Err(why) => {
                    self.note(format!("the machine does not start: {why}"));
                    if self.disk.list("log").is_err() {
                        self.power_off(rng);
                    } else if self.damaged || self.rolled_back {
                        self.stats.count("refused to open");
                        self.ended = Some(why);
                        return Ok(());
                    } else if self.limited {
                        self.relieve();
                    } else {
                        return Err(Violation::new("opening", format!("refused without a cause: {why}")));
                    }
                }
            }
        }
        Err(Violation::new("opening", format!("{STARTS_MAX} starts were not enough")))
    }

    /// Compares what was found with what must be there, and goes on from it.
    fn compare(&mut self, rng: &mut Rng) -> Checked {
        let compared = self.compare_log();
        self.judge(compared)?;
        for (cell, seen) in &self.seen {
            self.judge(reads::check_kept(&self.model, cell, *seen))?;
        }
        self.compare_tables()?;
        self.make_tables();
        if rng.one_in(3) {
            self.read_all();
        }
        Ok(())
    }

    fn compare_log(&mut self) -> Checked {
        let Some(life) = &self.life else { return Ok(()) };
        let logs = match life.log.durable() {
            Ok(found) => found,
            Err(_) if self.damaged => return Ok(()),
            Err(error) => return Err(Violation::new("opening", format!("the log cannot be read: {error}"))),
        };
        for (partition, (extent, entries)) in PartitionId::all().zip(logs) {
            self.model.cut(partition.0, extent.last.0)?;
            let written = self.model.history.partition(partition.0).map(|partition| &partition.entries[..]);
            let mut expected = extent.trimmed;
            for (slot, bytes) in entries {
                expected = expected.next();
                let entry = written.unwrap_or_default().get(slot.0 as usize - 1);
                if slot != expected || entry.is_none_or(|entry| *entry != bytes) {
                    let what = format!("slot {slot} of partition {} is not what was written", partition.0);
                    return Err(Violation::new("history", what));
                }
            }
        }
        Ok(())
    }

    fn compare_tables(&mut self) -> Checked {
        let Some(life) = &self.life else { return Ok(()) };
        let catalog = life.tables.catalog().load_full();
        for table in &mut self.model.tables {
            let wrong = |what: &str| Err(Violation::new("opening", format!("table {} {what}", table.name)));
            match catalog.find(&table.name) {
                None if table.made => return wrong("is gone"),
                None => {}
                Some(found) => {
                    let settings = found.settings().clone();
                    if settings != table.settings && Some(&settings) != table.unsure.as_ref() {
                        return wrong("has settings that nobody gave it");
                    }
                    (table.settings, table.unsure, table.made) = (settings, None, true);
                }
            }
        }
        Ok(())
    }

    /// Makes the tables that are not there.
    pub(crate) fn make_tables(&mut self) {
        let Some(life) = &mut self.life else { return };
        let mut lines = Vec::new();
        for table in self.model.tables.iter_mut().filter(|table| !table.made) {
            match life.set_table(&table.name, table.settings.clone()) {
                Ok(()) => table.made = true,
                Err(trouble) => {
                    lines.push(format!("table {} cannot be made: {trouble:?}", table.name));
                    // Their numbers follow from the order in which they are made.
                    break;
                }
            }
        }
        lines.into_iter().for_each(|line| self.note(line));
    }

    /// Reads every cell.
    pub(crate) fn read_all(&mut self) {
        for table in 1..=self.model.tables.len() as u32 {
            for cell in client::cells(&self.model.secret, table) {
                self.read(0, cell);
            }
        }
    }
}
