//! The manifest: the file that lists the live runs and keeps the caller's note.
//!
//! | bytes | content |
//! |---|---|
//! | 8 | magic, version |
//! | 8 | the number of the next run |
//! | 4, then that many | length of the note, the note |
//! | 4, then 25 each | number of runs, and of each: number, generation, checksum of its header, tier |
//! | 8 | checksum of all bytes before |
//!
//! It is replaced as a whole: written under another name, synced, renamed. It exists from the first start on,
//! so a folder with runs and without a manifest has lost it, and is not taken for an empty one.

use jeton_core::codec::{Reader, Write as _};
use xxhash_rust::xxh3::xxh3_64;

use jeton_wal::disk::{Disk, DiskFile};

use super::directory::{RUN_NUMBER_MAX, Store, io_error, read_error};
use super::encoding::u32;
use super::{Error, NOTE_BYTES_MAX, RUNS_MAX};

pub(super) const MANIFEST: &str = "manifest";

/// File name of the next manifest before its rename.
pub(super) const MANIFEST_NEW: &str = "manifest.new";

const MAGIC: [u8; 4] = *b"jtnM";
const VERSION: u32 = 1;
const LISTED_BYTES: usize = 25;
const BYTES_MAX: u64 = (64 + NOTE_BYTES_MAX + RUNS_MAX * LISTED_BYTES) as u64;

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Manifest {
    pub(super) next_run: u64,
    pub(super) note: Vec<u8>,
    /// Sorted by generation, and in it from the oldest to the newest.
    pub(super) runs: Vec<ManifestEntry>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct ManifestEntry {
    pub(super) number: u64,
    pub(super) generation: u64,
    pub(super) seal: u64,
    pub(super) tier: u8,
}

impl Manifest {
    pub(super) fn encode(&self) -> Result<Vec<u8>, Error> {
        limit("a note in bytes", self.note.len(), NOTE_BYTES_MAX)?;
        limit("the number of runs", self.runs.len(), RUNS_MAX)?;
        let mut out = Vec::with_capacity(64 + self.note.len() + self.runs.len() * LISTED_BYTES);
        out.extend_from_slice(&MAGIC);
        out.extend_from_slice(&VERSION.to_le_bytes());
        out.extend_from_slice(&self.next_run.to_le_bytes());
        out.extend_from_slice(&(self.note.len() as u32).to_le_bytes());
        out.extend_from_slice(&self.note);
        out.extend_from_slice(&(self.runs.len() as u32).to_le_bytes());
        for run in &self.runs {
            [run.number, run.generation, run.seal].into_iter().for_each(|number| out.put_u64(number));
            out.push(run.tier);
        }
        out.extend_from_slice(&xxh3_64(&out).to_le_bytes());
        Ok(out)
    }

    pub(super) fn decode(bytes: &[u8]) -> Result<Self, &'static str> {
        let (body, check) = bytes.split_last_chunk().ok_or("the manifest is too short")?;
        if *check != xxh3_64(body).to_le_bytes() {
            return Err("the manifest's checksum does not fit");
        }
        let mut body = Reader::new(body);
        if body.take(4) != Ok(&MAGIC[..]) {
            return Err("this is not a manifest of ids");
        }
        if u32(&mut body) != Some(VERSION) {
            return Err("the manifest has a version that this program does not know");
        }
        let manifest = Self::decode_body(&mut body).filter(|_| body.rest().is_empty());
        let manifest = manifest.ok_or("the manifest's length does not fit its content")?;
        // Otherwise a new run would replace the file of one that is listed.
        let next = manifest.next_run;
        if next > 2 * RUN_NUMBER_MAX || manifest.runs.iter().any(|run| run.number >= next) {
            return Err("the manifest's numbers do not fit together");
        }
        Ok(manifest)
    }

    fn decode_body(body: &mut Reader<'_>) -> Option<Self> {
        let next_run = body.u64().ok()?;
        let note_bytes = u32(body)?;
        let note = body.take(note_bytes as usize).ok()?.to_vec();
        let mut runs = Vec::new();
        for _ in 0..u32(body)? {
            let mut number = || body.u64().ok();
            let (number, generation, seal) = (number()?, number()?, number()?);
            runs.push(ManifestEntry { number, generation, seal, tier: body.u8().ok()? });
        }
        Some(Self { next_run, note, runs })
    }

    pub(super) fn read<D: Disk>(store: &Store<D>) -> Result<Self, Error> {
        let name = store.name(MANIFEST);
        let damaged = |offset, why| Error::Damaged { file: name.clone(), offset, why };
        let file = store.disk.open(&name).map_err(io_error("open", &name))?;
        let size = file.len().map_err(read_error(&name, 0))?;
        if size > BYTES_MAX {
            return Err(damaged(BYTES_MAX, "the manifest is longer than any can be"));
        }
        let mut bytes = vec![0; size as usize];
        file.read_at(&mut bytes, 0).map_err(read_error(&name, 0))?;
        Self::decode(&bytes).map_err(|why| damaged(0, why))
    }
}

/// Writes the next manifest durably under another name. After an error nothing of it is left.
pub(super) fn prepare<D: Disk>(store: &Store<D>, bytes: &[u8]) -> Result<(), Error> {
    let name = store.name(MANIFEST_NEW);
    let write = || {
        let file = store.disk.create(&name, 0).map_err(io_error("create", &name))?;
        file.write_at(bytes, 0).map_err(io_error("write", &name))?;
        file.sync().map_err(io_error("sync", &name))
    };
    // If the removal fails too, the next manifest overwrites it.
    write().inspect_err(|_| drop(store.disk.remove(&name)))
}

/// Renames the prepared manifest. After an error it may or may not be current, and may not survive a crash.
pub(super) fn publish<D: Disk>(store: &Store<D>) -> Result<(), Error> {
    let name = store.name(MANIFEST);
    store.disk.rename(&store.name(MANIFEST_NEW), &name).map_err(io_error("replace", &name))?;
    store.disk.sync_names(&store.folder).map_err(io_error("sync the names in", &store.folder))
}

fn limit(what: &'static str, size: usize, max: usize) -> Result<(), Error> {
    if size <= max { Ok(()) } else { Err(Error::TooLarge { what, size: size as u64, max: max as u64 }) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample() -> Manifest {
        let run = |number| ManifestEntry { number, generation: 7, seal: number * 99, tier: 2 };
        Manifest { next_run: 5, note: b"log position".to_vec(), runs: vec![run(2), run(4)] }
    }

    #[test]
    fn manifest_round_trips_and_detects_damage() {
        let bytes = sample().encode().unwrap();
        assert_eq!(Manifest::decode(&bytes), Ok(sample()));
        for bit in 0..bytes.len() * 8 {
            let mut flipped = bytes.clone();
            flipped[bit / 8] ^= 1 << (bit % 8);
            assert!(Manifest::decode(&flipped).is_err(), "bit {bit}");
        }
        for end in 0..bytes.len() {
            assert!(Manifest::decode(&bytes[..end]).is_err(), "cut at {end}");
        }
    }

    #[test]
    fn a_next_run_that_is_in_use_or_may_overflow_is_refused() {
        for (next_run, is_valid) in [(5, true), (4, false), (u64::MAX, false)] {
            let manifest = Manifest { next_run, ..sample() };
            assert_eq!(Manifest::decode(&manifest.encode().unwrap()).is_ok(), is_valid, "{next_run}");
        }
    }

    #[test]
    fn a_note_beyond_the_limit_is_refused() {
        let note = vec![0; NOTE_BYTES_MAX];
        let mut manifest = Manifest { note, ..sample() };
        assert!(manifest.encode().is_ok());
        manifest.note.push(0);
        assert!(
            matches!(manifest.encode(), Err(Error::TooLarge { max, .. }) if max == NOTE_BYTES_MAX as u64)
        );
    }
}
