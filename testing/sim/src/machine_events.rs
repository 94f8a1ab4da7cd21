//! Events of the machine: log, stores, disk, clocks.

use std::io::ErrorKind;

use jeton_engine::{AppendError, PartitionLog};
use jeton_wal::disk::Disk;
use jeton_wal::{Batch, Error as LogError, LogId, Slot};

use crate::event::Event;
use crate::process::SetTableError;
use crate::rng::Rng;
use crate::scenario;
use crate::simulation::Simulation;
use crate::violation::{Checked, violated};

impl Simulation {
    pub(crate) fn perform(&mut self, event: Event, rng: &mut Rng) -> Checked {
        if self.process.is_none() {
            return self.recover(rng);
        }
        match event {
            Event::Send => self.send_request(rng),
            Event::Burst => {
                for _ in 0..rng.within(3, 12) {
                    self.send_request(rng);
                }
            }
            Event::Read => self.read_random(rng),
            Event::ClientTimeout => self.time_out(rng)?,
            Event::Flush
            | Event::SegmentTask
            | Event::StoreJob
            | Event::Filters
            | Event::Checkpoint
            | Event::Merge
            | Event::Expire => {
                self.work(event, rng);
            }
            Event::ShortPause => self.pass(rng.within(1, 400)),
            Event::LongPause => {
                let millis = *rng.pick(&[1_000, 5_000, 30_000, 70_000, 200_000, 700_000]);
                self.pass(millis + rng.below(1_000));
            }
            Event::WallStep => {
                let step = *rng.pick(&[-3_600_000, -90_000, -2_000, -200, 200, 2_000, 90_000, 3_600_000]);
                self.note(format!("the wall clock is set by {step} ms"));
                self.clock.step_wall(step);
            }
            Event::Settings => self.change_settings(rng),
            Event::Limit => self.limit(rng),
            Event::ClearLimits => self.clear_limits(),
            Event::FailSoon => {
                let nth = rng.within(1, 12);
                let kind = *rng.pick(&[ErrorKind::StorageFull, ErrorKind::StorageFull, ErrorKind::Other]);
                self.limited = true;
                self.note(format!("disk operation {nth} from now fails: {kind}"));
                self.disk.fail_at(nth, kind);
                self.values.set_keep_torn(rng.one_in(2));
            }
            Event::SyncFails => {
                self.note("syncs fail".into());
                self.limited = true;
                self.disk.set_sync_failing(true);
            }
            Event::PowerFailsSoon => {
                let nth = rng.within(1, 30);
                self.note(format!("the power fails in {nth} disk operations"));
                self.disk.die_at(nth);
                self.values.set_keep_torn(rng.one_in(2));
            }
            Event::Crash => {
                self.note("the power fails".into());
                self.crash(rng)?;
            }
            Event::Restart => self.restart(rng)?,
            Event::BitFlip => self.flip(rng),
            Event::RollBack => {
                self.note("the power fails, and the value store is rolled back".into());
                self.rolled_back |= self.values.roll_back(rng.within(1, 4) as usize);
                self.crash(rng)?;
            }
            Event::StaleAppend => self.stale_append(rng)?,
        }
        Ok(())
    }

    fn pass(&mut self, millis: u64) {
        self.note(format!("{millis} ms pass"));
        self.clock.pass(millis);
    }

    /// Work of the engine's own threads.
    fn work(&mut self, event: Event, rng: &mut Rng) {
        let Some(process) = &mut self.process else { return };
        let note = match event {
            Event::Flush => {
                let all = rng.one_in(4);
                if all {
                    process.log.flush();
                    Some("the log is flushed".to_owned())
                } else {
                    process.log.flush_step().then(|| "one step of flushing the log".to_owned())
                }
            }
            Event::SegmentTask => {
                process.log.segment_step().then(|| "the log runs a segment task".to_owned())
            }
            Event::StoreJob | Event::Filters => {
                let done =
                    if event == Event::StoreJob { process.store_step() } else { process.filters_step() };
                done.map(|done| match done {
                    Ok(what) => format!("stored: {what}"),
                    Err(error) => format!("cannot store: {error}"),
                })
            }
            Event::Checkpoint => {
                process.health.demand_checkpoint();
                Some("a checkpoint is requested".into())
            }
            Event::Merge => match process.merge(rng.within(50, 4_000)) {
                Ok(more) => Some(format!("runs are merged{}", if more { ", with more to do" } else { "" })),
                Err(error) => Some(format!("cannot merge: {error}")),
            },
            Event::Expire => {
                let (eras, generations) = process.expire();
                if eras.as_ref().is_ok_and(|eras| *eras > 0) {
                    self.stats.count("era dropped");
                }
                let note = |error: &dyn std::fmt::Display| format!("cannot be dropped: {error}");
                let eras = eras.map_or_else(|error| note(&error), |eras| eras.to_string());
                let generations =
                    generations.map_or_else(|error| note(&error), |dropped| dropped.to_string());
                Some(format!("dropped: eras {eras}, generations {generations}"))
            }
            _ => None,
        };
        if let Some(note) = note {
            self.note(note);
        }
    }

    fn change_settings(&mut self, rng: &mut Rng) {
        let at = rng.index(self.model.tables.len());
        let table = &mut self.model.tables[at];
        let (Some(process), true) = (&mut self.process, table.created) else { return };
        let next = scenario::changed(&table.settings, rng, self.profile.tight);
        table.admit(&next);
        let note = match process.set_table(&table.name, next.clone()) {
            Ok(()) => {
                table.settings = next.clone();
                table.pending = None;
                format!("table {} is changed", at + 1)
            }
            Err(SetTableError::Settings(error)) => format!("table {} is not changed: {error}", at + 1),
            Err(SetTableError::Storage(error)) => {
                table.pending = Some(next.clone());
                format!("table {} cannot be changed: {error}", at + 1)
            }
        };
        self.note(format!(
            "{note} (dated {:?}, opaque {:?}, skew {:?}, lease {:?}, {:?})",
            next.dated_window, next.opaque_window, next.skew, next.session_lease, next.mode
        ));
    }

    fn limit(&mut self, rng: &mut Rng) {
        self.limited = true;
        let what = rng.below(4);
        match what {
            0 => self.disk.set_free_space(Some(rng.below(40_000))),
            1 => self.disk.set_read_only(true),
            2 => self.disk.set_out_of_handles(true),
            _ => self.values.set_refuses(true),
        }
        let what =
            ["is nearly full", "is read-only", "has no handles", "has no room for values"][what as usize];
        self.note(format!("the disk {what}"));
    }

    /// Removes the limits and failures of the disk.
    pub(crate) fn clear_limits(&mut self) {
        if self.limited {
            self.note("the disk works again".into());
        }
        self.limited = false;
        self.disk.set_free_space(None);
        self.disk.set_read_only(false);
        self.disk.set_out_of_handles(false);
        self.disk.set_sync_failing(false);
        self.disk.fail_at(u64::MAX / 2, ErrorKind::Other);
        self.values.set_refuses(false);
    }

    /// Flips a bit, except where the damage would look like a torn write.
    fn flip(&mut self, rng: &mut Rng) {
        let mut files = Vec::new();
        for folder in ["log", "ids", "rows"] {
            files.extend(
                self.disk.list(folder).unwrap_or_default().iter().map(|file| format!("{folder}/{file}")),
            );
        }
        if files.is_empty() {
            return;
        }
        let file = rng.pick(&files).clone();
        let Some(bytes) = self.disk.bytes(&file).filter(|bytes| !bytes.is_empty()) else { return };
        // Files end in zeros; damage before them has more effect.
        let used = bytes.iter().rposition(|byte| *byte != 0).map_or(bytes.len(), |last| last + 1);
        let offset = rng.below(used as u64);
        if file.starts_with("log/") && offset >= last_frame(&file, &bytes) {
            return;
        }
        self.damaged |= self.disk.flip_bit(&file, offset, rng.below(8) as u8);
        self.note(format!("a bit of {file} flips at byte {offset}"));
    }

    /// A former owner of a partition appends to a slot that is taken; the log must refuse.
    fn stale_append(&mut self, rng: &mut Rng) -> Checked {
        let partitions: Vec<u16> = self.model.history.partitions().map(|(number, _)| number).collect();
        if partitions.is_empty() {
            return Ok(());
        }
        let partition = *rng.pick(&partitions);
        let durable = self.model.history.durable(partition);
        let Some(process) = self.process.as_ref().filter(|_| durable > 0) else { return Ok(()) };
        let (slot, log) = (rng.within(1, durable), LogId(partition));
        let Ok(reservation) = process.log.reserve(1, 64) else { return Ok(()) };
        let mut batch = Batch::new();
        batch.push(log, Slot(slot), b"stale");
        let mut appending = Box::pin(process.log.append(&batch, reservation));
        process.log.flush();
        let mut context = std::task::Context::from_waker(std::task::Waker::noop());
        match appending.as_mut().poll(&mut context) {
            std::task::Poll::Ready(Err(AppendError::Log(LogError::OutOfOrder(_)))) => {}
            std::task::Poll::Ready(Err(_)) => return Ok(()),
            accepted => {
                return violated!(
                    "log",
                    "a stale append to slot {slot} of partition {partition}: {accepted:?}"
                );
            }
        }
        self.note(format!("a stale append to slot {slot} of partition {partition} is refused"));
        Ok(())
    }
}

/// Offset of the last frame of a segment. From there on, damage and a torn write look the same, and recovery
/// cuts the log. Frames of an earlier use of the file have another number.
fn last_frame(file: &str, segment: &[u8]) -> u64 {
    const BLOCK: usize = 4096;
    const MAGIC: &[u8] = b"JFRM";
    let digits: String = file.chars().filter(char::is_ascii_digit).collect();
    let number = digits.parse().unwrap_or(0u64).to_le_bytes();
    let is_ours = |at: &usize| segment[at + 8..at + 12] == *MAGIC && segment[at + 24..at + 32] == number;
    let blocks = (1..segment.len() / BLOCK).rev();
    blocks.map(|block| block * BLOCK).find(is_ours).unwrap_or(BLOCK) as u64
}
