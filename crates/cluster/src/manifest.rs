//! The manifest: which objects are the checkpoint of a stripe, and the state of the chain that they contain.
//!
//! Each version is a register of `manifest/n`, whose slot is the version. A node writes the version after the
//! one that it has built on, so that of two nodes one finds its slot taken.
//!
//! ```text
//! format u8 · term varint · chain · number of files varint · file ... · xxh3-64 of all before u64
//! chain: next slot varint · hash of the frame before u128 · term varint · catalogue version varint ·
//!     0 u8, or 1 u8 · node u128 · incarnation u128 · last slot of each partition varint ...
//! file: path · length varint · term of the object varint · its number varint · xxh3-128 of each piece
//! ```

use std::collections::BTreeMap;
use std::path::{Component, Path};

use jeton_core::codec::{DecodeError, Reader, Write as _};
use jeton_register::{Error as RegisterError, LogId, OBJECT_BYTES_MAX, Registers, Slot};
use xxhash_rust::xxh3::xxh3_64;

use crate::chain::Chain;
use crate::checkpoint_error::CheckpointError;
use crate::deployment::Stripe;
use crate::objects::{Content, ObjectId, Objects, StoredFile};

const FORMAT: u8 = 1;

/// Reads of a manifest that is being replaced.
const READS_MAX: usize = 8;

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Manifest {
    /// The term of the owner that wrote it.
    pub term: Slot,
    /// The files contain every entry up to here.
    pub chain: Chain,
    /// By path below the directory of the stripe.
    pub files: BTreeMap<String, StoredFile>,
}

impl Manifest {
    pub fn encode(&self) -> Vec<u8> {
        let mut out = vec![FORMAT];
        out.put_varint(self.term.0);
        self.chain.encode(&mut out);
        out.put_varint(self.files.len() as u64);
        for (path, file) in &self.files {
            out.put_bytes(path.as_bytes());
            out.put_varint(file.content.length);
            out.put_varint(file.object.term.0);
            out.put_varint(file.object.number.into());
            file.content.pieces.iter().for_each(|hash| out.put_u128(*hash));
        }
        let checksum = xxh3_64(&out);
        out.put_u64(checksum);
        out
    }

    pub fn decode(stripe: Stripe, bytes: &[u8]) -> Result<Self, DecodeError> {
        let Some((content, checksum)) = bytes.split_last_chunk() else { return Err(DecodeError("it is too short")) };
        if xxh3_64(content) != u64::from_le_bytes(*checksum) {
            return Err(DecodeError("it does not match its checksum"));
        }
        let mut input = Reader::new(content);
        if input.u8()? != FORMAT {
            return Err(DecodeError("it has an unknown format"));
        }
        let (term, chain) = (Slot(input.varint()?), Chain::decode(stripe, &mut input)?);
        let mut files = BTreeMap::new();
        for _ in 0..input.count()? {
            let path = std::str::from_utf8(input.bytes()?).map_err(|_| DecodeError("a path is not text"))?;
            if path.is_empty() || !Path::new(path).components().all(|part| matches!(part, Component::Normal(_))) {
                return Err(DecodeError("a path is outside of the directory"));
            }
            let length = input.varint()?;
            let object = ObjectId { term: Slot(input.varint()?), number: input.varint32()? };
            let mut pieces = Vec::new();
            for _ in 0..length.div_ceil(OBJECT_BYTES_MAX as u64) {
                pieces.push(input.u128()?);
            }
            files.insert(path.to_owned(), StoredFile { object, content: Content { length, pieces } });
        }
        input.finish()?;
        Ok(Self { term, chain, files })
    }

    /// The latest version and its manifest.
    pub fn latest<R: Registers>(
        objects: &Objects<'_, R>,
        stripe: &Stripe,
    ) -> Result<(Slot, Option<Self>), CheckpointError> {
        let log = LogId::manifest(stripe.number);
        for _ in 0..READS_MAX {
            let last = objects.insist(|| objects.registers.extent(log))?.last;
            if last == Slot::ZERO {
                return Ok((last, None));
            }
            match objects.insist(|| objects.registers.read(log, last, 1)) {
                Ok(found) => {
                    let damaged = |why| CheckpointError::Damaged(format!("slot {last} of {log}: {why}"));
                    let found = found.first().filter(|(slot, _)| *slot == last);
                    let (_, bytes) = found.ok_or_else(|| damaged("it is missing".to_owned()))?;
                    let decoded = Self::decode(stripe.clone(), bytes);
                    return Ok((last, Some(decoded.map_err(|error| damaged(error.to_string()))?)));
                }
                // A later version replaced it.
                Err(CheckpointError::Registers(RegisterError::Trimmed { .. })) => {}
                Err(error) => return Err(error),
            }
        }
        Err(RegisterError::Busy(format!("{log} is being changed")).into())
    }
}
