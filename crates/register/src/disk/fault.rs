//! A disk in memory that can be broken at will: for tests, and for the simulator.
//!
//! It keeps apart what was *issued* and what is *durable*. When the power fails ([`FaultDisk::crash`]), every sector and every
//! name that was not synced is lost or kept, each on its own: torn, reordered and half-made things all happen. It does
//! nothing by chance: randomness is an argument, and time is not known here.
//!
//! A `FaultDisk` is a handle; clones are the same disk. After a crash the old handles and their files fail, as the process that
//! held them is gone; the handle that [`FaultDisk::crash`] returns is the disk that the next process finds.

use std::collections::BTreeMap;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::inode::{Fate, Inode};
use super::{Disk, DiskFile, LockError};

/// A disk in memory that can be broken at will.
#[derive(Debug, Clone)]
pub struct FaultDisk {
    shared: Arc<Mutex<State>>,
    /// Which life of the machine this handle belongs to.
    life: u64,
}

#[derive(Debug, Default)]
struct State {
    life: u64,
    files: BTreeMap<u64, Inode>,
    next_file: u64,
    /// What each name means now.
    names: BTreeMap<String, u64>,
    /// What each name means if the power fails now and nothing unsynced is kept.
    durable_names: BTreeMap<String, u64>,
    /// Changes of names since the last sync, in order. Each is kept or lost as a whole.
    unsynced_names: Vec<Vec<(String, Option<u64>)>>,
    locked_by: Option<(u64, String)>,
    faults: Faults,
    operations: u64,
}

#[derive(Debug, Default)]
struct Faults {
    /// The power fails during this operation.
    dies_at: Option<u64>,
    dead: bool,
    /// This operation fails with this error, and has no effect.
    fails_at: Option<(u64, io::ErrorKind)>,
    /// All files together are not to become larger than this.
    capacity: Option<u64>,
    read_only: bool,
    no_handles: bool,
    no_syncs: bool,
}

/// What an operation that changes something is to do.
enum Go {
    /// Its whole effect.
    On,
    /// Its effect, as far as one that is not synced has any; then the power is gone.
    AndDie,
}

impl Default for FaultDisk {
    fn default() -> Self {
        Self::new()
    }
}

impl FaultDisk {
    /// An empty disk without faults.
    pub fn new() -> Self {
        Self { shared: Arc::default(), life: 0 }
    }

    /// The power fails. What was not synced is lost or kept, by sectors and by names, as `random` decides. The handle returned is
    /// what the next process finds; it has no faults but a capacity that was set. All handles and files from before fail from now on.
    pub fn crash(&self, random: &mut impl FnMut() -> u64) -> Self {
        let mut state = self.state();
        state.life += 1;
        let fate = Fate::draw(random);
        for inode in state.files.values_mut() {
            inode.crash(fate, random);
        }
        for change in std::mem::take(&mut state.unsynced_names) {
            let kept = match fate {
                Fate::Lost => false,
                Fate::Kept => true,
                Fate::Torn => random().is_multiple_of(2),
            };
            if kept {
                apply(&mut state.durable_names, &change);
            }
        }
        state.names = state.durable_names.clone();
        state.sweep();
        state.locked_by = None;
        state.faults = Faults { capacity: state.faults.capacity, ..Faults::default() };
        Self { shared: Arc::clone(&self.shared), life: state.life }
    }

    /// How many operations were tried that change something: creates, writes, syncs, renames, removes.
    pub fn operations(&self) -> u64 {
        self.state().operations
    }

    /// Lets the power fail during the `nth` changing operation from now (1 is the next): it and all after it fail, until
    /// [`FaultDisk::crash`] says what is left. A write that it hits may be kept in part.
    pub fn die_at(&self, nth: u64) {
        let mut state = self.state();
        state.faults.dies_at = Some(state.operations + nth);
    }

    /// Lets the `nth` changing operation from now (1 is the next) fail with an error of this kind, without effect.
    pub fn fail_at(&self, nth: u64, kind: io::ErrorKind) {
        let mut state = self.state();
        state.faults.fails_at = Some((state.operations + nth, kind));
    }

    /// Leaves room for so many bytes more, counting what removed files give back; `None` is room without end.
    pub fn set_room(&self, bytes: Option<u64>) {
        let mut state = self.state();
        state.faults.capacity = bytes.map(|bytes| state.used() + bytes);
    }

    /// Whether everything that changes something is refused.
    pub fn set_read_only(&self, read_only: bool) {
        self.state().faults.read_only = read_only;
    }

    /// Whether opening and creating fail for too many open files.
    pub fn set_out_of_handles(&self, out: bool) {
        self.state().faults.no_handles = out;
    }

    /// Whether syncs of files fail. What they should have made durable stays in doubt.
    pub fn set_sync_failing(&self, failing: bool) {
        self.state().faults.no_syncs = failing;
    }

    /// Turns over one bit of a file, for readers and for good. Whether there was such a byte.
    pub fn flip_bit(&self, name: &str, offset: u64, bit: u8) -> bool {
        let mut state = self.state();
        let Some(&file) = state.names.get(name) else { return false };
        let offset = offset as usize;
        match state.files.get_mut(&file) {
            Some(inode) if offset < inode.issued.len() => {
                inode.flip(offset, bit);
                true
            }
            _ => false,
        }
    }

    /// What a reader of this file would see.
    pub fn bytes(&self, name: &str) -> Option<Vec<u8>> {
        let state = self.state();
        state.names.get(name).map(|file| state.files[file].issued.clone())
    }

    /// A disk of its own with the same content, all of it durable, and without faults.
    pub fn copy(&self) -> Self {
        let copy = self.copy_as_it_is();
        let mut state = copy.state();
        state.files.values_mut().for_each(Inode::sync);
        state.durable_names = state.names.clone();
        state.unsynced_names.clear();
        drop(state);
        copy
    }

    /// A disk of its own with the same content, of which as much is durable as here, and without faults.
    pub fn copy_as_it_is(&self) -> Self {
        let state = self.state();
        let copy = State {
            files: state.files.clone(),
            next_file: state.next_file,
            names: state.names.clone(),
            durable_names: state.durable_names.clone(),
            unsynced_names: state.unsynced_names.clone(),
            ..State::default()
        };
        Self { shared: Arc::new(Mutex::new(copy)), life: 0 }
    }

    /// Nothing in here is left half done by a panic, so the state is good whatever happened to a thread that held it.
    fn state(&self) -> MutexGuard<'_, State> {
        self.shared.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn live(&self) -> io::Result<MutexGuard<'_, State>> {
        let state = self.state();
        if state.life != self.life || state.faults.dead {
            return Err(io::Error::other("the power failed"));
        }
        Ok(state)
    }

    fn change(&self) -> io::Result<(MutexGuard<'_, State>, Go)> {
        let mut state = self.live()?;
        state.operations += 1;
        let now = state.operations;
        if state.faults.read_only {
            return Err(io::ErrorKind::ReadOnlyFilesystem.into());
        }
        if let Some((at, kind)) = state.faults.fails_at
            && at == now
        {
            return Err(kind.into());
        }
        let dies = state.faults.dies_at.is_some_and(|at| at <= now);
        state.faults.dead |= dies;
        Ok((state, if dies { Go::AndDie } else { Go::On }))
    }
}

impl State {
    /// What the files take that have a name. An open handle may still read one without, but that takes no room from others.
    fn used(&self) -> u64 {
        self.names.values().map(|file| self.files[file].issued.len() as u64).sum()
    }

    fn need_room(&self, more: u64) -> io::Result<()> {
        match self.faults.capacity {
            Some(capacity) if self.used() + more > capacity => Err(io::ErrorKind::StorageFull.into()),
            _ => Ok(()),
        }
    }

    fn need_handle(&self) -> io::Result<()> {
        /// EMFILE, as the system says it.
        const TOO_MANY_OPEN_FILES: i32 = 24;
        if self.faults.no_handles {
            return Err(io::Error::from_raw_os_error(TOO_MANY_OPEN_FILES));
        }
        Ok(())
    }

    fn rename(&mut self, change: Vec<(String, Option<u64>)>) {
        apply(&mut self.names, &change);
        self.unsynced_names.push(change);
    }

    /// Forgets the files that no name can lead to any more. Only after a crash: before it, open handles may lead to them.
    fn sweep(&mut self) {
        let named: std::collections::BTreeSet<u64> = self.names.values().copied().collect();
        self.files.retain(|file, _| named.contains(file));
    }
}

fn apply(names: &mut BTreeMap<String, u64>, change: &[(String, Option<u64>)]) {
    for (name, meaning) in change {
        match meaning {
            Some(file) => names.insert(name.clone(), *file),
            None => names.remove(name),
        };
    }
}

fn folder_of(name: &str) -> &str {
    name.rsplit_once('/').map_or("", |(folder, _)| folder)
}

fn end(go: Go) -> io::Result<()> {
    match go {
        Go::On => Ok(()),
        Go::AndDie => Err(io::Error::other("the power failed")),
    }
}

fn missing(name: &str) -> io::Error {
    io::Error::new(io::ErrorKind::NotFound, format!("{name} is not there"))
}

impl Disk for FaultDisk {
    type File = FaultFile;
    type Guard = FaultGuard;

    fn lock(&self, who: &str) -> Result<FaultGuard, LockError> {
        let mut state = self.live()?;
        if let Some((_, by)) = &state.locked_by {
            return Err(LockError::Held { by: by.clone(), pid: std::process::id() });
        }
        state.locked_by = Some((self.life, who.to_owned()));
        Ok(FaultGuard { disk: self.clone() })
    }

    fn create(&self, name: &str, bytes: u64) -> io::Result<FaultFile> {
        let (mut state, go) = self.change()?;
        state.need_handle()?;
        state.need_room(bytes)?;
        let file = state.next_file;
        state.next_file += 1;
        state.files.insert(file, Inode::zeros(bytes as usize));
        state.rename(vec![(name.to_owned(), Some(file))]);
        end(go)?;
        Ok(FaultFile { disk: self.clone(), file })
    }

    fn open(&self, name: &str) -> io::Result<FaultFile> {
        let state = self.live()?;
        state.need_handle()?;
        let file = *state.names.get(name).ok_or_else(|| missing(name))?;
        Ok(FaultFile { disk: self.clone(), file })
    }

    fn list(&self, folder: &str) -> io::Result<Vec<String>> {
        let state = self.live()?;
        let names = state.names.keys().filter(|name| folder_of(name) == folder);
        Ok(names.map(|name| name.rsplit('/').next().unwrap_or(name).to_owned()).collect())
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        let (mut state, go) = self.change()?;
        let file = *state.names.get(from).ok_or_else(|| missing(from))?;
        state.rename(vec![(from.to_owned(), None), (to.to_owned(), Some(file))]);
        end(go)
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        let (mut state, go) = self.change()?;
        if !state.names.contains_key(name) {
            return Err(missing(name));
        }
        state.rename(vec![(name.to_owned(), None)]);
        end(go)
    }

    fn sync_names(&self, folder: &str) -> io::Result<()> {
        let (mut state, go) = self.change()?;
        end(go)?;
        let (synced, rest) = std::mem::take(&mut state.unsynced_names)
            .into_iter()
            .partition(|change| change.iter().all(|(name, _)| folder_of(name) == folder));
        state.unsynced_names = rest;
        let synced: Vec<Vec<(String, Option<u64>)>> = synced;
        for change in &synced {
            apply(&mut state.durable_names, change);
        }
        Ok(())
    }
}

/// A file of a [`FaultDisk`].
#[derive(Debug, Clone)]
pub struct FaultFile {
    disk: FaultDisk,
    file: u64,
}

impl DiskFile for FaultFile {
    fn len(&self) -> io::Result<u64> {
        Ok(self.disk.live()?.files[&self.file].issued.len() as u64)
    }

    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<()> {
        let state = self.disk.live()?;
        let bytes = &state.files[&self.file].issued;
        let offset = offset as usize;
        let there = bytes.get(offset..offset + buffer.len()).ok_or(io::ErrorKind::UnexpectedEof)?;
        buffer.copy_from_slice(there);
        Ok(())
    }

    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<()> {
        let (mut state, go) = self.disk.change()?;
        let len = state.files[&self.file].issued.len() as u64;
        state.need_room((offset + bytes.len() as u64).saturating_sub(len))?;
        if let Some(inode) = state.files.get_mut(&self.file) {
            inode.write(bytes, offset as usize);
        }
        end(go)
    }

    fn sync(&self) -> io::Result<()> {
        let (mut state, go) = self.disk.change()?;
        if state.faults.no_syncs {
            return Err(io::Error::other("the disk could not write back"));
        }
        end(go)?;
        if let Some(inode) = state.files.get_mut(&self.file) {
            inode.sync();
        }
        Ok(())
    }
}

/// The lock of a [`FaultDisk`], let go when dropped.
#[derive(Debug)]
pub struct FaultGuard {
    disk: FaultDisk,
}

impl Drop for FaultGuard {
    fn drop(&mut self) {
        let mut state = self.disk.state();
        if state.locked_by.as_ref().is_some_and(|(life, _)| *life == self.disk.life) {
            state.locked_by = None;
        }
    }
}
