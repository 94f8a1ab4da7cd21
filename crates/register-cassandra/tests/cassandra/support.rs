//! The cluster, which all tests of this program share, one at a time, each with a keyspace of its own.

use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use jeton_register::conformance::block_on;
use jeton_register::{Batch, Error, LogId, Registers, Slot, WritePermit, WriteResult};
use jeton_register_cassandra::{CassandraRegisters, Options, create_schema};
use jeton_testbed::{CASSANDRA_NODES, Cassandra, Compilation};

static CLUSTER: Mutex<Option<Cassandra>> = Mutex::new(None);

/// The cluster with a keyspace for one test. All nodes run at its begin.
pub struct Keyspace {
    cluster: MutexGuard<'static, Option<Cassandra>>,
    pub url: String,
}

impl Keyspace {
    /// With the tables. `None` on a machine without Cassandra, which is reported loudly.
    pub fn new() -> Option<Self> {
        let keyspace = Self::bare()?;
        block_on(create_schema(&keyspace.url, CASSANDRA_NODES as u8)).unwrap();
        Some(keyspace)
    }

    /// Without the keyspace.
    pub fn bare() -> Option<Self> {
        static NEXT: AtomicUsize = AtomicUsize::new(0);
        let mut cluster = CLUSTER.lock().unwrap_or_else(PoisonError::into_inner);
        if !Cassandra::is_required() {
            return None;
        }
        match cluster.as_mut() {
            None => *cluster = Some(Cassandra::start(&folder(), &[], Compilation::Quick).unwrap()),
            // The test before may have failed between two steps.
            Some(cluster) => revive(cluster),
        }
        let name = format!("test_{}", NEXT.fetch_add(1, Ordering::Relaxed));
        let url = cluster.as_ref().unwrap().url(&name);
        Some(Self { cluster, url })
    }

    pub fn cluster(&mut self) -> &mut Cassandra {
        self.cluster.as_mut().unwrap()
    }

    pub fn open(&self) -> CassandraRegisters {
        self.open_with(Options::default())
    }

    pub fn open_with(&self, options: Options) -> CassandraRegisters {
        block_on(CassandraRegisters::open(&self.url, options)).unwrap()
    }
}

fn revive(cluster: &mut Cassandra) {
    for node in 0..CASSANDRA_NODES {
        cluster.resume(node);
        if cluster.process(node).is_none() {
            cluster.launch(node).unwrap();
        }
    }
    cluster.await_ready().unwrap();
}

/// A folder for the nodes, which live until this process ends. Those of processes that ended are deleted.
fn folder() -> PathBuf {
    const PREFIX: &str = "jeton-cassandra-";
    for entry in std::fs::read_dir(std::env::temp_dir()).unwrap().flatten() {
        let name = entry.file_name().to_string_lossy().into_owned();
        let is_dead = |process: &str| !PathBuf::from(format!("/proc/{process}")).exists();
        if name.strip_prefix(PREFIX).is_some_and(is_dead) {
            drop(std::fs::remove_dir_all(entry.path()));
        }
    }
    let folder = std::env::temp_dir().join(format!("{PREFIX}{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    folder
}

/// For tests of timeouts.
pub fn short_timeouts() -> Options {
    let mut options = Options::default();
    options.request_timeout = Duration::from_secs(2);
    options
}

pub fn batch_of(writes: &[(LogId, u64, &[u8])]) -> Batch {
    let mut batch = Batch::new();
    for (log, slot, value) in writes {
        batch.push(*log, Slot(*slot), value);
    }
    batch
}

pub fn write(engine: &CassandraRegisters, writes: &[(LogId, u64, &[u8])]) -> Result<Vec<WriteResult>, Error> {
    block_on(engine.write(batch_of(writes), WritePermit::unlimited()))
}

/// Writes until the outcome is known.
pub fn insist(engine: &CassandraRegisters, log: LogId, slot: u64, value: &[u8]) -> WriteResult {
    loop {
        match write(engine, &[(log, slot, value)]) {
            Ok(mut written) => return written.remove(0),
            Err(Error::Unavailable(_) | Error::Unknown(_) | Error::Busy(_)) => std::thread::yield_now(),
            Err(other) => panic!("{other}"),
        }
    }
}

pub fn taken(value: &'static [u8]) -> WriteResult {
    WriteResult::Taken(value.into())
}
