//! The suite that every engine passes: what [`Registers`] promises, asked of an engine from outside.
//!
//! It needs no runtime: where writers race they do so on threads of their own, so an engine's futures must come to their end whoever polls
//! them. It asks again when an engine is busy, out of reach or in doubt; so an engine may be tested while its requests fail.

mod races;
mod registers;
mod retired;
mod rows;
mod subject;

use std::sync::Arc;

use self::subject::Subject;
use crate::{Log, Registers};

/// What the suite must know about an engine.
#[derive(Debug, Clone, Copy)]
pub struct Terms {
    /// A value of so many bytes is taken.
    pub value_bytes_max: usize,
    /// The suite may use this log and the 99 after it, which must be empty. So must be all dated logs: it retires them.
    pub first_log: u16,
}

impl Default for Terms {
    fn default() -> Self {
        Self { value_bytes_max: 64 << 10, first_log: 0 }
    }
}

impl Terms {
    fn log(&self, number: u16) -> Log {
        assert!(number < 100);
        Log::partition(self.first_log + number)
    }

    /// Dated logs, in their order. The first ones have ids below half of all, and others above: an engine must not take them for
    /// negative.
    fn session(&self, number: u16) -> Log {
        assert!(number < 1000);
        Log::transaction((1 << 127) - 30 + u128::from(self.first_log) * 1000 + u128::from(number))
    }
}

/// Runs every check against the store that `open` opens: an empty one at first, and the same one when it is opened again, after the
/// engine before it was dropped. The names of the checks that passed; a check that fails panics with its name.
pub async fn conformance<R: Registers>(terms: Terms, open: impl AsyncFn() -> R) -> Vec<&'static str> {
    let mut passed = Vec::new();
    let mut engine = Arc::new(open().await);
    macro_rules! check {
        ($check:path, $name:literal) => {
            $check(&Subject::new(&engine, $name), &terms).await;
            passed.push($name);
        };
    }
    check!(registers::takes_one_value, "a register takes one value for ever");
    check!(registers::twice_in_a_batch, "a batch that names a register twice writes it once");
    check!(registers::learns_an_outcome, "an outcome that is unknown is learnt by writing again");
    check!(registers::reads_ranges, "a read returns a range in order, within its limit");
    check!(registers::leaves_gaps_out, "a gap is left out, and can be filled later");
    check!(registers::keeps_values_whole, "an empty value and the largest one come back whole");
    check!(registers::stays_written, "a trimmed register stays written");
    check!(registers::trims_upwards, "a lower trim point changes nothing");
    check!(races::one_winner, "of racing writers one wins, and all are told of it");
    check!(races::sleepers, "a writer that slept while others trimmed is refused");
    check!(races::prefix, "batches of one caller become readable in their order");
    check!(retired::far_slots, "a dated log may begin anywhere and have any gaps");
    check!(retired::stays_written, "a register of a retired log stays written");
    check!(retired::retires_upwards, "a lower mark for retiring changes nothing");
    check!(retired::sleepers, "a writer that slept while others retired its log is refused");
    check!(rows::keeps_rows, "a row is kept whole, and replaced whole");
    check!(rows::orders_rows, "a row is never replaced by one with a lower slot");
    drop(engine);
    engine = Arc::new(open().await);
    check!(registers::are_there_again, "registers and trim points are there after opening again");
    check!(retired::are_retired_again, "retired logs stay so after opening again");
    check!(rows::are_there_again, "rows are there after opening again");
    passed
}
