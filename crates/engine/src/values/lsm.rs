//! Rows in an LSM tree on disk.
//!
//! The tree is used without its memtable: the engine's cache and log take that role. Each checkpoint becomes
//! sorted tables that are written, made durable and listed atomically; an engine thread compacts them. Why
//! this tree: docs/adr/0005.
//!
//! Threads: any may read; one ingests (the checkpoint thread), one compacts (the maintenance thread).
//! [`VersionEdits`] handles the consequences.

use std::ops::Bound;
use std::path::Path;
use std::sync::Arc;

use lsm_tree::compaction::Leveled;
use lsm_tree::config::{BloomConstructionPolicy, FilterPolicy, FilterPolicyEntry, PinningPolicy};
use lsm_tree::{
    AbstractTree, AnyTree, Cache, Config, DescriptorTable, Guard, SeqNo, SequenceNumberCounter, Table,
};

use super::ttl_filter::ExpiryHorizon;
use super::version_edit::VersionEdits;
use super::version_pointer::VersionPointer;
use super::{CellKeys, Rows, Values, ValuesError};
use crate::memory_limit;

/// Readers need the latest version only, no snapshot: a compaction may drop any other.
const LATEST: SeqNo = SeqNo::MAX;

/// Memory and files that the tree may use.
#[derive(Debug, Clone)]
pub struct LsmOptions {
    pub block_cache_bytes: u64,
    pub open_files_max: usize,
}

impl Default for LsmOptions {
    fn default() -> Self {
        Self { block_cache_bytes: memory_limit::default_cache(32 << 20) as u64, open_files_max: 128 }
    }
}

pub struct LsmValues {
    pub(super) tree: AnyTree,
    visible: SequenceNumberCounter,
    strategy: Arc<Leveled>,
    pub(super) edits: VersionEdits,
    expiry: ExpiryHorizon,
}

fn failed(what: &'static str) -> impl Fn(lsm_tree::Error) -> ValuesError {
    move |error| ValuesError(format!("cannot {what}: {error}"))
}

impl LsmValues {
    /// Opens the tree in this folder, or creates it.
    pub fn open(folder: &Path, options: &LsmOptions) -> Result<Self, ValuesError> {
        let (next, visible) = (SequenceNumberCounter::default(), SequenceNumberCounter::default());
        let unusable =
            |error: &dyn std::fmt::Display| ValuesError(format!("cannot open {}: {error}", folder.display()));
        let open_files = Arc::new(DescriptorTable::new(options.open_files_max));
        // The library would create it with the permissions of the umask.
        jeton_wal::disk::private_folder(folder).map_err(|error| unusable(&error))?;
        let files = VersionPointer::new(folder);
        // The tree is about to remove what its current version does not list.
        files.make_durable().map_err(|error| unusable(&error))?;
        let expiry = ExpiryHorizon::default();
        let bloom = FilterPolicyEntry::Bloom(BloomConstructionPolicy::BitsPerKey(10.0));
        let tree = Config::new(folder, next.clone(), visible.clone())
            .use_cache(Arc::new(Cache::with_capacity_bytes(options.block_cache_bytes)))
            .use_descriptor_table(Some(open_files.clone()))
            .filter_policy(FilterPolicy::all(bloom))
            .with_compaction_filter_factory(Some(Arc::new(expiry.clone())))
            // Everything goes through the cache, so that its size bounds the memory.
            .filter_block_pinning_policy(PinningPolicy::all(false))
            .index_block_pinning_policy(PinningPolicy::all(false))
            .open()
            .map_err(|error| unusable(&error))?;
        let highest = tree.get_highest_seqno().map_or(0, |seqno| seqno + 1);
        next.set(highest);
        visible.set(highest);
        let edits = VersionEdits::new(tree.clone(), files, open_files);
        Ok(Self { tree, visible, strategy: Arc::new(Leveled::default()), edits, expiry })
    }

    /// The live files, for a copy, while no thread changes the tree. None is removed while the returned value
    /// lives.
    pub fn files(&self) -> Result<LsmFiles, ValuesError> {
        let version = self.tree.current_version();
        let number = version.id();
        let bytes = self.edits.folder.read_version(number);
        let bytes = bytes.map_err(|error| ValuesError(format!("cannot read version {number}: {error}")))?;
        let pointer = (VersionPointer::CURRENT.to_owned(), VersionPointer::pointer(number, &bytes));
        // The pointer is last, as when the tree writes it.
        let small = vec![(VersionPointer::version_file(number), bytes), pointer];
        Ok(LsmFiles { tables: version.iter_tables().cloned().collect(), small })
    }

    pub fn disk_bytes(&self) -> u64 {
        self.tree.disk_space()
    }
}

/// The live files of the tree at one moment. While this value lives, no table of it is removed; none ever
/// changes.
///
/// A backup copies the tables under their names, then writes the small files with their contents of that
/// moment.
pub struct LsmFiles {
    /// A reference to a table keeps its file.
    tables: Vec<Table>,
    /// The other files: their names in the tree's folder, and their contents.
    pub small: Vec<(String, Vec<u8>)>,
}

impl LsmFiles {
    /// File names of the tables in the tree's folder.
    pub fn tables(&self) -> impl Iterator<Item = String> {
        self.tables.iter().map(|table| format!("{}/{}", VersionPointer::TABLES, table.id()))
    }
}

impl Values for LsmValues {
    fn get(&self, key: &[u8]) -> Result<Option<Vec<u8>>, ValuesError> {
        let row = self.tree.get(key, LATEST).map_err(failed("read"))?;
        Ok(row.map(|row| row.to_vec()))
    }

    fn scan(&self, first: u8, each: &mut dyn FnMut(&[u8], &[u8])) -> Result<(), ValuesError> {
        for guard in self.tree.prefix([first], LATEST, None) {
            let (key, row) = guard.into_inner().map_err(failed("scan"))?;
            each(&key, &row);
        }
        Ok(())
    }

    fn keys(&self, keys: &CellKeys, limit: usize, each: &mut dyn FnMut(&[u8])) -> Result<(), ValuesError> {
        let range: (Bound<&[u8]>, Bound<&[u8]>) = (keys.begin(), Bound::Unbounded);
        for guard in self.tree.range::<&[u8], _>(range, LATEST, None).take(limit) {
            let key = guard.key().map_err(failed("list"))?;
            if !key.starts_with(keys.prefix()) {
                break;
            }
            each(&key);
        }
        Ok(())
    }

    fn replace(&self, rows: &Rows) -> Result<(), ValuesError> {
        if rows.is_empty() {
            return Ok(());
        }
        self.edits.ingest(|| {
            let mut ingestion = self.tree.ingestion().map_err(failed("begin a checkpoint"))?;
            for (key, row) in rows.iter() {
                match row {
                    Some(row) => ingestion.write(key, row),
                    None => ingestion.write_tombstone(key),
                }
                .map_err(failed("write a checkpoint"))?;
            }
            ingestion.finish().map_err(failed("finish a checkpoint"))?;
            Ok(())
        })
    }

    fn compact(&self, expired: u64) -> Result<bool, ValuesError> {
        self.expiry.set(expired);
        let shape = || (self.tree.l0_run_count(), self.tree.table_count(), self.tree.next_table_id());
        self.edits.merge(|| {
            let before = shape();
            self.tree.compact(self.strategy.clone(), self.visible.get()).map_err(failed("merge tables"))?;
            Ok(shape() != before)
        })
    }

    fn pending_compactions(&self) -> usize {
        self.tree.l0_run_count()
    }
}
