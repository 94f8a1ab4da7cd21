//! A file of the [`FaultDisk`](super::FaultDisk): its content, and what of it survives a power failure.

use std::collections::BTreeMap;

/// The unit of a torn write: a sector is kept or lost atomically.
pub const SECTOR_BYTES: usize = 512;

type Sector = [u8; SECTOR_BYTES];

/// A file's bytes, as issued and as durable.
#[derive(Debug, Clone, Default)]
pub struct Inode {
    /// The content as a reader sees it.
    pub issued: Vec<u8>,
    /// The content that survives a power failure.
    durable: Vec<u8>,
    /// The contents of each sector written since the last sync, oldest first.
    unsynced: BTreeMap<usize, Vec<Sector>>,
}

impl Inode {
    /// A new file of zeros. Until its first sync not even its length is certain.
    pub fn zeros(bytes: usize) -> Self {
        Self { issued: vec![0; bytes], ..Self::default() }
    }

    pub fn write(&mut self, bytes: &[u8], offset: usize) {
        let end = offset + bytes.len();
        if self.issued.len() < end {
            self.issued.resize(end, 0);
        }
        self.issued[offset..end].copy_from_slice(bytes);
        for sector in offset / SECTOR_BYTES..end.div_ceil(SECTOR_BYTES) {
            let content = sector_of(&self.issued, sector);
            self.unsynced.entry(sector).or_default().push(content);
        }
    }

    pub fn sync(&mut self) {
        if self.unsynced.len() * SECTOR_BYTES < self.issued.len() && self.durable.len() == self.issued.len() {
            for &sector in self.unsynced.keys() {
                put_sector(&mut self.durable, sector, &sector_of(&self.issued, sector));
            }
        } else {
            self.durable.clone_from(&self.issued);
        }
        self.unsynced.clear();
    }

    /// The power fails: every unsynced sector is as it was before, or as one of the writes left it.
    pub fn crash(&mut self, fate: UnsyncedFate, random: &mut impl FnMut() -> u64) {
        let len = match fate {
            UnsyncedFate::Lost => self.durable.len(),
            UnsyncedFate::Kept => self.issued.len(),
            UnsyncedFate::Torn if random().is_multiple_of(2) => self.durable.len(),
            UnsyncedFate::Torn => self.issued.len(),
        };
        self.durable.resize(len, 0);
        for (&sector, versions) in &self.unsynced {
            // Version 0 is the content before.
            let version = match fate {
                UnsyncedFate::Lost => 0,
                UnsyncedFate::Kept => versions.len(),
                UnsyncedFate::Torn => (random() % (versions.len() as u64 + 1)) as usize,
            };
            if let Some(content) = version.checked_sub(1).map(|index| &versions[index]) {
                put_sector(&mut self.durable, sector, content);
            }
        }
        self.unsynced.clear();
        self.issued.clone_from(&self.durable);
    }

    /// Flips one bit, durably.
    pub fn flip(&mut self, offset: usize, bit: u8) {
        let mask = 1 << (bit % 8);
        self.issued[offset] ^= mask;
        if let Some(byte) = self.durable.get_mut(offset) {
            *byte ^= mask;
        }
        for version in self.unsynced.get_mut(&(offset / SECTOR_BYTES)).into_iter().flatten() {
            version[offset % SECTOR_BYTES] ^= mask;
        }
    }
}

/// The result of a power failure for unsynced writes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum UnsyncedFate {
    Lost,
    Kept,
    Torn,
}

impl UnsyncedFate {
    /// `Torn` half of the time: the other two are more frequent in practice, but torn writes find more bugs.
    pub fn draw(random: &mut impl FnMut() -> u64) -> Self {
        match random() % 4 {
            0 => Self::Lost,
            1 => Self::Kept,
            _ => Self::Torn,
        }
    }
}

fn sector_of(bytes: &[u8], sector: usize) -> Sector {
    let mut content = [0; SECTOR_BYTES];
    let start = sector * SECTOR_BYTES;
    let end = bytes.len().min(start + SECTOR_BYTES);
    content[..end - start].copy_from_slice(&bytes[start..end]);
    content
}

fn put_sector(bytes: &mut [u8], sector: usize, content: &Sector) {
    let start = sector * SECTOR_BYTES;
    if start < bytes.len() {
        let end = bytes.len().min(start + SECTOR_BYTES);
        bytes[start..end].copy_from_slice(&content[..end - start]);
    }
}
