//! The suite can fail: engines that each break one promise, and the check that notices.

use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use bytes::Bytes;
use jeton_register::conformance::{Terms, conformance};
use jeton_register::memory::Memory;
use jeton_register::{Batch, Extent, Failure, Log, Permit, Registers, Row, Slot, Space, Written, block_on};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Fault {
    /// The second write replaces the value and says that it was the first.
    Overwrites,
    /// Tells a second writer of the same value that it was the first.
    FreshTwice,
    /// Tells the loser of a race its own value.
    TakenByYou,
    /// A trimmed register that was never written can be written.
    TrimForgetsGaps,
    /// A trimmed register is empty again.
    TrimResurrects,
    /// A read from below the trim point returns what is left, without a word.
    TrimHidden,
    /// A lower trim point lowers the trim point.
    TrimsDownwards,
    /// The limit of a read is one too high.
    ReadsTooMuch,
    /// A value loses its last byte.
    Shortens,
    /// Rows are replaced whatever their slot.
    RowsGoBack,
    /// Opened again, the registers are gone.
    Forgets,
    /// A slot of a dated log is refused if it is far above the others.
    RefusesFarSlots,
    /// The registers of a retired log are empty again.
    RetiredResurrects,
    /// Those of a retired log that were never written can be written.
    RetiredForgetsGaps,
    /// The log with the id itself is retired as well.
    RetiresTooMuch,
    /// A lower mark lowers the mark: a log between the two can be written again.
    RetiresDownwards,
    /// A read of a retired log finds nothing, without a word.
    RetiredHidden,
    /// Logs are retired that are not dated.
    RetiresAnything,
    /// What was written while a retirement went on is kept, and answered.
    RetiresLate,
    /// Opened again, the marks of retired logs are gone.
    ForgetsRetired,
}

/// The memory engine with one fault.
struct Broken {
    memory: Memory,
    /// A second store, for what the fault must do behind the first one's back.
    shadow: Memory,
    /// The latest trim of each log.
    trims: Mutex<BTreeMap<Log, Slot>>,
    /// The latest mark for retiring.
    mark: Mutex<u128>,
    /// How often was retired.
    retirements: AtomicU64,
    again: bool,
    fault: Fault,
}

fn batch_of(log: Log, slot: Slot, value: &[u8]) -> Batch {
    let mut batch = Batch::new();
    batch.push(log, slot, value);
    batch
}

impl Broken {
    fn write_one(&self, log: Log, slot: Slot, value: &[u8]) -> Written {
        let put = |memory: &Memory, value: &[u8]| {
            block_on(memory.write(batch_of(log, slot, value), Permit::unlimited())).unwrap().remove(0)
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
            // Not the first time that it is asked, but in the midst of many.
            Fault::RetiresLate if retired && self.retirements.load(Ordering::Relaxed) > 8 => {
                return put(&self.shadow, value);
            }
            Fault::ForgetsRetired if retired && self.again => return put(&self.shadow, value),
            _ => {}
        }
        match (self.fault, &written) {
            (Fault::Overwrites, Written::Taken(_)) => Written::Fresh,
            (Fault::FreshTwice, Written::Taken(taken)) if taken == value => Written::Fresh,
            (Fault::TakenByYou, Written::Taken(_)) => Written::Taken(Bytes::copy_from_slice(value)),
            (Fault::TrimForgetsGaps, Written::Trimmed) if slot == Slot(3) => put(&self.shadow, value),
            (Fault::TrimResurrects, Written::Trimmed) => put(&self.shadow, value),
            _ => written,
        }
    }
}

impl Registers for Broken {
    fn write(
        &self,
        batch: Batch,
        _: Permit,
    ) -> impl Future<Output = Result<Vec<Written>, Failure>> + Send + 'static {
        if self.fault == Fault::RefusesFarSlots && batch.iter().any(|(_, slot, _)| slot.0 > 5000) {
            return std::future::ready(Err(Failure::TooLarge("too far above the others".into())));
        }
        std::future::ready(Ok(batch
            .iter()
            .map(|(log, slot, value)| self.write_one(log, slot, value))
            .collect()))
    }

    async fn read(&self, log: Log, from: Slot, limit: usize) -> Result<Vec<(Slot, Bytes)>, Failure> {
        match self.fault {
            Fault::ReadsTooMuch => self.memory.read(log, from, limit + 1).await,
            Fault::TrimHidden => {
                let trimmed = self.memory.extent(log).await?.trimmed;
                self.memory.read(log, from.max(trimmed.next()), limit).await
            }
            Fault::RetiredHidden => match self.memory.read(log, from, limit).await {
                Err(Failure::Trimmed { through: Slot::MAX, .. }) => Ok(Vec::new()),
                read => read,
            },
            _ => self.memory.read(log, from, limit).await,
        }
    }

    async fn extent(&self, log: Log) -> Result<Extent, Failure> {
        let mut extent = self.memory.extent(log).await?;
        if self.fault == Fault::TrimsDownwards {
            extent.trimmed = self.trims.lock().unwrap().get(&log).copied().unwrap_or_default();
        }
        Ok(extent)
    }

    async fn trim(&self, log: Log, through: Slot) -> Result<(), Failure> {
        self.trims.lock().unwrap().insert(log, through);
        self.memory.trim(log, through).await
    }

    async fn retire(&self, space: Space, below: u128) -> Result<(), Failure> {
        *self.mark.lock().unwrap() = below;
        self.retirements.fetch_add(1, Ordering::Relaxed);
        match self.fault {
            Fault::RetiresTooMuch => self.memory.retire(space, below.saturating_add(1)).await,
            Fault::RetiresAnything if space == Space::Partition => Ok(()),
            _ => self.memory.retire(space, below).await,
        }
    }

    async fn put_row(&self, name: &str, mut row: Row) -> Result<bool, Failure> {
        if self.fault == Fault::RowsGoBack
            && let Some(there) = self.memory.get_row(name).await?
        {
            row.slot = row.slot.max(there.slot);
        }
        self.memory.put_row(name, row).await
    }

    async fn get_row(&self, name: &str) -> Result<Option<Row>, Failure> {
        self.memory.get_row(name).await
    }
}

/// The name of the check that fails.
fn caught(fault: Fault) -> String {
    let memory = Memory::new();
    let opened = AtomicBool::new(false);
    let open = async || {
        let again = opened.swap(true, Ordering::Relaxed);
        let memory = if again && fault == Fault::Forgets { Memory::new() } else { memory.clone() };
        Broken {
            memory,
            shadow: Memory::new(),
            trims: Mutex::default(),
            mark: Mutex::default(),
            retirements: AtomicU64::new(0),
            again,
            fault,
        }
    };
    let result = catch_unwind(AssertUnwindSafe(|| block_on(conformance(Terms::default(), open))));
    let panic = result.expect_err(&format!("{fault:?} was not noticed"));
    let text = panic.downcast_ref::<String>().cloned().unwrap_or_default();
    assert!(text.starts_with("conformance: "), "{fault:?}: {text}");
    text
}

#[test]
fn every_broken_promise_is_noticed_by_the_check_that_is_about_it() {
    let expected = [
        (Fault::Overwrites, "a register takes one value for ever"),
        (Fault::FreshTwice, "a register takes one value for ever"),
        (Fault::TakenByYou, "a register takes one value for ever"),
        (Fault::TrimForgetsGaps, "a trimmed register stays written"),
        (Fault::TrimResurrects, "a trimmed register stays written"),
        (Fault::TrimHidden, "a trimmed register stays written"),
        (Fault::TrimsDownwards, "a lower trim point changes nothing"),
        (Fault::ReadsTooMuch, "a read returns a range in order"),
        (Fault::Shortens, "an empty value and the largest one come back whole"),
        (Fault::RowsGoBack, "a row is never replaced by one with a lower slot"),
        (Fault::Forgets, "registers and trim points are there after opening again"),
        (Fault::RefusesFarSlots, "a dated log may begin anywhere and have any gaps"),
        (Fault::RetiredResurrects, "a register of a retired log stays written"),
        (Fault::RetiredForgetsGaps, "a register of a retired log stays written"),
        (Fault::RetiresTooMuch, "a register of a retired log stays written"),
        (Fault::RetiredHidden, "a register of a retired log stays written"),
        (Fault::RetiresAnything, "a register of a retired log stays written"),
        (Fault::RetiresDownwards, "a lower mark for retiring changes nothing"),
        (Fault::RetiresLate, "a writer that slept while others retired its log is refused"),
        (Fault::ForgetsRetired, "retired logs stay so after opening again"),
    ];
    for (fault, check) in expected {
        let text = caught(fault);
        assert!(text.contains(check), "{fault:?} was noticed elsewhere: {text}");
    }
}
