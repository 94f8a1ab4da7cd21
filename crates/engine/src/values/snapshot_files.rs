//! The live files of the tree at one moment, kept for a copy.

use lsm_tree::{AbstractTree, AnyTree, Table};

use super::ValuesError;
use super::version_pointer::VersionPointer;

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
    pub(super) fn of(tree: &AnyTree, folder: &VersionPointer) -> Result<Self, ValuesError> {
        let version = tree.current_version();
        let number = version.id();
        let listing = folder
            .read_version(number)
            .map_err(|error| ValuesError(format!("cannot read version {number}: {error}")))?;
        let pointer = (VersionPointer::CURRENT.to_owned(), VersionPointer::pointer(number, &listing));
        // The pointer is last, as when the tree writes it.
        let small = vec![(VersionPointer::version_file(number), listing), pointer];
        Ok(Self { tables: version.iter_tables().cloned().collect(), small })
    }

    /// File names of the tables in the tree's folder.
    pub fn tables(&self) -> impl Iterator<Item = String> {
        self.tables.iter().map(|table| format!("{}/{}", VersionPointer::TABLES, table.id()))
    }
}
