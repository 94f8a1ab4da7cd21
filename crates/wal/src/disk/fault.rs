//! A disk in memory with injected faults, for tests and for the simulator.
//!
//! It separates what was *issued* from what is *durable*. At a power failure ([`FaultDisk::crash`]) every
//! sector and every name that was not synced is lost or kept independently: torn, reordered and half-created
//! files all occur. Nothing is random by itself: randomness is an argument, and there is no clock.
//!
//! A `FaultDisk` is a handle; clones are the same disk. After a crash the old handles and their files fail,
//! because their process is gone; [`FaultDisk::crash`] returns the disk that the next process finds.

use std::collections::BTreeMap;
use std::fmt;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::fault_file::{Inode, UnsyncedFate};
use super::{Disk, DiskFile, LockError};

/// A disk in memory with injected faults.
#[derive(Debug, Clone)]
pub struct FaultDisk {
    shared: Arc<Mutex<State>>,
    /// The boot of the machine that this handle belongs to.
    boot: u64,
    hook: Option<Hook>,
}

#[derive(Clone)]
struct Hook(Arc<dyn Fn(&str) + Send + Sync>);

impl fmt::Debug for Hook {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("Hook")
    }
}

#[derive(Debug, Default)]
struct State {
    boot: u64,
    files: BTreeMap<u64, Inode>,
    next_file: u64,
    /// The file of each name now.
    names: BTreeMap<String, u64>,
    /// The file of each name if the power fails now and nothing unsynced is kept.
    durable_names: BTreeMap<String, u64>,
    /// Changes of names since the last sync, in order. Each is kept or lost atomically.
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
    /// The limit of the bytes of all files together.
    capacity: Option<u64>,
    read_only: bool,
    no_handles: bool,
    no_syncs: bool,
}

/// What a changing operation does.
enum Power {
    /// Its whole effect.
    On,
    /// Its effect, without being durable; then the power fails.
    FailsNow,
}

impl Default for FaultDisk {
    fn default() -> Self {
        Self::new()
    }
}

impl FaultDisk {
    /// An empty disk without faults.
    pub fn new() -> Self {
        Self { shared: Arc::default(), boot: 0, hook: None }
    }

    /// The same disk. `hook` is called with the name of a file or folder before it is changed through this
    /// handle, its clones and its files; it can block or panic.
    pub fn with_hook(&self, hook: impl Fn(&str) + Send + Sync + 'static) -> Self {
        Self { hook: Some(Hook(Arc::new(hook))), ..self.clone() }
    }

    /// The power fails. What was not synced is lost or kept, by sectors and by names, as `random` decides.
    /// Returns the disk that the next process finds, without faults except a capacity. All earlier handles
    /// and files fail from now on.
    pub fn crash(&self, random: &mut impl FnMut() -> u64) -> Self {
        let mut state = self.state();
        state.boot += 1;
        let fate = UnsyncedFate::draw(random);
        for inode in state.files.values_mut() {
            inode.crash(fate, random);
        }
        for change in std::mem::take(&mut state.unsynced_names) {
            let kept = match fate {
                UnsyncedFate::Lost => false,
                UnsyncedFate::Kept => true,
                UnsyncedFate::Torn => random().is_multiple_of(2),
            };
            if kept {
                apply(&mut state.durable_names, &change);
            }
        }
        state.names = state.durable_names.clone();
        state.sweep();
        state.locked_by = None;
        state.faults = Faults { capacity: state.faults.capacity, ..Faults::default() };
        Self { shared: Arc::clone(&self.shared), boot: state.boot, hook: None }
    }

    /// The number of changing operations so far: creates, writes, syncs, renames, removes.
    pub fn operations(&self) -> u64 {
        self.state().operations
    }

    /// The power fails during the `nth` changing operation from now (1 is the next): it and all later ones
    /// fail, until [`FaultDisk::crash`] decides what is left. An interrupted write may be kept in part.
    pub fn die_at(&self, nth: u64) {
        let mut state = self.state();
        state.faults.dies_at = Some(state.operations + nth);
    }

    /// The `nth` changing operation from now (1 is the next) fails with an error of this kind, without
    /// effect.
    pub fn fail_at(&self, nth: u64, kind: io::ErrorKind) {
        let mut state = self.state();
        state.faults.fails_at = Some((state.operations + nth, kind));
    }

    /// Limits the free space to `bytes`; removed files add to it. `None` removes the limit.
    pub fn set_free_space(&self, bytes: Option<u64>) {
        let mut state = self.state();
        state.faults.capacity = bytes.map(|bytes| state.used() + bytes);
    }

    /// Whether all changing operations fail.
    pub fn set_read_only(&self, read_only: bool) {
        self.state().faults.read_only = read_only;
    }

    /// Whether opening and creating fail because of too many open files.
    pub fn set_out_of_handles(&self, out: bool) {
        self.state().faults.no_handles = out;
    }

    /// Whether syncs of files fail. What they should have made durable stays unsynced.
    pub fn set_sync_failing(&self, failing: bool) {
        self.state().faults.no_syncs = failing;
    }

    /// Flips one bit of a file, durably. Returns whether the file has this byte.
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

    /// The content of a file as a reader sees it.
    pub fn bytes(&self, name: &str) -> Option<Vec<u8>> {
        let state = self.state();
        state.names.get(name).map(|file| state.files[file].issued.clone())
    }

    /// An independent disk with the same content, all of it durable, without faults.
    pub fn copy(&self) -> Self {
        let copy = self.copy_unsynced();
        let mut state = copy.state();
        state.files.values_mut().for_each(Inode::sync);
        state.durable_names = state.names.clone();
        state.unsynced_names.clear();
        drop(state);
        copy
    }

    /// An independent disk with the same content, equally durable, without faults.
    pub fn copy_unsynced(&self) -> Self {
        let state = self.state();
        let copy = State {
            files: state.files.clone(),
            next_file: state.next_file,
            names: state.names.clone(),
            durable_names: state.durable_names.clone(),
            unsynced_names: state.unsynced_names.clone(),
            ..State::default()
        };
        Self { shared: Arc::new(Mutex::new(copy)), boot: 0, hook: None }
    }

    /// No panic leaves the state inconsistent.
    fn state(&self) -> MutexGuard<'_, State> {
        self.shared.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn live(&self) -> io::Result<MutexGuard<'_, State>> {
        let state = self.state();
        if state.boot != self.boot || state.faults.dead {
            return Err(io::Error::other("the power failed"));
        }
        Ok(state)
    }

    /// Begins a change of the file or folder with this name.
    fn change(&self, name: &str) -> io::Result<(MutexGuard<'_, State>, Power)> {
        if let Some(Hook(hook)) = &self.hook {
            hook(name);
        }
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
        Ok((state, if dies { Power::FailsNow } else { Power::On }))
    }
}

impl State {
    /// The bytes of the files that have a name. An open handle may still read others, which do not count.
    fn used(&self) -> u64 {
        self.names.values().map(|file| self.files[file].issued.len() as u64).sum()
    }

    fn need_space(&self, more: u64) -> io::Result<()> {
        match self.faults.capacity {
            Some(capacity) if self.used() + more > capacity => Err(io::ErrorKind::StorageFull.into()),
            _ => Ok(()),
        }
    }

    fn need_handle(&self) -> io::Result<()> {
        /// EMFILE.
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

    /// Drops the files without a name. Only after a crash: before it, open handles may refer to them.
    fn sweep(&mut self) {
        let named: std::collections::BTreeSet<u64> = self.names.values().copied().collect();
        self.files.retain(|file, _| named.contains(file));
    }
}

fn apply(names: &mut BTreeMap<String, u64>, change: &[(String, Option<u64>)]) {
    for (name, file) in change {
        match file {
            Some(file) => names.insert(name.clone(), *file),
            None => names.remove(name),
        };
    }
}

fn folder_of(name: &str) -> &str {
    name.rsplit_once('/').map_or("", |(folder, _)| folder)
}

fn finish(power: Power) -> io::Result<()> {
    match power {
        Power::On => Ok(()),
        Power::FailsNow => Err(io::Error::other("the power failed")),
    }
}

fn missing(name: &str) -> io::Error {
    io::Error::new(io::ErrorKind::NotFound, format!("{name} does not exist"))
}

impl Disk for FaultDisk {
    type File = FaultFile;
    type Guard = FaultGuard;

    fn lock(&self, owner: &str) -> Result<FaultGuard, LockError> {
        let mut state = self.live()?;
        if let Some((_, by)) = &state.locked_by {
            return Err(LockError::Held { by: by.clone(), pid: std::process::id() });
        }
        state.locked_by = Some((self.boot, owner.to_owned()));
        Ok(FaultGuard { disk: self.clone() })
    }

    fn create(&self, name: &str, bytes: u64) -> io::Result<FaultFile> {
        let (mut state, power) = self.change(name)?;
        state.need_handle()?;
        state.need_space(bytes)?;
        let file = state.next_file;
        state.next_file += 1;
        state.files.insert(file, Inode::zeros(bytes as usize));
        state.rename(vec![(name.to_owned(), Some(file))]);
        finish(power)?;
        Ok(FaultFile { disk: self.clone(), file, name: name.to_owned() })
    }

    fn open(&self, name: &str) -> io::Result<FaultFile> {
        let state = self.live()?;
        state.need_handle()?;
        let file = *state.names.get(name).ok_or_else(|| missing(name))?;
        Ok(FaultFile { disk: self.clone(), file, name: name.to_owned() })
    }

    fn list(&self, folder: &str) -> io::Result<Vec<String>> {
        let state = self.live()?;
        let names = state.names.keys().filter(|name| folder_of(name) == folder);
        Ok(names.map(|name| name.rsplit('/').next().unwrap_or(name).to_owned()).collect())
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        let (mut state, power) = self.change(from)?;
        let file = *state.names.get(from).ok_or_else(|| missing(from))?;
        state.rename(vec![(from.to_owned(), None), (to.to_owned(), Some(file))]);
        finish(power)
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        let (mut state, power) = self.change(name)?;
        if !state.names.contains_key(name) {
            return Err(missing(name));
        }
        state.rename(vec![(name.to_owned(), None)]);
        finish(power)
    }

    fn sync_names(&self, folder: &str) -> io::Result<()> {
        let (mut state, power) = self.change(folder)?;
        finish(power)?;
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
    /// The name it was opened with.
    name: String,
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
        let (mut state, power) = self.disk.change(&self.name)?;
        let len = state.files[&self.file].issued.len() as u64;
        state.need_space((offset + bytes.len() as u64).saturating_sub(len))?;
        if let Some(inode) = state.files.get_mut(&self.file) {
            inode.write(bytes, offset as usize);
        }
        finish(power)
    }

    fn sync(&self) -> io::Result<()> {
        let (mut state, power) = self.disk.change(&self.name)?;
        if state.faults.no_syncs {
            return Err(io::Error::other("the disk could not write back"));
        }
        finish(power)?;
        if let Some(inode) = state.files.get_mut(&self.file) {
            inode.sync();
        }
        Ok(())
    }
}

/// The lock of a [`FaultDisk`], released on drop.
#[derive(Debug)]
pub struct FaultGuard {
    disk: FaultDisk,
}

impl Drop for FaultGuard {
    fn drop(&mut self) {
        let mut state = self.disk.state();
        if state.locked_by.as_ref().is_some_and(|(boot, _)| *boot == self.disk.boot) {
            state.locked_by = None;
        }
    }
}
