//! The live files at one moment, kept for a copy.

use std::sync::Arc;

use jeton_wal::disk::Disk;

use super::version::Version;

/// The live files at one moment. While this value lives, none of them is removed; none ever changes.
///
/// A backup copies the runs, then writes the manifest's bytes under the manifest's name: the manifest on disk
/// may be a later one by then.
pub struct Files<D: Disk> {
    pub(super) runs: Vec<String>,
    pub(super) manifest: (String, Vec<u8>),
    /// Keeps the files.
    pub(super) _listing: Arc<Version<D>>,
}

impl<D: Disk> Files<D> {
    pub fn runs(&self) -> &[String] {
        &self.runs
    }

    pub fn manifest_name(&self) -> &str {
        &self.manifest.0
    }

    /// The manifest that lists exactly these runs.
    pub fn manifest(&self) -> &[u8] {
        &self.manifest.1
    }
}
