//! The filters on disk: blobs of bounded size, written incrementally while the shards continue.
//!
//! | blob | content |
//! |---|---|
//! | `filters` | watermarks of the filters, and the blobs of the current and the previous version |
//! | `filters-table-era-side-piece` | a piece of what [`Era::write_filters`] writes |
//!
//! Versions alternate between two sides, so a version that is not committed changes nothing of the current
//! one. The blob `filters` names the current version and is written last.

use std::collections::BTreeSet;
use std::io;

use bytes::Bytes;
use jeton_core::codec::{DecodeError, Reader, Write as _};
use jeton_core::{Catalog, Era, TableId};
use jeton_wal::{Blob, Error as LogError};

use crate::partition_log::BlobStore;
use crate::watermarks::Watermarks;

const HEAD: &str = "filters";
const FORMAT: u8 = 2;

/// A version of the filters: its eras, and the number of pieces of each.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct FilterVersion {
    number: u64,
    eras: Vec<(TableId, u32, u32)>,
}

impl FilterVersion {
    fn row(&self, table: TableId, era: u32, piece: u32) -> String {
        format!("{HEAD}-{}-{era}-{}-{piece}", table.0, self.number % 2)
    }

    fn rows(&self) -> impl Iterator<Item = String> {
        let eras = self.eras.iter().copied();
        eras.flat_map(move |(table, era, pieces)| (0..pieces).map(move |piece| self.row(table, era, piece)))
    }

    fn encode(&self, out: &mut Vec<u8>) {
        out.put_varint(self.eras.len() as u64);
        for (table, era, pieces) in &self.eras {
            for number in [table.0, *era, *pieces] {
                out.put_varint(u64::from(number));
            }
        }
    }

    fn decode(number: u64, input: &mut Reader<'_>) -> Result<Self, DecodeError> {
        let mut version = Self { number, eras: Vec::new() };
        for _ in 0..input.count()? {
            let mut number =
                || u32::try_from(input.varint()?).map_err(|_| DecodeError("a number too large for filters"));
            version.eras.push((TableId(number()?), number()?, number()?));
        }
        Ok(version)
    }
}

/// The stored filters: the content of the blob `filters`.
#[derive(Debug, Clone, Default)]
pub struct StoredFilters {
    pub watermarks: Watermarks,
    current: FilterVersion,
    /// On the other side. Its blobs are unused but take space.
    previous: FilterVersion,
}

impl StoredFilters {
    /// Reads the blob `filters`, if it exists.
    pub fn find<B: BlobStore>(blobs: &B) -> Result<Option<Self>, LogError> {
        let blob = blobs.get_blob(HEAD)?;
        let damaged = |error| LogError::Damaged(format!("the blob {HEAD}: {error}"));
        blob.map(|blob| Self::decode(&blob).map_err(damaged)).transpose()
    }

    fn decode(blob: &Blob) -> Result<Self, DecodeError> {
        let mut input = Reader::new(&blob.bytes);
        if input.u8()? != FORMAT {
            return Err(DecodeError("filters of an unknown version"));
        }
        let watermarks = Watermarks::decode(&mut input)?;
        let current = FilterVersion::decode(blob.version, &mut input)?;
        let previous = FilterVersion::decode(blob.version.saturating_sub(1), &mut input)?;
        input.finish()?;
        Ok(Self { watermarks, current, previous })
    }

    /// The names of all blobs that a reader needs.
    pub fn rows(&self) -> impl Iterator<Item = String> {
        std::iter::once(HEAD.to_owned()).chain(self.current.rows())
    }

    /// The stored eras.
    pub fn stored_eras(&self) -> Vec<(TableId, u32)> {
        self.current.eras.iter().map(|(table, era, _)| (*table, *era)).collect()
    }

    /// The encoded filters of an era. `None` if the era is newer: then the log contains all of its ids.
    pub fn reader<'a, B: BlobStore>(
        &'a self,
        blobs: &'a B,
        table: TableId,
        era: u32,
    ) -> Option<impl io::Read + 'a> {
        let (_, _, pieces) = self.current.eras.iter().find(|one| (one.0, one.1) == (table, era))?;
        let names = (0..*pieces).map(move |piece| self.current.row(table, era, piece));
        Some(Pieces { blobs, names, version: self.current.number, piece: Bytes::new() })
    }

    /// Writes the filters as the next version. Readers ignore it until it is [committed](Self::commit).
    pub fn write<B: BlobStore>(
        &self,
        blobs: &B,
        catalog: &Catalog,
        piece_bytes: usize,
    ) -> Result<FilterVersion, LogError> {
        let mut version = FilterVersion { number: self.current.number + 1, eras: Vec::new() };
        for (table, era) in catalog.iter().flat_map(|table| table.eras().map(|era| (table.id, era))) {
            let mut rows =
                Rows { blobs, version: &version, table, era, pieces: 0, piece: Vec::new(), piece_bytes };
            let written = era.write_filters(&mut rows).and_then(|()| rows.write_piece());
            let pieces = rows.pieces;
            written.map_err(|error| match error.downcast::<LogError>() {
                Ok(failure) => failure,
                Err(error) => LogError::Unavailable(error.to_string()),
            })?;
            version.eras.push((table, era.number, pieces));
        }
        Ok(version)
    }

    /// Makes a version the current one. It contains every id up to the watermarks, and only ids whose entries
    /// are durable.
    pub fn commit<B: BlobStore>(
        &mut self,
        blobs: &B,
        version: FilterVersion,
        watermarks: Watermarks,
    ) -> Result<(), LogError> {
        assert_eq!(version.number, self.current.number + 1, "versions of filters are consecutive");
        let number = version.number;
        let mut bytes = vec![FORMAT];
        watermarks.encode(&mut bytes);
        version.encode(&mut bytes);
        self.current.encode(&mut bytes);
        blobs.put_blob(HEAD, &Blob { version: number, bytes: Bytes::from(bytes) })?;
        // Blobs of dropped eras. They cannot be removed, only emptied; one that is not emptied takes space.
        let needed: BTreeSet<String> = version.rows().collect();
        for name in self.previous.rows().filter(|name| !needed.contains(name)) {
            drop(blobs.put_blob(&name, &Blob { version: number, bytes: Bytes::new() }));
        }
        self.watermarks = watermarks;
        self.previous = std::mem::replace(&mut self.current, version);
        Ok(())
    }
}

/// Writes bytes as blobs of `piece_bytes`.
struct Rows<'a, B> {
    blobs: &'a B,
    version: &'a FilterVersion,
    table: TableId,
    era: &'a Era,
    pieces: u32,
    piece: Vec<u8>,
    piece_bytes: usize,
}

impl<B: BlobStore> Rows<'_, B> {
    fn write_piece(&mut self) -> io::Result<()> {
        let name = self.version.row(self.table, self.era.number, self.pieces);
        let bytes = Bytes::from(std::mem::take(&mut self.piece));
        let blob = Blob { version: self.version.number, bytes };
        self.blobs.put_blob(&name, &blob).map_err(io::Error::other)?;
        self.pieces += 1;
        Ok(())
    }
}

impl<B: BlobStore> io::Write for Rows<'_, B> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.piece.len() == self.piece_bytes {
            self.write_piece()?;
        }
        if self.piece.is_empty() {
            self.piece.reserve_exact(self.piece_bytes);
        }
        let taken = bytes.len().min(self.piece_bytes - self.piece.len());
        self.piece.extend_from_slice(&bytes[..taken]);
        Ok(taken)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Reads the bytes of blobs in order.
struct Pieces<'a, B, N> {
    blobs: &'a B,
    names: N,
    version: u64,
    piece: Bytes,
}

impl<B: BlobStore, N: Iterator<Item = String>> io::Read for Pieces<'_, B, N> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        while self.piece.is_empty() {
            let Some(name) = self.names.next() else { return Ok(0) };
            let blob = self.blobs.get_blob(&name).map_err(io::Error::other)?;
            let blob = blob.ok_or_else(|| io::Error::other(format!("the blob {name} is missing")))?;
            if blob.version != self.version {
                return Err(io::Error::other(format!("the blob {name} has another version")));
            }
            self.piece = blob.bytes;
        }
        let given = into.len().min(self.piece.len());
        into[..given].copy_from_slice(&self.piece.split_to(given));
        Ok(given)
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test may panic")]
mod tests {
    use std::io::Read;

    use jeton_core::{TableSettings, Timestamp};
    use jeton_wal::Wal;
    use jeton_wal::disk::FaultDisk;

    use super::*;

    const PIECE: usize = 40;

    fn catalog() -> Catalog {
        Catalog::default().create("t", TableSettings::default(), Timestamp::ZERO).unwrap()
    }

    fn blobs() -> Wal<FaultDisk> {
        Wal::open(FaultDisk::new(), jeton_wal::Options::small(64 << 10)).unwrap()
    }

    /// The stored filters of the only era, or the error.
    fn read(blobs: &Wal<FaultDisk>, table: TableId) -> Result<Vec<u8>, String> {
        let stored = StoredFilters::find(blobs).unwrap().unwrap();
        let mut bytes = Vec::new();
        let mut input = stored.reader(blobs, table, 1).unwrap();
        input.read_to_end(&mut bytes).map(|_| bytes).map_err(|error| error.to_string())
    }

    fn put(blobs: &Wal<FaultDisk>, name: &str, slot: u64) {
        let blob = Blob { version: slot, bytes: Bytes::from_static(b"other") };
        assert!(blobs.put_blob(name, &blob).unwrap());
    }

    #[test]
    fn a_committed_version_is_read_back_in_pieces() {
        let (blobs, catalog) = (blobs(), catalog());
        let table = catalog.find("t").unwrap();
        let mut expected = Vec::new();
        table.present().write_filters(&mut expected).unwrap();
        let mut stored = StoredFilters::default();
        let first = stored.write(&blobs, &catalog, PIECE).unwrap();
        assert!(first.rows().count() > 1, "more than one piece");
        assert!(StoredFilters::find(&blobs).unwrap().is_none(), "not committed");
        stored.commit(&blobs, first, Watermarks::default()).unwrap();
        assert_eq!(read(&blobs, table.id).as_ref(), Ok(&expected));

        // Damage to the next version does not affect the current one.
        let second = stored.write(&blobs, &catalog, PIECE).unwrap();
        second.rows().for_each(|row| put(&blobs, &row, 2));
        assert_eq!(read(&blobs, table.id), Ok(expected));

        // A piece of another version is an error.
        let piece = StoredFilters::find(&blobs).unwrap().unwrap().rows().nth(1).unwrap();
        put(&blobs, &piece, 3);
        assert_eq!(read(&blobs, table.id), Err(format!("the blob {piece} has another version")));
    }

    #[test]
    fn rows_of_tables_that_a_later_version_lacks_are_emptied() {
        let (blobs, full, empty) = (blobs(), catalog(), Catalog::default());
        let mut stored = StoredFilters::default();
        let mut rows = Vec::new();
        for catalog in [&full, &empty, &empty] {
            let version = stored.write(&blobs, catalog, PIECE).unwrap();
            rows.extend(version.rows());
            stored.commit(&blobs, version, Watermarks::default()).unwrap();
        }
        assert!(!rows.is_empty());
        for row in rows {
            assert!(blobs.get_blob(&row).unwrap().unwrap().bytes.is_empty(), "{row}");
        }
    }
}
