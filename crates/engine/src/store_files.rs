//! The files of the stores as of one moment, for a copy.
//!
//! They are listed while no store changes, which takes the same time for any amount of data. Afterwards the
//! stores continue: files of the stores never change, and none is removed while the list exists.

use jeton_core::{Partition, limits};
use jeton_wal::Error as LogError;
use jeton_wal::disk::RealDisk;

use crate::checkpointer::CheckpointPositions;
use crate::engine::Engine;
use crate::filter_store::StoredFilters;
use crate::ids;
use crate::partition_log::{BlobStore, PartitionLog};
use crate::recovery::{RecoveryError, damaged, ids_watermarks};
use crate::shard::Stores;
use crate::trim_guard::TrimGuard;
use crate::values::{LsmFiles, LsmValues, RowKey, Values, ValuesError};
use crate::watermarks::Watermarks;

/// The live files at one moment. None of them is removed while this exists.
pub struct StoreFiles {
    pub(crate) values: LsmFiles,
    pub(crate) ids: ids::Files<RealDisk>,
    pub(crate) filters: Option<StoredFilters>,
    /// While it exists, the blobs are those of the moment.
    trim_guard: Option<TrimGuard>,
}

impl StoreFiles {
    /// To be called while no thread changes the stores.
    pub(crate) fn find<B: BlobStore, E>(
        stores: &Stores<LsmValues, RealDisk>,
        blobs: &B,
        trim_guard: TrimGuard,
    ) -> Result<Self, E>
    where
        E: From<ValuesError> + From<ids::Error> + From<LogError>,
    {
        let (values, ids) = (stores.values.files()?, stores.ids.files()?);
        let filters = StoredFilters::find(blobs)?;
        Ok(Self { values, ids, filters, trim_guard: Some(trim_guard) })
    }

    /// Paths, below the directory of the store, of the files that never change.
    pub fn immutable(&self) -> impl Iterator<Item = String> {
        let tables = self.values.tables().map(|table| format!("values/{table}"));
        tables.chain(self.ids.runs.iter().cloned())
    }

    /// Paths and contents of the other files.
    pub fn small(&self) -> impl Iterator<Item = (String, &[u8])> {
        let values = self.values.small.iter().map(|(name, bytes)| (format!("values/{name}"), &bytes[..]));
        values.chain([(self.ids.manifest.0.clone(), &self.ids.manifest.1[..])])
    }

    /// The names of the blobs of the filters.
    pub fn blobs(&self) -> impl Iterator<Item = String> {
        self.filters.iter().flat_map(StoredFilters::rows)
    }

    /// Lets later filters replace the blobs, and the log be trimmed.
    pub fn release_blobs(&mut self) {
        self.trim_guard = None;
    }
}

impl<L: PartitionLog + BlobStore> Engine<L> {
    /// The files of the stores, and the watermarks that they contain.
    pub fn store_files(&self) -> Result<(StoreFiles, CheckpointPositions), RecoveryError> {
        let trim_guard = self.trim_block.take();
        let _exclusive = self.stores_in_use.write();
        let files = StoreFiles::find::<_, RecoveryError>(&self.stores, &*self.log, trim_guard)?;
        let positions = CheckpointPositions {
            values: value_watermarks(&*self.stores.values)?,
            ids: ids_watermarks(&files.ids.note)?,
            filters: files.filters.as_ref().map(|filters| filters.watermarks.clone()).unwrap_or_default(),
        };
        Ok((files, positions))
    }
}

/// The slots of the partitions in the value store.
fn value_watermarks(values: &LsmValues) -> Result<Watermarks, RecoveryError> {
    let (mut watermarks, mut failed) = (Watermarks::default(), None);
    values.scan(RowKey::PARTITIONS, &mut |key, row| {
        let Some(RowKey::Partition(id)) = RowKey::read(key).filter(|key| key.partition().0 < limits::PARTITIONS)
        else {
            failed = Some(RecoveryError::Damaged(format!("a row of the value store: {}", key.escape_ascii())));
            return;
        };
        match Partition::decode(id, row) {
            Ok(partition) => watermarks.raise(&vec![(id, partition.slot())]),
            Err(error) => failed = Some(damaged("a partition's row")(error)),
        }
    })?;
    failed.map_or(Ok(watermarks), Err)
}
