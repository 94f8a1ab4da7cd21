//! The live files at one moment, held for a copy.

use std::sync::Arc;

use jeton_register::disk::Disk;

use super::version::Version;

/// The live files at one moment. While this is held, none of them is removed; none ever changes.
///
/// A backup is a copy of the runs, and then of the manifest's bytes under the manifest's name: the manifest on the disk may be
/// a later one by then.
pub struct Files<D: Disk> {
    pub(super) runs: Vec<String>,
    pub(super) manifest: (String, Vec<u8>),
    /// What keeps them.
    pub(super) _listing: Arc<Version<D>>,
}

impl<D: Disk> Files<D> {
    /// The names of the runs on the disk.
    pub fn runs(&self) -> &[String] {
        &self.runs
    }

    /// The manifest's name on the disk.
    pub fn manifest_name(&self) -> &str {
        &self.manifest.0
    }

    /// The manifest that lists these runs, and no others.
    pub fn manifest(&self) -> &[u8] {
        &self.manifest.1
    }
}
