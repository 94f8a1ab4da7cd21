//! The engine, with ids and without.

use std::path::Path;

use jeton_core::{Cell, Change, Column, Mode, OpId, Operation, TableSettings, WithoutId};
use jeton_engine::{Engine, Options, Reply};

use crate::callers::Contender;

/// The engine with a table of additions.
pub struct Ours {
    pub engine: Engine,
    pub cells: Vec<Cell>,
    with_ids: bool,
}

/// What the table is to remember.
#[derive(Clone, Copy, PartialEq)]
pub enum Memory {
    Exact,
    Probabilistic,
    Nothing,
}

/// A UUID of version 7 of this time.
pub fn uuid7(millis: u64, number: u64) -> OpId {
    let random = u128::from(crate::callers::scatter(number)) & 0x3fff_ffff_ffff_ffff;
    let bits = u128::from(millis) << 80 | 7 << 76 | u128::from(number & 0xfff) << 64 | 0b10 << 62 | random;
    OpId::uuid7(bits).expect("it is one")
}

/// The wall clock, as a client reads it.
fn millis() -> u64 {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).expect("after 1970");
    since.as_millis() as u64
}

impl Ours {
    pub fn open(folder: &Path, memory: Memory, counters: u64, options: Options) -> Self {
        // A table that knows its load: about 2,300 ids a second for a day.
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
        let probabilistic = Mode::Probabilistic { target: 1e-3 };
        let mode = if memory == Memory::Probabilistic { probabilistic } else { Mode::Exact };
        let settings = TableSettings { mode, without_id: WithoutId::AtMostOnce, ..settings };
        let table = match engine.table("bench") {
            Ok(table) => table,
            Err(_) => engine.create_table("bench", settings).expect("a table"),
        };
        let cell = |counter: u64| {
            engine
                .cell(&table, format!("counter-{counter:08}").as_bytes(), &Column::unnamed())
                .expect("a cell")
        };
        let cells = (0..counters).map(cell).collect();
        Self { engine, cells, with_ids: memory != Memory::Nothing }
    }
}

impl Contender for Ours {
    async fn add(&self, counter: u64, number: u64) {
        let id = self.with_ids.then(|| uuid7(millis(), number));
        let cell = self.cells[counter as usize].clone();
        let operation = Operation::single(id, cell, Change::Add(1)).expect("an operation");
        match self.engine.apply(operation).await {
            Ok(Reply::Fresh(_) | Reply::ProbablySeen) => {}
            other => panic!("{other:?}"),
        }
    }
}
