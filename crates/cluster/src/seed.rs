//! The directory of a stripe at the start of a node: it is kept if it is a cache of the present chain and is not
//! behind the checkpoint, and replaced by the checkpoint otherwise.
//!
//! The blob `checkpoint` of the directory is a lower bound of what the stores contain, with the state of the
//! chain at that time, so that the stores of another history are detected. While the directory is replaced
//! it is empty.

use std::fs::{self, File};
use std::path::{Path, PathBuf};

use bytes::Bytes;
use futures_executor::block_on;
use jeton_core::PartitionId;
use jeton_core::codec::{DecodeError, Reader, Write as _};
use jeton_register::{Error as RegisterError, Registers, Slot};
use jeton_wal::Blob;
use jeton_wal::disk::private_folder;

use crate::blobs::CacheFolder;
use crate::chain::{Chain, ChainError};
use crate::checkpoint_error::{CheckpointError, io_error};
use crate::manifest::Manifest;
use crate::objects::{Content, Objects};
use crate::open_error::OpenError;

/// The blob with what the stores contain.
const CHECKPOINT: &str = "checkpoint";

/// The folder of an unfinished copy.
const UNFINISHED: &str = "seed";

/// Where the stores have their files. Files of the last folder are only those of the filters.
const FOLDERS: [&str; 3] = ["values", "ids", "rows"];
const FILTERS: &str = "filters";

/// How often the owner may trim the log while it is read.
const ATTEMPTS_MAX: usize = 8;

/// What the stores contain at least.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct LocalCheckpoint {
    /// A state of the chain from which the stores are derived.
    pub chain: Chain,
    /// The lowest watermark of each partition.
    pub slots: Vec<Slot>,
}

impl LocalCheckpoint {
    pub fn at(chain: Chain) -> Self {
        let slots = chain.slots().map(|(_, slot)| slot).collect();
        Self { chain, slots }
    }

    /// Records it, durably.
    pub fn store(&self, folder: &CacheFolder) -> Result<(), jeton_wal::Error> {
        let mut bytes = Vec::new();
        self.chain.encode(&mut bytes);
        self.slots.iter().for_each(|slot| bytes.put_varint(slot.0));
        put(folder, bytes)
    }

    fn decode(empty: &Chain, bytes: &[u8]) -> Result<Self, DecodeError> {
        let mut input = Reader::new(bytes);
        let chain = Chain::decode(empty.stripe().clone(), &mut input)?;
        let slots = chain.slots().map(|_| input.varint().map(Slot)).collect::<Result<_, _>>()?;
        input.finish()?;
        Ok(Self { chain, slots })
    }

    /// Raises the slot of a partition of the stripe.
    pub fn raise(&mut self, partition: PartitionId, slot: Slot) {
        let index = usize::from(partition.0).checked_sub(usize::from(self.chain.stripe().partitions.start));
        if let Some(has) = index.and_then(|index| self.slots.get_mut(index)) {
            *has = slot.max(*has);
        }
    }

    /// Whether the stores have everything up to this state of the chain.
    fn reaches(&self, base: &Chain) -> bool {
        let has_slots = base.slots().zip(&self.slots).all(|((_, needed), has)| needed <= *has);
        self.chain.next() >= base.next() && has_slots
    }
}

fn put(folder: &CacheFolder, bytes: Vec<u8>) -> Result<(), jeton_wal::Error> {
    folder.put(CHECKPOINT, &Blob { version: 0, bytes: Bytes::from(bytes) }).map(drop)
}

/// The log of a stripe, and a directory from which it can be replayed.
pub(crate) struct Prepared {
    /// The replay begins after it.
    pub base: Chain,
    /// At the end of the log.
    pub end: Chain,
    /// Bytes of the frames in between.
    pub bytes: u64,
    /// What the stores contain at least.
    pub local: LocalCheckpoint,
}

/// Reads the log from the latest checkpoint to the end, and makes the directory one that is not behind the
/// checkpoint. Blocks.
pub(crate) fn prepare<R: Registers>(
    registers: &R,
    folder: &CacheFolder,
    empty: &Chain,
) -> Result<Prepared, OpenError> {
    let stripe = empty.stripe();
    let objects = Objects { registers, stripe: stripe.number, stopped: &|| false };
    let mut last = None;
    for _ in 0..ATTEMPTS_MAX {
        let (version, manifest) = Manifest::latest(&objects, stripe)?;
        let base = manifest.as_ref().map_or(empty, |manifest| &manifest.chain);
        let recorded = folder.get(CHECKPOINT)?;
        let local = match recorded {
            Some(blob) if blob.bytes.is_empty() => None,
            Some(blob) => {
                let damaged = |error| CheckpointError::Damaged(format!("blob {CHECKPOINT}: {error}"));
                Some(LocalCheckpoint::decode(empty, &blob.bytes).map_err(damaged)?)
            }
            // Stores that were never trimmed for, or none.
            None => manifest.is_none().then(|| LocalCheckpoint::at(empty.clone())),
        };
        let local = match (local.filter(|local| local.reaches(base)), &manifest) {
            (Some(local), _) => local,
            (None, Some(manifest)) => match replace(&objects, folder, manifest)? {
                Some(()) => LocalCheckpoint::at(base.clone()),
                None if last == Some(version) => {
                    let why = format!("version {version} of the manifest lists objects that are missing");
                    return Err(CheckpointError::Damaged(why).into());
                }
                // A later manifest does not list them, unless it is not there.
                None => {
                    last = Some(version);
                    continue;
                }
            },
            (None, None) => {
                clear(folder.path())?;
                LocalCheckpoint::at(empty.clone())
            }
        };
        match read(registers, base, &local, folder.path()) {
            Err(OpenError::Chain(ChainError::Registers(RegisterError::Trimmed { .. }))) => {}
            read => {
                let (end, bytes) = read?;
                // Now the directory is known to be of this chain.
                local.store(folder)?;
                return Ok(Prepared { base: base.clone(), end, bytes, local });
            }
        }
    }
    Err(RegisterError::Busy(format!("{} is trimmed while it is read", empty.log())).into())
}

/// Reads from the base to the end. The local state must be on the way.
fn read<R: Registers>(
    registers: &R,
    base: &Chain,
    local: &LocalCheckpoint,
    folder: &Path,
) -> Result<(Chain, u64), OpenError> {
    let (mut chain, mut bytes) = (base.clone(), 0);
    for through in [Slot(local.chain.next().0 - 1), Slot::MAX] {
        let visit = |_, frame: crate::Frame<'_>| {
            bytes += frame.size() as u64;
            Ok::<_, ChainError>(())
        };
        block_on(chain.read(registers, through, visit))?;
        if through < Slot::MAX && chain != local.chain {
            let (slot, folder) = (through, folder.to_owned());
            return Err(OpenError::OtherHistory { folder, slot, end: Slot(chain.next().0 - 1) });
        }
    }
    Ok((chain, bytes))
}

/// Replaces the stores by those of a checkpoint. `None` if an object is missing; then the directory may be
/// unusable until it is replaced.
fn replace<R: Registers>(
    objects: &Objects<'_, R>,
    folder: &CacheFolder,
    manifest: &Manifest,
) -> Result<Option<()>, CheckpointError> {
    let path = folder.path();
    let copy = path.join(UNFINISHED);
    for folder in FOLDERS {
        make(&copy.join(folder))?;
    }
    // The stores expect them, also if they are empty.
    make(&copy.join("values/tables"))?;
    for (name, file) in &manifest.files {
        let target = copy.join(name);
        if has_content(&target, &file.content) {
            continue;
        }
        make(target.parent().unwrap_or(&copy))?;
        remove_file(&target)?;
        if has_content(&path.join(name), &file.content) {
            let linked = fs::hard_link(path.join(name), &target);
            linked.or_else(|_| fs::copy(path.join(name), &target).map(drop)).map_err(io_error(&target))?;
            continue;
        }
        let mut output = File::create(&target).map_err(io_error(&target))?;
        if objects.get(file, &mut output)?.is_none() {
            return Ok(None);
        }
        output.sync_all().map_err(io_error(&target))?;
    }
    for found in files_below(&copy)? {
        let listed = found.strip_prefix(&copy).ok().and_then(Path::to_str);
        if !listed.is_some_and(|name| manifest.files.contains_key(name)) {
            remove_file(&found)?;
        }
    }
    let damaged = |error: jeton_wal::Error| CheckpointError::Damaged(format!("blob {CHECKPOINT}: {error}"));
    put(folder, Vec::new()).map_err(damaged)?;
    clear(path)?;
    for folder in ["values", "ids"] {
        sync(&copy.join(folder))?;
        fs::rename(copy.join(folder), path.join(folder)).map_err(io_error(&path.join(folder)))?;
    }
    sync(&path.join("values/tables"))?;
    let rows = path.join("rows");
    for file in files_below(&copy.join("rows"))? {
        let name = file.file_name().unwrap_or_default();
        fs::rename(&file, rows.join(name)).map_err(io_error(&file))?;
    }
    sync(&rows)?;
    sync(path)?;
    fs::remove_dir_all(&copy).map_err(io_error(&copy))?;
    Ok(Some(()))
}

/// Removes the stores.
fn clear(folder: &Path) -> Result<(), CheckpointError> {
    for name in ["values", "ids"] {
        match fs::remove_dir_all(folder.join(name)) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                return Err(io_error(&folder.join(name))(error));
            }
            _ => {}
        }
    }
    for file in files_below(&folder.join("rows"))? {
        if file.file_name().is_some_and(|name| name.as_encoded_bytes().starts_with(FILTERS.as_bytes())) {
            remove_file(&file)?;
        }
    }
    sync(folder)
}

fn has_content(path: &Path, expected: &Content) -> bool {
    let is_long = |file: &File| file.metadata().is_ok_and(|data| data.is_file() && data.len() == expected.length);
    let file = File::open(path).ok().filter(is_long);
    file.is_some_and(|file| Content::of(file).is_ok_and(|content| content == *expected))
}

fn files_below(folder: &Path) -> Result<Vec<PathBuf>, CheckpointError> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).map_err(io_error(folder))? {
        let entry = entry.map_err(io_error(folder))?;
        if entry.file_type().map_err(io_error(folder))?.is_dir() {
            found.extend(files_below(&entry.path())?);
        } else {
            found.push(entry.path());
        }
    }
    Ok(found)
}

fn make(folder: &Path) -> Result<(), CheckpointError> {
    private_folder(folder).map(drop).map_err(io_error(folder))
}

fn remove_file(path: &Path) -> Result<(), CheckpointError> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => Err(io_error(path)(error)),
        _ => Ok(()),
    }
}

fn sync(folder: &Path) -> Result<(), CheckpointError> {
    File::open(folder).and_then(|folder| folder.sync_all()).map_err(io_error(folder))
}
