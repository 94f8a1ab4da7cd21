//! A disk that calls a hook before every change. The hook can block or panic.

use std::io;
use std::sync::{Arc, Condvar, Mutex};

use jeton_wal::disk::{Disk, DiskFile, FaultDisk, LockError};

/// Called with the name of the file, or folder, before it is changed.
type Hook = Arc<dyn Fn(&str) + Send + Sync>;

/// A disk in memory with a hook.
pub struct BlockingDisk {
    disk: FaultDisk,
    hook: Hook,
}

impl BlockingDisk {
    pub fn new(disk: FaultDisk, hook: impl Fn(&str) + Send + Sync + 'static) -> Self {
        Self { disk, hook: Arc::new(hook) }
    }

    fn file(&self, name: &str, file: <FaultDisk as Disk>::File) -> BlockingFile {
        BlockingFile { name: name.to_owned(), file, hook: Arc::clone(&self.hook) }
    }
}

impl Disk for BlockingDisk {
    type File = BlockingFile;
    type Guard = <FaultDisk as Disk>::Guard;

    fn lock(&self, owner: &str) -> Result<Self::Guard, LockError> {
        self.disk.lock(owner)
    }

    fn create(&self, name: &str, bytes: u64) -> io::Result<BlockingFile> {
        (self.hook)(name);
        Ok(self.file(name, self.disk.create(name, bytes)?))
    }

    fn open(&self, name: &str) -> io::Result<BlockingFile> {
        Ok(self.file(name, self.disk.open(name)?))
    }

    fn list(&self, folder: &str) -> io::Result<Vec<String>> {
        self.disk.list(folder)
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        (self.hook)(from);
        self.disk.rename(from, to)
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        (self.hook)(name);
        self.disk.remove(name)
    }

    fn sync_names(&self, folder: &str) -> io::Result<()> {
        (self.hook)(folder);
        self.disk.sync_names(folder)
    }
}

/// A file of a [`BlockingDisk`].
pub struct BlockingFile {
    name: String,
    file: <FaultDisk as Disk>::File,
    hook: Hook,
}

impl DiskFile for BlockingFile {
    fn len(&self) -> io::Result<u64> {
        self.file.len()
    }

    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<()> {
        self.file.read_at(buffer, offset)
    }

    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<()> {
        (self.hook)(&self.name);
        self.file.write_at(bytes, offset)
    }

    fn sync(&self) -> io::Result<()> {
        (self.hook)(&self.name);
        self.file.sync()
    }
}

/// Lets all threads pass, or none.
#[derive(Default)]
pub struct Gate {
    /// Whether it is closed, and how many wait.
    state: Mutex<(bool, usize)>,
    changed: Condvar,
}

impl Gate {
    pub fn set_closed(&self, closed: bool) {
        self.state.lock().unwrap().0 = closed;
        self.changed.notify_all();
    }

    pub fn pass(&self) {
        let mut state = self.state.lock().unwrap();
        state.1 += 1;
        self.changed.notify_all();
        state = self.changed.wait_while(state, |(closed, _)| *closed).unwrap();
        state.1 -= 1;
    }

    pub fn await_waiter(&self) {
        drop(self.changed.wait_while(self.state.lock().unwrap(), |(_, waiting)| *waiting == 0).unwrap());
    }
}
