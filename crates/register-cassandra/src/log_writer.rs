//! Writes and trims of one log, by conditional batches, one after the other.

use bytes::Bytes;
use jeton_register::{Error, LogId, Slot, WriteResult};
use scylla::value::CqlValue;

use crate::cluster::{Cluster, Place, Rows, Value, big, blob, log_key};
use crate::control::{Control, Plan, Step, plan};
use crate::failure::Failure;
use crate::retirement::Retirement;

/// The most of one conditional batch. Paxos writes it three times.
pub const GROUP_WRITES_MAX: usize = 512;
pub const GROUP_BYTES_MAX: usize = 1 << 20;

/// The most registers that one statement looks up.
const LOOK_UP_MAX: usize = 16;

/// How often a group is planned anew because other clients change the same log.
const ROUNDS_MAX: usize = 64;

/// A write to a register of the log.
pub type Write = (Slot, Bytes);

/// The writer of a log, with the control row that it knows.
pub struct LogWriter<'a> {
    pub cluster: &'a Cluster,
    pub retirement: &'a Retirement,
    pub log: LogId,
    /// What the last result contained. It may be out of date: then the next condition does not hold.
    pub control: Option<Control>,
}

/// A control row, and whether a result of this call contained it.
#[derive(Clone, Copy)]
struct Known {
    control: Control,
    is_fresh: bool,
}

impl LogWriter<'_> {
    /// Writes a group of at most [`GROUP_WRITES_MAX`] registers.
    pub async fn write(&mut self, writes: &[Write]) -> Result<Vec<WriteResult>, Error> {
        if self.log.kind.is_dated() && self.retirement.is_known(self.log) {
            return Ok(vec![WriteResult::Trimmed; writes.len()]);
        }
        let known = self.control.take();
        let mut is_inserted = false;
        let results = self.write_all(writes, known.unwrap_or_default(), &mut is_inserted).await?;
        if self.log.kind.is_dated() {
            let retired = self.retirement.includes(self.cluster, self.log).await;
            // What was inserted may be below a mark.
            let unknown = |failure: Failure| match failure.unavailable() {
                Error::Unavailable(text) if is_inserted => Error::Unknown(text),
                other => other,
            };
            if retired.map_err(unknown)? {
                if is_inserted {
                    self.retirement.delete_log(self.cluster, self.log).await?;
                }
                return Ok(vec![WriteResult::Trimmed; writes.len()]);
            }
        }
        Ok(results)
    }

    async fn write_all(
        &mut self,
        writes: &[Write],
        guess: Control,
        is_inserted: &mut bool,
    ) -> Result<Vec<WriteResult>, Error> {
        let mut known = Known { control: guess, is_fresh: false };
        let mut results: Vec<Option<WriteResult>> = vec![None; writes.len()];
        let mut empty: Vec<Slot> = Vec::new();
        let mut is_listed = !self.log.kind.is_dated();
        for _ in 0..ROUNDS_MAX {
            let slots = writes.iter().map(|(slot, _)| *slot);
            let Plan { steps, after } = plan(self.log, known.control, slots, &empty);
            for place in pending(Step::Trimmed, &steps, &results) {
                results[place] = Some(WriteResult::Trimmed);
            }
            let lookups = pending(Step::LookUp, &steps, &results);
            if !lookups.is_empty() {
                let missing = self.look_up(writes, &lookups, &mut results).await?;
                if !missing.is_empty() {
                    if self.log.kind.is_dense() {
                        known = self.check_missing(missing[0]).await?;
                    } else {
                        empty.extend(missing);
                    }
                    continue;
                }
            }
            if !known.is_fresh && !pending(Step::Gap, &steps, &results).is_empty() {
                known = self.read_control().await?;
                continue;
            }
            let inserts = pending(Step::Insert, &steps, &results);
            if inserts.is_empty() {
                self.control = Some(known.control);
                return Ok(finish(&steps, results));
            }
            if known.control.version == 0 && !is_listed {
                self.retirement.list(self.cluster, self.log).await?;
                is_listed = true;
            }
            let statements = &self.cluster.statements;
            let [space, id] = log_key(self.log);
            let insert = |place: usize| {
                let (slot, value) = &writes[place];
                (&statements.insert, vec![space.clone(), id.clone(), big(slot.0), blob(value)])
            };
            let changes = inserts.iter().map(|&place| insert(place)).collect();
            match self.change(known.control, after, changes).await? {
                None => {
                    *is_inserted = true;
                    for place in inserts {
                        results[place] = Some(WriteResult::Fresh);
                    }
                    self.control = Some(after);
                    return Ok(finish_after(&steps, results, writes));
                }
                // Registers that were empty may be taken by now.
                Some(control) => {
                    empty.clear();
                    known = Known { control, is_fresh: true };
                }
            }
        }
        Err(Error::Busy(format!("other clients change {} all the time", self.log)))
    }

    /// Changes the control row, and with it other rows, if it is the one that is known. Returns the present
    /// one otherwise.
    async fn change(
        &self,
        before: Control,
        after: Control,
        changes: Vec<(&scylla::statement::prepared::PreparedStatement, Vec<Value>)>,
    ) -> Result<Option<Control>, Failure> {
        let [space, id] = log_key(self.log);
        // Without a row, its columns are null.
        let expected = |number: u64| if before.version == 0 { None } else { big(number) };
        let control = vec![
            big(after.version),
            big(after.last.0),
            big(after.trimmed.0),
            space,
            id,
            expected(before.version),
            expected(before.last.0),
            expected(before.trimmed.0),
        ];
        let mut statements = vec![(&self.cluster.statements.control_update, control)];
        statements.extend(changes);
        let rows = self.cluster.batch(self.log, statements).await?;
        Ok(if rows.applied()? { None } else { Some(control_of(&rows)) })
    }

    /// Sets the results of registers that have a value, and returns the others.
    async fn look_up(
        &self,
        writes: &[Write],
        places: &[usize],
        results: &mut [Option<WriteResult>],
    ) -> Result<Vec<Slot>, Error> {
        let mut missing = Vec::new();
        for part in places.chunks(LOOK_UP_MAX) {
            let slots = part.iter().map(|&place| CqlValue::BigInt(writes[place].0.0 as i64)).collect();
            let [space, id] = log_key(self.log);
            let values = vec![space, id, Some(CqlValue::List(slots))];
            let statement = &self.cluster.statements.values;
            let rows = self.cluster.execute_idempotent(Place::Log(self.log), statement, values).await;
            let mut found = register_rows(rows.map_err(Failure::unavailable)?);
            for &place in part {
                let slot = writes[place].0;
                match found.iter_mut().find(|(known, _)| *known == slot) {
                    Some((_, value)) => results[place] = Some(WriteResult::Taken(value.clone())),
                    None => missing.push(slot),
                }
            }
        }
        Ok(missing)
    }

    async fn read_control(&self) -> Result<Known, Error> {
        let control = read_control(self.cluster, self.log).await.map_err(Failure::unavailable)?;
        Ok(Known { control, is_fresh: true })
    }

    /// A register of a dense log that was written has no value: it was trimmed meanwhile, or it is lost.
    async fn check_missing(&self, slot: Slot) -> Result<Known, Error> {
        let known = self.read_control().await?;
        if slot > known.control.trimmed {
            return Err(lost(self.log, slot));
        }
        Ok(known)
    }

    /// Trims the log.
    pub async fn trim(&mut self, through: Slot) -> Result<(), Error> {
        let through = through.min(Slot::MAX);
        if through == Slot::ZERO || self.log.kind.is_dated() && self.retirement.is_known(self.log) {
            return Ok(());
        }
        let mut control = self.control.take().unwrap_or_default();
        for _ in 0..ROUNDS_MAX {
            if through <= control.trimmed {
                self.control = Some(control);
                return Ok(());
            }
            if control.version == 0 && self.log.kind.is_dated() {
                self.retirement.list(self.cluster, self.log).await?;
            }
            let [space, id] = log_key(self.log);
            let delete = (&self.cluster.statements.delete_trimmed, vec![space, id, big(through.0)]);
            let after = control.trimmed_to(through);
            match self.change(control, after, vec![delete]).await? {
                None => {
                    self.control = Some(after);
                    return Ok(());
                }
                Some(present) => control = present,
            }
        }
        Err(Error::Busy(format!("other clients change {} all the time", self.log)))
    }
}

/// A register that was written and not trimmed has no value.
pub fn lost(log: LogId, slot: Slot) -> Error {
    Error::Damaged(format!("{log} slot {slot} was written, but Cassandra has no value of it"))
}

/// The control row, after all that is in flight is completed or excluded.
pub async fn read_control(cluster: &Cluster, log: LogId) -> Result<Control, Failure> {
    let values = log_key(log).to_vec();
    let rows = cluster.execute_idempotent(Place::Log(log), &cluster.statements.control, values).await?;
    Ok(control_of(&rows))
}

fn control_of(rows: &Rows) -> Control {
    Control {
        version: rows.number(0, "version"),
        last: Slot(rows.number(0, "last")),
        trimmed: Slot(rows.number(0, "trimmed")),
    }
}

/// Registers with their values.
pub fn register_rows(mut rows: Rows) -> Vec<Write> {
    (0..rows.len())
        .map(|row| {
            let slot = Slot(rows.number(row, "slot"));
            (slot, rows.take_blob(row, "value").unwrap_or_default().into())
        })
        .collect()
}

/// The positions of the writes with this step that have no result yet.
fn pending(step: Step, steps: &[Step], results: &[Option<WriteResult>]) -> Vec<usize> {
    (0..steps.len()).filter(|&place| steps[place] == step && results[place].is_none()).collect()
}

/// The results without an insert.
fn finish(steps: &[Step], mut results: Vec<Option<WriteResult>>) -> Vec<WriteResult> {
    for place in 0..steps.len() {
        if let (Step::SameAs(first), None) = (steps[place], &results[place]) {
            results[place] = results[first].clone();
        }
    }
    results.into_iter().map(|result| result.unwrap_or(WriteResult::Gap)).collect()
}

/// The results after the inserts took effect.
fn finish_after(steps: &[Step], mut results: Vec<Option<WriteResult>>, writes: &[Write]) -> Vec<WriteResult> {
    for place in 0..steps.len() {
        if let Step::SameAs(first) = steps[place]
            && results[first] == Some(WriteResult::Fresh)
        {
            results[place] = Some(WriteResult::Taken(writes[first].1.clone()));
        }
    }
    finish(steps, results)
}
