//! Write-once registers: a register accepts one value for ever.
//!
//! Everything that must be agreed on in Jeton is a write-once register, and nothing else is. Registers are named by a
//! [`Log`] and a [`Slot`] in it, because nearly all of them are steps of something: slot 7 of a partition's log is what
//! that partition did seventh, whoever wrote it.
//!
//! What must hold of every engine ([`Registers`]):
//! - *One value.* All answers about a register, ever, name the same value.
//! - *Durable.* What a write or a read has answered survives every crash.
//! - *A trimmed register stays written.* After a trim its value is gone, and a write to it is refused, for ever. The same holds of all
//!   registers of a log that is retired. Both are tested in the same atomic step as the write: a writer that slept meanwhile is refused.
//! - *An unknown outcome is resolved by writing again*: the answer says whether the value was there already.

/// Whether a planted bug acts here.
#[cfg(feature = "mutations")]
macro_rules! mutated {
    ($name:ident) => {
        jeton_core::mutated!($name)
    };
}

/// Whether a planted bug acts here: never, unless the feature `mutations` is on.
#[cfg(not(feature = "mutations"))]
macro_rules! mutated {
    ($name:ident) => {
        false
    };
}

mod batch;
mod block_on;
pub mod conformance;
pub mod disk;
pub mod embedded;
mod failure;
pub mod memory;
mod name;
mod registers;
mod thread;

pub use batch::Batch;
pub use block_on::block_on;
pub use failure::Failure;
pub use name::{Log, Slot, Space};
pub use registers::{Extent, Limits, Permit, Registers, Room, Row, Written};
pub use thread::{EndWithPanic, start_thread};
