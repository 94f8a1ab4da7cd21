//! Checkpoints of a stripe in the registers: an upload of the files of its stores, and the trim of its log.
//!
//! An upload has these steps, each after the one before is durable:
//! 1. The engine stores everything that is in the frames up to a state of the chain.
//! 2. Files that no object has are uploaded.
//! 3. The next manifest lists all files.
//! 4. The log is trimmed to that state of the chain, and the manifests to this one.
//! 5. The objects that the manifest does not list are deleted, except those of later terms.
//!
//! A node may be paused in any of them, and do it late. Names of objects are unique, so a late upload is
//! garbage of an earlier term. A late manifest finds its slot taken, or it is a valid checkpoint: everything in
//! it is durable in the log. Trims and deletions follow from a durable manifest, and later manifests need
//! neither what they trim nor what they delete.

use std::collections::BTreeMap;
use std::fs::File;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use jeton_core::mutated;
use jeton_engine::{CheckpointPositions, Engine, RecoveryError, StoreFiles};
use jeton_register::{Batch, LogId, Registers, Slot, WriteResult};

use crate::chain::Chain;
use crate::checkpoint_error::{CheckpointError, io_error};
use crate::manifest::Manifest;
use crate::objects::{Content, ObjectId, Objects, StoredFile};
use crate::stripe_log::StripeLog;

/// Uploads checkpoints of the stripe that an engine owns.
pub struct Checkpoints<R: Registers> {
    engine: Arc<Engine<StripeLog<R>>>,
    log: Arc<StripeLog<R>>,
    stop: Arc<AtomicBool>,
    /// The latest manifest that is known, and its version.
    base: Option<(Slot, Option<Manifest>)>,
    /// The files that are objects, as far as this node has uploaded or compared them.
    stored: BTreeMap<String, StoredFile>,
    uploaded_bytes: u64,
    /// The manifest is durable, and the bytes of the log that it makes superfluous are not trimmed.
    untrimmed: Option<u64>,
}

impl<R: Registers> Checkpoints<R> {
    pub fn new(engine: Arc<Engine<StripeLog<R>>>, log: Arc<StripeLog<R>>) -> Self {
        Self {
            engine,
            log,
            stop: Arc::default(),
            base: None,
            stored: BTreeMap::new(),
            uploaded_bytes: 0,
            untrimmed: None,
        }
    }

    /// If it is set, the step in progress ends.
    pub(crate) fn stop_flag(&self) -> Arc<AtomicBool> {
        self.stop.clone()
    }

    pub(crate) fn log(&self) -> &StripeLog<R> {
        &self.log
    }

    /// Bytes of objects that the last upload has written.
    pub fn uploaded_bytes(&self) -> u64 {
        self.uploaded_bytes
    }

    /// Whether a manifest is durable, and its clean-up failed.
    pub fn is_cleaned(&self) -> bool {
        self.untrimmed.is_none()
    }

    /// Stores a checkpoint, and trims the log. Blocks. After an error it may be repeated.
    pub fn upload(&mut self) -> Result<(), CheckpointError> {
        self.uploaded_bytes = 0;
        let (target, bytes) = self.log.durable();
        self.engine.store_all()?;
        let (mut files, positions) = self.engine.store_files()?;
        self.check(&target, &positions)?;
        self.find_base()?;
        let listed = self.upload_files(&mut files)?;
        drop(files);
        let manifest = Manifest { term: self.log.term(), chain: target, files: listed };
        if mutated!(TrimBeforeManifest) {
            self.trim_log(&manifest.chain)?;
        }
        self.publish(manifest)?;
        self.untrimmed = Some(bytes);
        self.clean_up()
    }

    /// Everything up to the target must be in the files, and nothing that is not durable in the log.
    fn check(&self, target: &Chain, positions: &CheckpointPositions) -> Result<(), CheckpointError> {
        let (durable, _) = self.log.durable();
        for ((partition, needed), (_, last)) in target.slots().zip(durable.slots()) {
            let CheckpointPositions { values, ids, filters } = positions;
            for (what, watermarks) in [("value store", values), ("id index", ids), ("filters", filters)] {
                let (has, partition) = (watermarks.get(partition), partition.0);
                if has > last.0 {
                    return Err(RecoveryError::Ahead { what, partition, has, ends: last.0 }.into());
                }
                if has < needed.0 {
                    return Err(RecoveryError::Behind { what, partition, has, begins: needed.0 }.into());
                }
            }
        }
        Ok(())
    }

    fn find_base(&mut self) -> Result<(), CheckpointError> {
        if self.base.is_none() {
            let (version, manifest) = self.with_objects(|objects| Manifest::latest(objects, self.log.stripe()))?;
            if manifest.as_ref().is_some_and(|manifest| manifest.term > self.log.term()) {
                return Err(CheckpointError::Deposed);
            }
            // Only the objects that the latest manifest lists, and those of this term, are not deleted.
            let kept = |object: ObjectId| {
                let lists = |manifest: &Manifest| manifest.files.values().any(|file| file.object == object);
                object.term == self.log.term() || manifest.as_ref().is_some_and(lists)
            };
            self.stored.retain(|_, file| kept(file.object));
            self.base = Some((version, manifest));
        }
        Ok(())
    }

    fn upload_files(&mut self, files: &mut StoreFiles) -> Result<BTreeMap<String, StoredFile>, CheckpointError> {
        let folder = self.log.folder().to_owned();
        let mut listed = BTreeMap::new();
        for blob in files.blobs() {
            let path = format!("rows/{blob}");
            let bytes = std::fs::read(folder.join(&path)).map_err(io_error(&folder.join(&path)))?;
            listed.insert(path.clone(), self.store(&path, &bytes)?);
        }
        files.release_blobs();
        for path in files.immutable() {
            let file = match self.stored.get(&path) {
                Some(file) => file.clone(),
                None => self.store_file(&path, &folder)?,
            };
            listed.insert(path, file);
        }
        for (path, bytes) in files.small() {
            listed.insert(path.clone(), self.store(&path, bytes)?);
        }
        Ok(listed)
    }

    fn store_file(&mut self, path: &str, folder: &Path) -> Result<StoredFile, CheckpointError> {
        let name = folder.join(path);
        let open = || File::open(&name).map_err(io_error(&name));
        let content = Content::of(open()?).map_err(io_error(&name))?;
        self.store_content(path, content, |each| {
            Content::read(open()?, each).map_err(io_error(&name))
        })
    }

    fn store(&mut self, path: &str, bytes: &[u8]) -> Result<StoredFile, CheckpointError> {
        let content = Content::of(bytes).map_err(io_error(Path::new(path)))?;
        self.store_content(path, content, |each| Content::read(bytes, each).map_err(io_error(Path::new(path))))
    }

    /// Uploads a file unless there is an object with its content.
    fn store_content(
        &mut self,
        path: &str,
        content: Content,
        read: impl FnOnce(&mut dyn FnMut(usize, Vec<u8>) -> std::io::Result<()>) -> Result<Content, CheckpointError>,
    ) -> Result<StoredFile, CheckpointError> {
        let base = self.base.as_ref().and_then(|(_, manifest)| manifest.as_ref()?.files.get(path));
        let known = [self.stored.get(path), base].into_iter().flatten().find(|file| file.content == content).cloned();
        let file = match known {
            Some(file) => file,
            None => {
                let object = ObjectId { term: self.log.term(), number: self.log.next_object() };
                self.with_objects(|objects| {
                    let mut failed = None;
                    let uploaded = read(&mut |piece, bytes| {
                        objects.put(object, piece, bytes).map_err(|error| {
                            failed = Some(error);
                            std::io::Error::other("not uploaded")
                        })
                    });
                    match (failed, uploaded) {
                        (Some(error), _) => Err(error),
                        (None, Ok(uploaded)) if uploaded == content => Ok(()),
                        (None, Ok(_)) => Err(CheckpointError::Damaged(format!("{path} has changed"))),
                        (None, Err(error)) => Err(error),
                    }
                })?;
                self.uploaded_bytes += content.length;
                StoredFile { object, content }
            }
        };
        self.stored.insert(path.to_owned(), file.clone());
        Ok(file)
    }

    /// Makes the manifest the next version.
    fn publish(&mut self, manifest: Manifest) -> Result<(), CheckpointError> {
        let base = self.base.as_ref().map_or(Slot::ZERO, |(version, _)| *version);
        let (log, version, bytes) = (LogId::manifest(self.log.stripe().number), base.next(), manifest.encode());
        // Whatever happens to the write, the latest manifest is read before the next one is built.
        let before = self.base.take();
        let written = self.with_objects(|objects| {
            objects.insist(|| {
                let mut batch = Batch::new();
                batch.push(log, version, &bytes);
                let permit = objects.registers.admit(1, bytes.len());
                async move { objects.registers.write(batch, permit?).await }
            })
        })?;
        match written.into_iter().next() {
            Some(WriteResult::Fresh) => {}
            Some(WriteResult::Taken(value)) if value == bytes => {}
            Some(WriteResult::Taken(_) | WriteResult::Trimmed) if mutated!(ManifestOnOldBase) => {}
            Some(WriteResult::Taken(_) | WriteResult::Trimmed) => return Err(CheckpointError::Overtaken),
            Some(WriteResult::Gap) | None => {
                let why = format!("{log} has lost slot {base}");
                drop(before);
                return Err(CheckpointError::Damaged(why));
            }
        }
        self.stored.clone_from(&manifest.files);
        self.base = Some((version, Some(manifest)));
        Ok(())
    }

    /// Trims and deletes what the durable manifest makes superfluous.
    pub fn clean_up(&mut self) -> Result<(), CheckpointError> {
        let Some(bytes) = self.untrimmed else { return Ok(()) };
        let Some((version, Some(manifest))) = &self.base else { return Ok(()) };
        self.trim_log(&manifest.chain)?;
        self.log.trimmed(bytes);
        let stripe = self.log.stripe().number;
        let listed: std::collections::BTreeSet<ObjectId> = manifest.files.values().map(|file| file.object).collect();
        let term = manifest.term;
        self.with_objects(|objects| {
            objects.insist(|| objects.registers.trim(LogId::manifest(stripe), Slot(version.0 - 1)))?;
            let is_listed = |object| listed.contains(&object) && !mutated!(DeleteListedObject);
            objects.delete(|object| object.term <= term && !is_listed(object))
        })?;
        self.untrimmed = None;
        Ok(())
    }

    fn trim_log(&self, chain: &Chain) -> Result<(), CheckpointError> {
        let through = Slot(chain.next().0 - 1);
        self.with_objects(|objects| objects.insist(|| objects.registers.trim(chain.log(), through)))
    }

    fn with_objects<T>(&self, act: impl FnOnce(&Objects<'_, R>) -> T) -> T {
        let stopped = || self.stop.load(Ordering::Relaxed);
        act(&Objects { registers: self.log.registers(), stripe: self.log.stripe().number, stopped: &stopped })
    }
}
