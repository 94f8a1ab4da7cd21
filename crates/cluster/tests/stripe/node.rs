//! A node: an engine on a stripe, in a directory of its own.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use futures_executor::block_on;
use jeton_cluster::{Deployment, Follower, NodeId, OpenError, Owner, StripeLog};
use jeton_core::{Cell, Change, Column, OpId, Operation, TableSettings};
use jeton_engine::{Engine, EngineError, OperationOutcome, Options};
use jeton_register::memory::MemoryRegisters;
use jeton_register::{Batch, LogId, LogKind, Registers, WritePermit};
use tempfile::TempDir;

/// The stripe under test, and the number of stripes.
pub const STRIPE: u16 = 1;
pub const STRIPES: u16 = 4;

pub struct Node<R: Registers> {
    pub log: Arc<StripeLog<R>>,
    pub engine: Engine<StripeLog<R>>,
    pub folder: TempDir,
}

/// The identity of the deployment, which the first node writes, and this node since its start.
pub fn identity<R: Registers>(registers: &R, node: u128) -> (Deployment, Owner) {
    static INCARNATIONS: AtomicU64 = AtomicU64::new(1);
    let candidate = Deployment::new(STRIPES, [node as u8; 16], [1; 16]).unwrap();
    let deployment = block_on(Deployment::found(registers, candidate)).unwrap();
    let incarnation = INCARNATIONS.fetch_add(1, Ordering::Relaxed);
    (deployment, Owner { node: NodeId(node), incarnation: incarnation.into() })
}

/// Opens the log of the stripe in a directory, as the node with this number.
pub fn open_log<R: Registers>(
    registers: R,
    node: u128,
    folder: &Path,
) -> Result<Arc<StripeLog<R>>, OpenError> {
    let (deployment, me) = identity(&registers, node);
    Ok(Arc::new(StripeLog::open(Arc::new(registers), deployment, STRIPE, me, folder)?))
}

/// A node that follows the stripe.
pub struct Standby<R: Registers> {
    pub follower: Follower<R>,
    pub folder: TempDir,
}

impl<R: Registers> Standby<R> {
    pub fn open(registers: R, node: u128) -> Self {
        Self::open_in(tempfile::tempdir().unwrap(), registers, node, |_| {})
    }

    pub fn open_in(folder: TempDir, registers: R, node: u128, set: impl FnOnce(&mut Options)) -> Self {
        let (deployment, me) = identity(&registers, node);
        let mut options = Options { shards: 1, ..Options::default() };
        set(&mut options);
        let registers = Arc::new(registers);
        let follower = Follower::open(registers, deployment, STRIPE, me, folder.path(), options).unwrap();
        Self { follower, folder }
    }

    /// Takes the stripe over from the owner in the log.
    pub fn promote(mut self) -> Node<R> {
        let owner = self.follower.catch_up().unwrap().owner();
        let (log, engine) = self.follower.promote(owner).unwrap();
        Node { log, engine, folder: self.folder }
    }
}

impl<R: Registers> Node<R> {
    /// The node takes the stripe over with an empty directory.
    pub fn open(registers: R, node: u128) -> Self {
        Self::open_in(tempfile::tempdir().unwrap(), registers, node, |_| {})
    }

    pub fn open_in(folder: TempDir, registers: R, node: u128, set: impl FnOnce(&mut Options)) -> Self {
        let log = open_log(registers, node, folder.path()).unwrap();
        let mut options = Options { shards: 1, partitions: partitions(), ..Options::default() };
        set(&mut options);
        let engine = Engine::open_on(log.clone(), folder.path(), options).unwrap();
        Self { log, engine, folder }
    }

    /// Creates the table.
    pub fn with_table(self) -> Self {
        self.engine.create_table("t", TableSettings::default()).unwrap();
        self
    }

    pub fn cell(&self, row: u64) -> Cell {
        let table = self.engine.table("t").unwrap();
        self.engine.cell(&table, &row.to_be_bytes(), &Column::unnamed()).unwrap()
    }

    /// Cells of the stripe, each of another row.
    pub fn cells(&self, count: usize) -> Vec<Cell> {
        let of_stripe = |cell: &Cell| partitions().contains(&cell.partition().0);
        (0..).map(|row| self.cell(row)).filter(of_stripe).take(count).collect()
    }

    /// An addition of 1 with an id of its own.
    pub fn addition(&self, cell: &Cell, number: u64) -> Operation {
        let millis = self.engine.now().as_nanos() / 1_000_000;
        let id = OpId::uuid7_from(millis, number.into());
        Operation::single(Some(id), cell.clone(), Change::Add(1)).unwrap()
    }

    pub fn apply(&self, operation: &Operation) -> Result<OperationOutcome, EngineError> {
        block_on(self.engine.apply(operation.clone()))
    }

    /// The sum of the cells.
    pub fn total(&self, cells: &[Cell]) -> i64 {
        let value = |cell: &Cell| block_on(self.engine.get(cell.clone())).unwrap();
        cells.iter().filter_map(|cell| value(cell)?.counter()).sum()
    }
}

/// The partitions of the stripe.
pub fn partitions() -> std::ops::Range<u16> {
    64..128
}

/// The same registers with only the first half of the frames.
pub fn first_half(registers: &MemoryRegisters) -> MemoryRegisters {
    let copy = MemoryRegisters::new();
    for log in [LogId::DEPLOYMENT, LogId { kind: LogKind::Deployment, id: 2 }, LogId::stripe(STRIPE)] {
        let extent = block_on(registers.extent(log)).unwrap();
        let limit = if log == LogId::stripe(STRIPE) { extent.last.0 as usize / 2 } else { usize::MAX };
        let mut batch = Batch::new();
        let mut next = extent.trimmed.next();
        while next <= extent.last && batch.len() < limit {
            let page = block_on(registers.read(log, next, limit - batch.len())).unwrap();
            for (slot, value) in page {
                batch.push(log, slot, &value);
                next = slot.next();
            }
        }
        block_on(copy.write(batch, WritePermit::unlimited())).unwrap();
    }
    copy
}
