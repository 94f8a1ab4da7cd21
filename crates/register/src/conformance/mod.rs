//! The suite that every engine passes: the guarantees of [`Registers`], tested through the trait.
//!
//! It needs no runtime: concurrent writers are threads, so the futures of an engine must complete on any
//! executor. A request that fails as busy, unavailable or unknown is repeated, so that an engine can be
//! tested with injected faults.

mod blobs;
mod block_on;
mod dense;
mod harness;
mod objects;
mod races;
mod registers;
mod retired;
mod routed;

use std::sync::Arc;

pub use self::block_on::block_on;
use self::harness::EngineUnderTest;
pub use self::routed::Routed;
use crate::{LogId, Registers};

/// What the suite needs to know about an engine.
#[derive(Debug, Clone, Copy)]
pub struct EngineLimits {
    /// The largest value, in bytes.
    pub value_bytes_max: usize,
    /// The suite uses this log and the 99 after it. They must be empty, and so must all dated logs, which it
    /// retires.
    pub first_log: u16,
    /// Whether the engine stores objects.
    pub objects: bool,
}

impl Default for EngineLimits {
    fn default() -> Self {
        Self { value_bytes_max: 64 << 10, first_log: 0, objects: true }
    }
}

impl EngineLimits {
    pub fn without_objects() -> Self {
        Self { objects: false, ..Self::default() }
    }

    fn log(&self, number: u16) -> LogId {
        assert!(number < 100);
        LogId::partition(self.first_log + number)
    }

    /// Dated logs in order. Some ids have the highest bit set: an engine must not treat them as negative.
    fn session(&self, number: u16) -> LogId {
        assert!(number < 1000);
        LogId::transaction((1 << 127) - 30 + u128::from(self.first_log) * 1000 + u128::from(number))
    }
}

/// Runs all checks against the store that `open` opens: empty at first, then the same store after a restart.
/// Returns the names of the checks; a failed check panics with its name.
pub async fn conformance<R: Registers>(limits: EngineLimits, open: impl AsyncFn() -> R) -> Vec<&'static str> {
    let mut passed = Vec::new();
    let mut engine = Arc::new(open().await);
    macro_rules! check {
        ($check:path, $name:literal) => {
            $check(&EngineUnderTest::new(&engine, $name), &limits).await;
            passed.push($name);
        };
    }
    check!(registers::takes_one_value, "a register accepts one value");
    check!(registers::twice_in_a_batch, "a register twice in a batch is written once");
    check!(registers::learns_an_outcome, "an unknown outcome is resolved by a repeated write");
    check!(registers::reads_ranges, "a read returns a range in order, up to its limit");
    check!(registers::leaves_gaps_out, "a gap is skipped and can be filled later");
    check!(registers::keeps_values_whole, "an empty and the largest value are read unchanged");
    check!(registers::stays_written, "a trimmed register stays written");
    check!(registers::trims_upwards, "a lower trim point changes nothing");
    check!(races::one_winner, "one of several concurrent writers wins");
    check!(races::sleepers, "a delayed write to a trimmed register is refused");
    check!(races::prefix, "batches of one caller become readable in order");
    check!(retired::far_slots, "a dated log may start anywhere and have gaps");
    check!(retired::stays_written, "a register of a retired log stays written");
    check!(retired::retires_upwards, "a lower retirement mark changes nothing");
    check!(retired::sleepers, "a delayed write to a retired log is refused");
    check!(blobs::stores_blobs, "a blob is stored and replaced atomically");
    check!(blobs::orders_versions, "a lower version of a blob is not stored");
    check!(dense::refuses_gaps, "a dense log has no gaps");
    check!(dense::batches, "a batch leaves no gaps in dense logs");
    check!(dense::follows_trims, "a dense log continues after its trim point");
    if limits.objects {
        check!(objects::stores_objects, "an object is stored whole");
        check!(objects::lists_objects, "objects are listed until they are deleted");
    } else {
        check!(objects::are_refused, "an engine without objects refuses them");
    }
    drop(engine);
    engine = Arc::new(open().await);
    check!(registers::survive_restart, "registers and trim points survive a restart");
    check!(retired::stay_retired, "retired logs stay retired after a restart");
    check!(blobs::survive_restart, "blobs survive a restart");
    check!(dense::survive_restart, "dense logs have no gaps after a restart");
    if limits.objects {
        check!(objects::survive_restart, "objects survive a restart");
    }
    passed
}
