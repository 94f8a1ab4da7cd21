//! Room in the log: promises of it to callers, and the errands that make more.
//!
//! What must hold:
//! - *What was promised is there.* The bytes promised and not yet staged fit into the rest of the present segment and the next one.
//! - *A name says what its file is.* A file is renamed away from a segment's name, durably, before its header changes; and gets
//!   the next name only after its new header is durable.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use super::carrying::Look;
use super::segment::{self, Header};
use crate::disk::{Disk, DiskFile};
use crate::registers::Room;

/// Bytes promised to a caller, given back on drop.
#[derive(Debug)]
pub struct Promise {
    pub bytes: usize,
    pub total: Arc<AtomicUsize>,
}

impl Promise {
    pub fn new(bytes: usize, total: &Arc<AtomicUsize>) -> Self {
        total.fetch_add(bytes, Ordering::Relaxed);
        Self { bytes, total: Arc::clone(total) }
    }
}

impl Drop for Promise {
    fn drop(&mut self) {
        self.total.fetch_sub(self.bytes, Ordering::Relaxed);
    }
}

impl Room for Promise {}

/// Work on the files of segments that need not hold up the log: putting away trimmed ones, and making the next one.
#[derive(Debug)]
pub struct Errand<D: Disk> {
    pub(super) disk: Arc<D>,
    /// Segments that are no longer needed, and whether to keep their files.
    pub(super) put_away: Vec<(u32, bool)>,
    pub(super) make: Option<Make>,
    pub(super) look: Option<Look<D::File>>,
    pub(super) outcome: Option<Outcome<D::File>>,
}

/// A segment to be made.
#[derive(Debug)]
pub struct Make {
    pub header: Header,
    /// A file that was a segment; otherwise a new one is made.
    pub spare: Option<String>,
}

/// How an errand ended.
#[derive(Debug)]
pub struct Outcome<F> {
    /// The files that are ready to be used again.
    pub spares: Vec<String>,
    /// Otherwise all of it is to be done again.
    pub all_put_away: bool,
    pub made: Option<Arc<F>>,
    pub error: Option<(String, io::Error)>,
}

impl<D: Disk> Errand<D> {
    /// Does the work. Needs no lock, and may take as long as writing a whole segment.
    pub fn run(&mut self) {
        assert!(self.outcome.is_none(), "an errand is run once");
        let mut outcome = Outcome { spares: Vec::new(), all_put_away: false, made: None, error: None };
        if let Err(error) = self.put_away(&mut outcome.spares) {
            outcome.error = Some(("cannot put trimmed segments away".into(), error));
            self.outcome = Some(outcome);
            return;
        }
        outcome.all_put_away = true;
        if let Some(look) = &mut self.look {
            look.run();
        }
        if let Some(make) = &mut self.make {
            // What was put away just now is the first to be used again.
            make.spare = make.spare.take().or_else(|| outcome.spares.pop());
        }
        if let Some(make) = &self.make {
            match self.make(make) {
                Ok(file) => outcome.made = Some(Arc::new(file)),
                Err(error) => {
                    let name = segment::name(make.header.number);
                    outcome.error = Some((format!("cannot make the next segment, {name}"), error));
                }
            }
        }
        self.outcome = Some(outcome);
    }

    fn put_away(&self, spares: &mut Vec<String>) -> io::Result<()> {
        for &(number, keep) in &self.put_away {
            let name = segment::name(number);
            let spare = segment::spare_name(number);
            let done = if keep { self.disk.rename(&name, &spare) } else { self.disk.remove(&name) };
            match done {
                Ok(()) => {}
                // An errand that ended half way is run again.
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                Err(error) => return Err(error),
            }
            if keep {
                spares.push(spare);
            }
        }
        if self.put_away.is_empty() { Ok(()) } else { self.disk.sync_names(segment::FOLDER) }
    }

    fn make(&self, make: &Make) -> io::Result<D::File> {
        let (from, file) = match &make.spare {
            Some(spare) => (spare.as_str(), self.disk.open(spare)?),
            None => (segment::MAKING, self.disk.create(segment::MAKING, make.header.bytes.into())?),
        };
        file.write_at(&make.header.block(), 0)?;
        file.sync()?;
        self.disk.rename(from, &segment::name(make.header.number))?;
        self.disk.sync_names(segment::FOLDER)?;
        Ok(file)
    }
}
