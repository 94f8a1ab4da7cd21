//! A client that counts what was acknowledged.

use std::path::Path;
use std::sync::mpsc;
use std::time::{Duration, Instant};

use futures_executor::block_on;
use jeton_core::{Cell, Change, Column, OpId, Operation, TableSettings, Value};
use jeton_engine::{Engine, EngineError, OperationOutcome, Options};

const ROWS: u64 = 64;

/// Upper bound for any wait, however busy the machine is.
const PATIENCE: Duration = Duration::from_secs(60);

pub struct Client {
    pub engine: Engine,
    cells: Vec<Cell>,
    next: u64,
    acknowledged: u64,
}

/// What a client knows while its engine is closed.
pub struct Ledger {
    next: u64,
    acknowledged: u64,
}

impl Ledger {
    /// The same client with the engine opened again.
    pub fn open(self, folder: &Path) -> Client {
        Client { next: self.next, acknowledged: self.acknowledged, ..Client::open(folder) }
    }
}

pub fn options() -> Options {
    Options {
        shards: 1,
        segment_bytes: 1 << 20,
        log_bytes: 1 << 18,
        recent_ids: 512,
        dirty_bytes_max: 1 << 20,
        cache_bytes: 1 << 20,
        ..Options::default()
    }
}

impl Client {
    pub fn open(folder: &Path) -> Self {
        let engine = Engine::open(folder, options()).expect("it opens");
        if engine.table("t").is_err() {
            engine.create_table("t", TableSettings::default()).expect("a table");
        }
        let table = engine.table("t").expect("a table");
        let cell = |row: u64| {
            engine.cell(&table, format!("row-{row}").as_bytes(), &Column::unnamed()).expect("a cell")
        };
        Self { cells: (0..ROWS).map(cell).collect(), engine, next: 0, acknowledged: 0 }
    }

    /// The same client with the engine opened again.
    pub fn reopen(self, folder: &Path) -> Self {
        self.close().open(folder)
    }

    /// Closes the engine, which must terminate in any state of the disk.
    pub fn close(self) -> Ledger {
        let Self { engine, next, acknowledged, .. } = self;
        let (sender, closed) = mpsc::channel();
        std::thread::spawn(move || {
            drop(engine);
            sender.send(())
        });
        closed.recv_timeout(PATIENCE).expect("an engine closes within moments");
        Ledger { next, acknowledged }
    }

    fn operation(&self, number: u64) -> Operation {
        let millis = self.engine.now().as_nanos() / 1_000_000;
        let id = OpId::uuid7_from(millis, number.into());
        Operation::single(Some(id), self.cells[(number % ROWS) as usize].clone(), Change::Add(1))
            .expect("an operation")
    }

    /// Sends `count` additions at once; returns the last error, if any.
    pub fn add(&mut self, count: u64) -> Option<EngineError> {
        let answers: Vec<_> =
            (self.next..self.next + count).map(|n| self.engine.apply(self.operation(n))).collect();
        self.next += count;
        let mut refusal = None;
        for answer in answers {
            match block_on(answer) {
                Ok(OperationOutcome::Fresh(_)) => self.acknowledged += 1,
                Ok(other) => panic!("a new id is not known: {other:?}"),
                Err(refused) => refusal = Some(refused),
            }
        }
        refusal
    }

    /// Sends `count` additions at once, and returns them with their pending results.
    pub fn begin(
        &mut self,
        count: u64,
    ) -> Vec<(Operation, impl Future<Output = Result<OperationOutcome, EngineError>> + use<>)> {
        let operations = (self.next..self.next + count).map(|number| self.operation(number));
        let begun = operations.map(|operation| (operation.clone(), self.engine.apply(operation))).collect();
        self.next += count;
        begun
    }

    /// Retries dropped operations: each must be new, once.
    pub fn add_again(&mut self, operations: &[Operation]) {
        for operation in operations {
            let again = || block_on(self.engine.apply(operation.clone()));
            let reply = again();
            let Ok(OperationOutcome::Fresh(answer)) = reply else {
                panic!("what was given up was kept: {reply:?}")
            };
            assert_eq!(again(), Ok(OperationOutcome::Replayed(answer)));
            self.acknowledged += 1;
        }
    }

    /// Adds until it is refused with this error.
    pub fn add_until(&mut self, what: &str, refused: impl Fn(&EngineError) -> bool) -> EngineError {
        let deadline = Instant::now() + PATIENCE;
        loop {
            match self.add(64) {
                Some(refusal) if refused(&refusal) => return refusal,
                // Busy is transient: storing lags, and a moment later the cause is known.
                Some(EngineError::Busy(_)) | None => {}
                Some(other) => panic!("{what}: refused as {other:?}"),
            }
            assert!(Instant::now() < deadline, "{what}: never refused");
        }
    }

    /// Adds until nothing is refused any more.
    pub fn add_until_taken(&mut self, what: &str) {
        let deadline = Instant::now() + PATIENCE;
        while let Some(refusal) = self.add(64) {
            assert!(Instant::now() < deadline, "{what}: still refused: {refusal}");
        }
    }

    /// Reads everything: exactly the acknowledged additions are there.
    pub fn check(&self, what: &str) {
        let value = |cell: &Cell| match block_on(self.engine.get(cell.clone())) {
            Ok(Some(Value::Counter(value))) => value as u64,
            Ok(None) => 0,
            other => panic!("{what}: {other:?}"),
        };
        let total: u64 = self.cells.iter().map(value).sum();
        assert_eq!(total, self.acknowledged, "{what}");
    }
}
