//! The conformance suite can fail: engines that each violate one guarantee, and the check that detects it.

use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use bytes::Bytes;
use jeton_register::conformance::{EngineLimits, block_on, conformance};
use jeton_register::memory::MemoryRegisters;
use jeton_register::{Batch, Blob, Error, Extent, LogId, LogKind, Registers, Slot, WritePermit, WriteResult};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Fault {
    /// A second write replaces the value and returns `Fresh`.
    Overwrites,
    /// A second write of the same value returns `Fresh`.
    FreshTwice,
    /// `Taken` contains the value of the loser.
    TakenByYou,
    /// A trimmed register that was never written can be written.
    TrimForgetsGaps,
    /// A trimmed register is empty again.
    TrimResurrects,
    /// A read from below the trim point returns the rest instead of an error.
    TrimHidden,
    /// A lower trim point lowers the trim point.
    TrimsDownwards,
    /// The limit of a read is one too high.
    ReadsTooMuch,
    /// A value loses its last byte.
    Shortens,
    /// Blobs are replaced whatever their version.
    VersionsGoBack,
    /// A dense log accepts a write after an empty register.
    AllowsGaps,
    /// An object is stored in part.
    TearsObjects,
    /// The first object of a deletion is kept.
    KeepsObjects,
    /// A listing ignores the prefix.
    ListsOthers,
    /// A restart loses the registers.
    Forgets,
    /// A slot far above the others is refused.
    RefusesFarSlots,
    /// The registers of a retired log are empty again.
    RetiredResurrects,
    /// Registers of a retired log that were never written can be written.
    RetiredForgetsGaps,
    /// The log with the id itself is retired, too.
    RetiresTooMuch,
    /// A lower mark lowers the mark.
    RetiresDownwards,
    /// A read of a retired log returns nothing instead of an error.
    RetiredHidden,
    /// Logs that are not dated can be retired.
    RetiresAnything,
    /// Writes during a retirement are kept.
    RetiresLate,
    /// A restart loses the retirement marks.
    ForgetsRetired,
}

/// The memory engine with one fault.
struct Broken {
    memory: MemoryRegisters,
    /// A second store for the effects of the fault.
    shadow: MemoryRegisters,
    /// The latest trim of each log.
    trims: Mutex<BTreeMap<LogId, Slot>>,
    /// The latest mark for retiring.
    mark: Mutex<u128>,
    /// The number of retirements.
    retirements: AtomicU64,
    again: bool,
    fault: Fault,
}

fn batch_of(log: LogId, slot: Slot, value: &[u8]) -> Batch {
    let mut batch = Batch::new();
    batch.push(log, slot, value);
    batch
}

impl Broken {
    fn write_one(&self, log: LogId, slot: Slot, value: &[u8]) -> WriteResult {
        let put = |memory: &MemoryRegisters, value: &[u8]| {
            block_on(memory.write(batch_of(log, slot, value), WritePermit::unlimited())).unwrap().remove(0)
        };
        let written = match self.fault {
            Fault::Shortens if value.len() > 60_000 => put(&self.memory, &value[..value.len() - 1]),
            _ => put(&self.memory, value),
        };
        let retired = block_on(self.memory.extent(log)).unwrap() == Extent::RETIRED;
        match self.fault {
            Fault::RetiredResurrects if retired => return put(&self.shadow, value),
            Fault::RetiredForgetsGaps if retired && slot == Slot(1 << 40) => return put(&self.shadow, value),
            Fault::RetiresDownwards if retired && log.id >= *self.mark.lock().unwrap() => {
                return put(&self.shadow, value);
            }
            // Not at once, but among many.
            Fault::RetiresLate if retired && self.retirements.load(Ordering::Relaxed) > 8 => {
                return put(&self.shadow, value);
            }
            Fault::ForgetsRetired if retired && self.again => return put(&self.shadow, value),
            _ => {}
        }
        match (self.fault, &written) {
            (Fault::Overwrites, WriteResult::Taken(_)) => WriteResult::Fresh,
            (Fault::FreshTwice, WriteResult::Taken(taken)) if taken == value => WriteResult::Fresh,
            (Fault::TakenByYou, WriteResult::Taken(_)) => WriteResult::Taken(Bytes::copy_from_slice(value)),
            (Fault::TrimForgetsGaps, WriteResult::Trimmed) if slot == Slot(3) => put(&self.shadow, value),
            (Fault::TrimResurrects, WriteResult::Trimmed) => put(&self.shadow, value),
            (Fault::AllowsGaps, WriteResult::Gap) => WriteResult::Fresh,
            _ => written,
        }
    }
}

impl Registers for Broken {
    fn write(
        &self,
        batch: Batch,
        _: WritePermit,
    ) -> impl Future<Output = Result<Vec<WriteResult>, Error>> + Send + 'static {
        if self.fault == Fault::RefusesFarSlots && batch.iter().any(|(_, slot, _)| slot.0 > 5000) {
            return std::future::ready(Err(Error::TooLarge("too far above the others".into())));
        }
        std::future::ready(Ok(batch
            .iter()
            .map(|(log, slot, value)| self.write_one(log, slot, value))
            .collect()))
    }

    async fn read(&self, log: LogId, from: Slot, limit: usize) -> Result<Vec<(Slot, Bytes)>, Error> {
        match self.fault {
            Fault::ReadsTooMuch => self.memory.read(log, from, limit + 1).await,
            Fault::TrimHidden => {
                let trimmed = self.memory.extent(log).await?.trimmed;
                self.memory.read(log, from.max(trimmed.next()), limit).await
            }
            Fault::RetiredHidden => match self.memory.read(log, from, limit).await {
                Err(Error::Trimmed { through: Slot::MAX, .. }) => Ok(Vec::new()),
                read => read,
            },
            _ => self.memory.read(log, from, limit).await,
        }
    }

    async fn extent(&self, log: LogId) -> Result<Extent, Error> {
        let mut extent = self.memory.extent(log).await?;
        if self.fault == Fault::TrimsDownwards {
            extent.trimmed = self.trims.lock().unwrap().get(&log).copied().unwrap_or_default();
        }
        Ok(extent)
    }

    async fn trim(&self, log: LogId, through: Slot) -> Result<(), Error> {
        self.trims.lock().unwrap().insert(log, through);
        self.memory.trim(log, through).await
    }

    async fn retire(&self, space: LogKind, below: u128) -> Result<(), Error> {
        *self.mark.lock().unwrap() = below;
        self.retirements.fetch_add(1, Ordering::Relaxed);
        match self.fault {
            Fault::RetiresTooMuch => self.memory.retire(space, below.saturating_add(1)).await,
            Fault::RetiresAnything if space == LogKind::Partition => Ok(()),
            _ => self.memory.retire(space, below).await,
        }
    }

    async fn put_blob(&self, name: &str, mut blob: Blob) -> Result<bool, Error> {
        if self.fault == Fault::VersionsGoBack
            && let Some(there) = self.memory.get_blob(name).await?
        {
            blob.version = blob.version.max(there.version);
        }
        self.memory.put_blob(name, blob).await
    }

    async fn get_blob(&self, name: &str) -> Result<Option<Blob>, Error> {
        self.memory.get_blob(name).await
    }

    async fn put_object(&self, name: &str, bytes: Bytes) -> Result<(), Error> {
        let bytes = if self.fault == Fault::TearsObjects { bytes.slice(..bytes.len() / 2) } else { bytes };
        self.memory.put_object(name, bytes).await
    }

    async fn get_object(&self, name: &str) -> Result<Option<Bytes>, Error> {
        self.memory.get_object(name).await
    }

    async fn delete_objects(&self, names: Vec<String>) -> Result<(), Error> {
        let kept = if self.fault == Fault::KeepsObjects { 1 } else { 0 };
        self.memory.delete_objects(names[kept..].to_vec()).await
    }

    async fn list_objects(&self, prefix: &str, after: &str, limit: usize) -> Result<Vec<String>, Error> {
        let prefix = if self.fault == Fault::ListsOthers { "" } else { prefix };
        self.memory.list_objects(prefix, after, limit).await
    }
}

/// The message of the check that fails.
fn detected(fault: Fault) -> String {
    let memory = MemoryRegisters::new();
    let opened = AtomicBool::new(false);
    let open = async || {
        let again = opened.swap(true, Ordering::Relaxed);
        let memory = if again && fault == Fault::Forgets { MemoryRegisters::new() } else { memory.clone() };
        Broken {
            memory,
            shadow: MemoryRegisters::new(),
            trims: Mutex::default(),
            mark: Mutex::default(),
            retirements: AtomicU64::new(0),
            again,
            fault,
        }
    };
    let result = catch_unwind(AssertUnwindSafe(|| block_on(conformance(EngineLimits::default(), open))));
    let panic = result.expect_err(&format!("{fault:?} was not detected"));
    let text = panic.downcast_ref::<String>().cloned().unwrap_or_default();
    assert!(text.starts_with("conformance: "), "{fault:?}: {text}");
    text
}

#[test]
fn every_violation_is_detected_by_its_check() {
    let expected = [
        (Fault::Overwrites, "a register accepts one value"),
        (Fault::FreshTwice, "a register accepts one value"),
        (Fault::TakenByYou, "a register accepts one value"),
        (Fault::TrimForgetsGaps, "a trimmed register stays written"),
        (Fault::TrimResurrects, "a trimmed register stays written"),
        (Fault::TrimHidden, "a trimmed register stays written"),
        (Fault::TrimsDownwards, "a lower trim point changes nothing"),
        (Fault::ReadsTooMuch, "a read returns a range in order"),
        (Fault::Shortens, "an empty and the largest value are read unchanged"),
        (Fault::VersionsGoBack, "a lower version of a blob is not stored"),
        (Fault::AllowsGaps, "a dense log has no gaps"),
        (Fault::TearsObjects, "an object is stored whole"),
        (Fault::KeepsObjects, "objects are listed until they are deleted"),
        (Fault::ListsOthers, "objects are listed until they are deleted"),
        (Fault::Forgets, "registers and trim points survive a restart"),
        (Fault::RefusesFarSlots, "a dated log may start anywhere and have gaps"),
        (Fault::RetiredResurrects, "a register of a retired log stays written"),
        (Fault::RetiredForgetsGaps, "a register of a retired log stays written"),
        (Fault::RetiresTooMuch, "a register of a retired log stays written"),
        (Fault::RetiredHidden, "a register of a retired log stays written"),
        (Fault::RetiresAnything, "a register of a retired log stays written"),
        (Fault::RetiresDownwards, "a lower retirement mark changes nothing"),
        (Fault::RetiresLate, "a delayed write to a retired log is refused"),
        (Fault::ForgetsRetired, "retired logs stay retired after a restart"),
    ];
    for (fault, check) in expected {
        let text = detected(fault);
        assert!(text.contains(check), "{fault:?} was detected elsewhere: {text}");
    }
}
