//! The files of a checkpoint as objects of the registers.
//!
//! A file is one object for each [`OBJECT_BYTES_MAX`] bytes. The names are unique: the stripe, the term and a
//! number of the node that wrote them, and the number of the piece. An object is written once, before the
//! manifest that lists it.

use std::future::Future;
use std::io::{self, Read, Write};
use std::time::Duration;

use bytes::Bytes;
use futures_executor::block_on;
use jeton_register::{Error as RegisterError, OBJECT_BYTES_MAX, Registers, Slot};
use xxhash_rust::xxh3::xxh3_128;

use crate::checkpoint_error::CheckpointError;

/// Attempts of a request to the registers, and the first and the longest pause between them.
const ATTEMPTS_MAX: u32 = 12;
const PAUSE_MIN: Duration = Duration::from_millis(5);
const PAUSE_MAX: Duration = Duration::from_millis(500);

/// Names per listing.
const NAMES_MAX: usize = 1000;

/// The object of a file: all of its pieces.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct ObjectId {
    pub term: Slot,
    pub number: u32,
}

impl ObjectId {
    pub fn name(self, stripe: u16, piece: usize) -> String {
        format!("{}{:016x}-{:08x}-{piece:05x}", prefix(stripe), self.term.0, self.number)
    }

    /// The object of a piece.
    fn of(stripe: u16, name: &str) -> Option<Self> {
        let mut parts = name.strip_prefix(&prefix(stripe))?.split('-');
        let term = u64::from_str_radix(parts.next()?, 16).ok()?;
        let number = u32::from_str_radix(parts.next()?, 16).ok()?;
        Some(Self { term: Slot(term), number })
    }
}

fn prefix(stripe: u16) -> String {
    format!("stripe-{stripe}.")
}

/// A file of a checkpoint.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct StoredFile {
    pub object: ObjectId,
    pub content: Content,
}

/// The size of a file, and the hashes of its pieces.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Content {
    pub length: u64,
    pub pieces: Vec<u128>,
}

impl Content {
    /// Calls `each` for every piece.
    pub fn read(mut from: impl Read, mut each: impl FnMut(usize, Vec<u8>) -> io::Result<()>) -> io::Result<Self> {
        let mut content = Self::default();
        loop {
            let mut piece = Vec::new();
            from.by_ref().take(OBJECT_BYTES_MAX as u64).read_to_end(&mut piece)?;
            if piece.is_empty() {
                return Ok(content);
            }
            content.length += piece.len() as u64;
            content.pieces.push(xxh3_128(&piece));
            each(content.pieces.len() - 1, piece)?;
        }
    }

    pub fn of(from: impl Read) -> io::Result<Self> {
        Self::read(from, |_, _| Ok(()))
    }
}

/// The objects of a stripe.
pub(crate) struct Objects<'a, R> {
    pub registers: &'a R,
    pub stripe: u16,
    /// Whether to give up.
    pub stopped: &'a dyn Fn() -> bool,
}

impl<R: Registers> Objects<'_, R> {
    /// Repeats a request whose outcome is unknown, or that can succeed later. Every request may be repeated.
    pub fn insist<T, F>(&self, mut request: impl FnMut() -> F) -> Result<T, CheckpointError>
    where
        F: Future<Output = Result<T, RegisterError>>,
    {
        let mut pause = PAUSE_MIN;
        let mut attempts = 1;
        loop {
            match block_on(request()) {
                Ok(result) => return Ok(result),
                Err(
                    RegisterError::Unknown(_)
                    | RegisterError::Unavailable(_)
                    | RegisterError::Busy(_)
                    | RegisterError::Full(_),
                ) if attempts < ATTEMPTS_MAX => {}
                Err(error) => return Err(error.into()),
            }
            if (self.stopped)() {
                return Err(CheckpointError::Stopped);
            }
            std::thread::sleep(pause);
            pause = PAUSE_MAX.min(2 * pause);
            attempts += 1;
        }
    }

    /// Stores a piece of an object.
    pub fn put(&self, object: ObjectId, piece: usize, bytes: Vec<u8>) -> Result<(), CheckpointError> {
        let (name, bytes) = (object.name(self.stripe, piece), Bytes::from(bytes));
        self.insist(|| self.registers.put_object(&name, bytes.clone()))
    }

    /// Writes the content of a file. `None` if an object is missing.
    pub fn get(&self, file: &StoredFile, into: &mut impl Write) -> Result<Option<()>, CheckpointError> {
        let mut length = 0;
        for (piece, hash) in file.content.pieces.iter().enumerate() {
            let name = file.object.name(self.stripe, piece);
            let Some(bytes) = self.insist(|| self.registers.get_object(&name))? else { return Ok(None) };
            if xxh3_128(&bytes) != *hash {
                return Err(CheckpointError::Damaged(format!("object {name} does not match its checksum")));
            }
            length += bytes.len() as u64;
            into.write_all(&bytes).map_err(|source| CheckpointError::Io { path: name.into(), source })?;
        }
        if length != file.content.length {
            let name = file.object.name(self.stripe, 0);
            return Err(CheckpointError::Damaged(format!("object {name} has another length")));
        }
        Ok(Some(()))
    }

    /// Deletes the objects that `is_garbage` returns true for.
    pub fn delete(&self, is_garbage: impl Fn(ObjectId) -> bool) -> Result<(), CheckpointError> {
        let prefix = prefix(self.stripe);
        let mut after = String::new();
        loop {
            let names = self.insist(|| self.registers.list_objects(&prefix, &after, NAMES_MAX))?;
            let Some(last) = names.last() else { return Ok(()) };
            after = last.clone();
            let of = |name: &String| ObjectId::of(self.stripe, name);
            let garbage: Vec<String> = names.into_iter().filter(|name| of(name).is_some_and(&is_garbage)).collect();
            if !garbage.is_empty() {
                self.insist(|| self.registers.delete_objects(garbage.clone()))?;
            }
        }
    }
}
