//! Work on the files of segments, done without the journal: removing released ones, and creating the next
//! one.
//!
//! Invariant: *the name of a file states its use.* A file is renamed away from a segment's name, durably,
//! before its header changes, and gets the next name only after its new header is durable.

use std::io;
use std::sync::Arc;

use crate::disk::{Disk, DiskFile, is_out_of_space};
use crate::journal::Journal;
use crate::open_error::Fatal;
use crate::options::SPARES_MAX;
use crate::segment::{self, Header, Segment};

/// Work on the files of segments.
#[derive(Debug)]
pub struct SegmentTask<D: Disk> {
    pub(crate) disk: Arc<D>,
    /// Released segments, and whether to keep their files for reuse.
    pub(crate) released: Vec<(u32, bool)>,
    pub(crate) creation: Option<SegmentCreation>,
    pub(crate) outcome: Option<TaskOutcome<D::File>>,
}

/// A segment to be created.
#[derive(Debug)]
pub struct SegmentCreation {
    pub header: Header,
    /// The file of a released segment; otherwise a new file is created.
    pub spare: Option<String>,
}

/// The result of a task.
#[derive(Debug)]
pub struct TaskOutcome<F> {
    /// Files that can be reused.
    pub spares: Vec<String>,
    /// Whether all released segments are gone. If not, the removal is repeated.
    pub removed: bool,
    pub created: Option<Arc<F>>,
    pub error: Option<(String, io::Error)>,
}

impl<D: Disk> SegmentTask<D> {
    /// Does the work. It may take as long as writing a whole segment.
    pub fn run(&mut self) {
        assert!(self.outcome.is_none(), "a task runs once");
        let mut outcome = TaskOutcome { spares: Vec::new(), removed: false, created: None, error: None };
        if let Err(error) = self.remove_released(&mut outcome.spares) {
            outcome.error = Some(("cannot remove released segments".into(), error));
            self.outcome = Some(outcome);
            return;
        }
        outcome.removed = true;
        if let Some(creation) = &mut self.creation {
            creation.spare = creation.spare.take().or_else(|| outcome.spares.pop());
        }
        if let Some(creation) = &self.creation {
            match self.create(creation) {
                Ok(file) => outcome.created = Some(Arc::new(file)),
                Err(error) => {
                    let name = segment::name(creation.header.number);
                    outcome.error = Some((format!("cannot create the next segment, {name}"), error));
                }
            }
        }
        self.outcome = Some(outcome);
    }

    fn remove_released(&self, spares: &mut Vec<String>) -> io::Result<()> {
        for &(number, keep) in &self.released {
            let name = segment::name(number);
            let spare = segment::spare_name(number);
            let done = if keep { self.disk.rename(&name, &spare) } else { self.disk.remove(&name) };
            match done {
                Ok(()) => {}
                // A task that failed half way is repeated.
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                Err(error) => return Err(error),
            }
            if keep {
                spares.push(spare);
            }
        }
        if self.released.is_empty() { Ok(()) } else { self.disk.sync_names(segment::FOLDER) }
    }

    fn create(&self, creation: &SegmentCreation) -> io::Result<D::File> {
        let header = &creation.header;
        let (from, file) = match &creation.spare {
            Some(spare) => (spare.as_str(), self.disk.open(spare)?),
            None => (segment::NEW_FILE, self.disk.create(segment::NEW_FILE, header.bytes.into())?),
        };
        file.write_at(&header.block(), 0)?;
        file.sync()?;
        self.disk.rename(from, &segment::name(header.number))?;
        self.disk.sync_names(segment::FOLDER)?;
        Ok(file)
    }
}

impl<D: Disk> Journal<D> {
    /// Work on files that is due, if none is running.
    pub fn take_task(&mut self) -> Option<SegmentTask<D>> {
        if !self.has_task() {
            return None;
        }
        self.task_running = true;
        self.retry_task = false;
        let mut free = SPARES_MAX.saturating_sub(self.spares.len());
        let released = self
            .to_remove
            .iter()
            .map(|segment| {
                // A reader may hold the file, which must then stay as it is until the reader is dropped.
                let keep = free > 0
                    && segment.bytes == self.options.segment_bytes
                    && Arc::strong_count(&segment.file) == 1;
                free -= usize::from(keep);
                (segment.number, keep)
            })
            .collect();
        let number = self.segments.back().map_or(1, |segment| segment.number + 1);
        let bytes = self.options.segment_bytes;
        let creation = self.wants_next().then(|| SegmentCreation {
            header: Header { version: segment::VERSION, number, bytes, identity: self.identity },
            spare: self.spares.pop(),
        });
        Some(SegmentTask { disk: Arc::clone(&self.disk), released, creation, outcome: None })
    }

    /// Whether [`Journal::take_task`] would return one.
    pub fn has_task(&self) -> bool {
        let due = self.wants_next() || !self.to_remove.is_empty();
        due && !self.task_running && self.fatal.is_none() && (self.task_error.is_none() || self.retry_task)
    }

    fn wants_next(&self) -> bool {
        let Some(segment) = self.segments.back() else { return false };
        self.next.is_none() && (self.next_wanted || self.position() > segment.bytes / 2)
    }

    /// Takes back a task after [`SegmentTask::run`].
    pub fn complete_task(&mut self, mut task: SegmentTask<D>) -> Result<(), Fatal> {
        self.task_running = false;
        let TaskOutcome { spares, removed, created, error } =
            task.outcome.expect("a task runs before it is completed");
        if let Some((what, error)) = error {
            if !is_out_of_space(&error) {
                return Err(self.die(format!("{what}: {error}")));
            }
            self.task_error = Some(format!("{what}: {error}"));
            self.spares.extend(task.creation.as_mut().and_then(|creation| creation.spare.take()));
        } else {
            self.task_error = None;
        }
        if removed {
            self.spares.extend(spares);
            let done: Vec<u32> = task.released.iter().map(|(number, _)| *number).collect();
            self.to_remove.retain(|segment| !done.contains(&segment.number));
        }
        if let (Some(file), Some(creation)) = (created, task.creation) {
            self.next = Some(Segment::new(creation.header.number, creation.header.bytes, file));
            self.next_wanted = false;
            // There may have been no space for it before.
            self.release();
        }
        Ok(())
    }
}
