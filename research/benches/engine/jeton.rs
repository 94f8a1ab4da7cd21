//! The engine, with ids and without.

use std::path::Path;
use std::sync::Arc;

use jeton_core::{Cell, Change, Column, MissingIdPolicy, Mode, OpId, Operation, Table, TableSettings};
use jeton_engine::{Engine, OperationOutcome, Options};

use crate::callers::Contender;

/// The engine with a table of additions.
pub struct Ours {
    pub engine: Engine,
    table: Arc<Table>,
    pub cells: Vec<Cell>,
    with_ids: bool,
}

/// What the table remembers of ids.
#[derive(Clone, Copy, PartialEq)]
pub enum Memory {
    Exact,
    Probabilistic,
    Nothing,
}

impl Memory {
    pub fn settings(self, settings: TableSettings) -> TableSettings {
        let mode = match self {
            Self::Probabilistic => Mode::Probabilistic { target: 1e-3 },
            Self::Exact | Self::Nothing => Mode::Exact,
        };
        TableSettings { mode, without_id: MissingIdPolicy::AtMostOnce, ..settings }
    }
}

/// A UUIDv7 of this time.
pub fn uuid7(millis: u64, number: u64) -> OpId {
    OpId::uuid7_from(millis, crate::callers::scatter(number).into())
}

/// The wall clock, as a client reads it.
fn millis() -> u64 {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).expect("after 1970");
    since.as_millis() as u64
}

impl Ours {
    pub fn open(folder: &Path, memory: Memory, counters: u64, options: Options) -> Self {
        // About 2,300 ids a second for a day.
        let settings = TableSettings { expected_ids: 200_000_000, ..TableSettings::default() };
        Self::open_with(folder, memory, counters, options, settings)
    }

    pub fn open_with(
        folder: &Path,
        memory: Memory,
        counters: u64,
        options: Options,
        settings: TableSettings,
    ) -> Self {
        let engine = Engine::open(folder, options).expect("it opens");
        let settings = memory.settings(settings);
        let table = match engine.table("bench") {
            Ok(table) => table,
            Err(_) => engine.create_table("bench", settings).expect("a table"),
        };
        let cells = (0..counters).map(|counter| cell(&engine, &table, counter)).collect();
        Self { engine, table, cells, with_ids: memory != Memory::Nothing }
    }

    /// The cell of a counter.
    pub fn cell(&self, counter: u64) -> Cell {
        cell(&self.engine, &self.table, counter)
    }
}

/// The cell of a counter.
fn cell(engine: &Engine, table: &Table, counter: u64) -> Cell {
    let mut row = *b"counter-00000000";
    let mut rest = counter;
    for digit in row.iter_mut().rev().take(8) {
        *digit = b'0' + (rest % 10) as u8;
        rest /= 10;
    }
    engine.cell(table, &row, &Column::unnamed()).expect("a cell")
}

impl Contender for Ours {
    async fn add(&self, counter: u64, number: u64) {
        let id = self.with_ids.then(|| uuid7(millis(), number));
        // Built from its name, as in a server.
        let operation = Operation::single(id, self.cell(counter), Change::Add(1)).expect("an operation");
        match self.engine.apply(operation).await {
            Ok(OperationOutcome::Fresh(_) | OperationOutcome::ProbablySeen) => {}
            other => panic!("{other:?}"),
        }
    }
}
