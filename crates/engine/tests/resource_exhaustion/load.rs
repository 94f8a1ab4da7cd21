//! A client that counts what was acknowledged.

use std::path::Path;
use std::sync::mpsc;
use std::time::{Duration, Instant};

use futures_executor::block_on;
use jeton_core::{Cell, Operation, TableSettings};
use jeton_engine::{Engine, EngineError, OperationOutcome};

use crate::common::{add, cells, tiny, total, uuid};

const ROWS: u64 = 64;

/// Upper bound for any wait, however busy the machine is.
const TIMEOUT: Duration = Duration::from_secs(60);

pub struct Client {
    pub engine: Engine,
    cells: Vec<Cell>,
    counts: Counts,
}

/// What the client knows: the number of its next operation, and the number of acknowledged ones.
#[derive(Default, Clone, Copy)]
pub struct Counts {
    next: u64,
    acknowledged: u64,
}

impl Client {
    pub fn open(folder: &Path, counts: Counts) -> Self {
        let engine = Engine::open(folder, tiny(1)).expect("it opens");
        if engine.table("t").is_err() {
            engine.create_table("t", TableSettings::default()).expect("a table");
        }
        Self { cells: cells(&engine, ROWS), engine, counts }
    }

    /// Closes the engine, which must terminate in any state of the disk.
    pub fn close(self) -> Counts {
        let Self { engine, counts, .. } = self;
        let (sender, closed) = mpsc::channel();
        std::thread::spawn(move || {
            drop(engine);
            sender.send(())
        });
        closed.recv_timeout(TIMEOUT).expect("close terminates");
        counts
    }

    /// The next `count` operations.
    fn operations(&mut self, count: u64) -> Vec<Operation> {
        let first = self.counts.next;
        self.counts.next += count;
        let operation = |n: u64| add(&uuid(&self.engine, n), &self.cells[(n % ROWS) as usize], 1);
        (first..first + count).map(operation).collect()
    }

    /// Sends `count` additions at once; returns the last error, if any.
    pub fn add(&mut self, count: u64) -> Option<EngineError> {
        let mut refusal = None;
        for (_, response) in self.begin(count) {
            match block_on(response) {
                Ok(OperationOutcome::Fresh(_)) => self.counts.acknowledged += 1,
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
        let operations = self.operations(count).into_iter();
        operations.map(|operation| (operation.clone(), self.engine.apply(operation))).collect()
    }

    /// Retries dropped operations: each must be new, once.
    pub fn add_again(&mut self, operations: &[Operation]) {
        for operation in operations {
            let again = || block_on(self.engine.apply(operation.clone()));
            let outcome = again();
            let Ok(OperationOutcome::Fresh(result)) = outcome else {
                panic!("a dropped operation was recorded: {outcome:?}")
            };
            assert_eq!(again(), Ok(OperationOutcome::Replayed(result)));
            self.counts.acknowledged += 1;
        }
    }

    /// Adds until it is refused with this error.
    pub fn add_until(&mut self, what: &str, refused: impl Fn(&EngineError) -> bool) -> EngineError {
        let deadline = Instant::now() + TIMEOUT;
        loop {
            match self.add(64) {
                Some(refusal) if refused(&refusal) => return refusal,
                // Busy is transient: a moment later the reason is known.
                Some(EngineError::Busy(_)) | None => {}
                Some(other) => panic!("{what}: refused as {other:?}"),
            }
            assert!(Instant::now() < deadline, "{what}: never refused");
        }
    }

    /// Adds until no addition is refused.
    pub fn add_until_accepted(&mut self, what: &str) {
        let deadline = Instant::now() + TIMEOUT;
        while let Some(refusal) = self.add(64) {
            assert!(Instant::now() < deadline, "{what}: still refused: {refusal}");
        }
    }

    /// Reads everything: exactly the acknowledged additions are there.
    pub fn check(&self, what: &str) {
        assert_eq!(total(&self.engine, &self.cells), self.counts.acknowledged, "{what}");
    }
}
