//! The end of a process and the start of the next: durable data must be there, and a start fails only for a
//! cause.

use jeton_core::PartitionId;
use jeton_wal::disk::Disk;

use crate::checkers::reads;
use crate::client;
use crate::process::SimProcess;
use crate::rng::Rng;
use crate::simulation::Simulation;
use crate::violation::{Checked, violated};

const STARTS_MAX: usize = 12;

impl Simulation {
    /// The process ends with all requests in flight, and the machine restarts.
    pub(crate) fn crash(&mut self, rng: &mut Rng) -> Checked {
        self.stats.count("crash");
        self.power_off(rng);
        self.recover(rng)
    }

    /// Unsynced writes are lost, kept or torn.
    fn power_off(&mut self, rng: &mut Rng) {
        for call in std::mem::take(&mut self.calls) {
            self.abandon(&call.what);
        }
        // The disk first: a crashed process does not clean up.
        self.disk = self.disk.crash(&mut || rng.draw());
        self.process = None;
        self.values.move_to(self.disk.clone());
        self.clear_limits();
    }

    /// Shuts the process down and starts the next.
    pub(crate) fn restart(&mut self, rng: &mut Rng) -> Checked {
        let Some(process) = self.process.take() else { return Ok(()) };
        self.stats.count("restart");
        self.note("the process shuts down".into());
        let log = process.log.clone();
        let closed = process.close();
        let tap = log.tap();
        drop(log);
        let absorbed = self.model.absorb(tap, &self.clock);
        self.judge(absorbed)?;
        // Responses sent during the shutdown arrive; other outcomes are unknown.
        for mut call in std::mem::take(&mut self.calls) {
            match call.answer.try_recv() {
                Ok(response) => self.receive(call.what, response)?,
                Err(_) => self.abandon(&call.what),
            }
        }
        if !closed || self.disk.list("log").is_err() {
            self.note("the shutdown failed".into());
            return self.crash(rng);
        }
        self.recover(rng)
    }

    /// Starts processes until one runs.
    pub(crate) fn recover(&mut self, rng: &mut Rng) -> Checked {
        for start in 0..STARTS_MAX {
            if self.profile.fault_level > 0 && start < 3 && rng.one_in(4) {
                let nth = rng.within(1, 12);
                self.note(format!("the power fails in {nth} disk operations"));
                self.disk.die_at(nth);
            }
            let mut options = self.profile.options.clone();
            if rng.one_in(3) {
                options.shards = rng.within(1, 3) as usize;
            }
            self.clock.pass(*rng.pick(&[1, 50, 2_000]));
            self.model.starts += 1;
            self.model.bound.begin(&self.clock);
            let secret = *self.model.secret.as_bytes();
            match SimProcess::open(&self.disk, &self.values, &self.clock, &options, secret) {
                Ok(process) => {
                    self.process = Some(process);
                    self.note(format!("the process runs with {} shards", options.shards));
                    return self.compare(rng);
                }
                Err(why) => {
                    self.note(format!("the process does not start: {why}"));
                    if self.disk.list("log").is_err() {
                        self.power_off(rng);
                    } else if self.damaged || self.rolled_back {
                        self.stats.count("start rejected");
                        self.ended = Some(why);
                        return Ok(());
                    } else if self.limited {
                        self.clear_limits();
                    } else {
                        return violated!("opening", "rejected without a cause: {why}");
                    }
                }
            }
        }
        violated!("opening", "{STARTS_MAX} starts failed")
    }

    /// Compares the recovered state with the model.
    fn compare(&mut self, rng: &mut Rng) -> Checked {
        let compared = self.compare_log();
        self.judge(compared)?;
        for (cell, seen) in &self.seen {
            self.judge(reads::check_kept(&self.model, cell, *seen))?;
        }
        self.compare_tables()?;
        self.create_tables();
        if rng.one_in(3) {
            self.read_all();
        }
        Ok(())
    }

    fn compare_log(&mut self) -> Checked {
        let Some(process) = &self.process else { return Ok(()) };
        let logs = match process.log.durable() {
            Ok(found) => found,
            Err(_) if self.damaged => return Ok(()),
            Err(error) => return violated!("opening", "the log cannot be read: {error}"),
        };
        let latest = self.model.latest_acknowledged();
        for (partition, (extent, entries)) in PartitionId::all().zip(logs) {
            self.model.cut(partition.0, extent.last.0, latest)?;
            let written = self.model.history.partition(partition.0).map(|partition| &partition.entries[..]);
            let mut expected = extent.trimmed;
            for (slot, bytes) in entries {
                expected = expected.next();
                let entry = written.unwrap_or_default().get(slot.0 as usize - 1);
                if slot != expected || entry.is_none_or(|entry| *entry != bytes) {
                    return violated!(
                        "history",
                        "slot {slot} of partition {} differs from the appended entry",
                        partition.0
                    );
                }
            }
        }
        Ok(())
    }

    fn compare_tables(&mut self) -> Checked {
        let Some(process) = &self.process else { return Ok(()) };
        let catalog = process.tables.catalog().load_full();
        for table in &mut self.model.tables {
            let wrong = |what: &str| violated!("opening", "table {} {what}", table.name);
            match catalog.find(&table.name) {
                None if table.created => return wrong("is missing"),
                None => {}
                Some(found) => {
                    let settings = found.settings().clone();
                    if settings != table.settings && Some(&settings) != table.pending.as_ref() {
                        return wrong("has unexpected settings");
                    }
                    (table.settings, table.pending, table.created) = (settings, None, true);
                }
            }
        }
        Ok(())
    }

    pub(crate) fn create_tables(&mut self) {
        let Some(process) = &mut self.process else { return };
        let mut lines = Vec::new();
        for table in self.model.tables.iter_mut().filter(|table| !table.created) {
            match process.set_table(&table.name, table.settings.clone()) {
                Ok(()) => table.created = true,
                Err(trouble) => {
                    lines.push(format!("table {} cannot be created: {trouble:?}", table.name));
                    // The order of creation determines their numbers.
                    break;
                }
            }
        }
        lines.into_iter().for_each(|line| self.note(line));
    }

    pub(crate) fn read_all(&mut self) {
        for table in 1..=self.model.tables.len() as u32 {
            for cell in client::cells(&self.model.secret, table) {
                self.read(0, cell);
            }
        }
    }
}
