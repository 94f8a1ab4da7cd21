#![doc = include_str!("../README.md")]
#![warn(missing_docs)]

mod causality;
mod clock;
#[cfg(test)]
mod compare;
mod delta;
mod encoding;
mod generation;
mod hash;
mod identity;
mod parameters;
mod stamp;
mod vector;

pub use causality::Causality;
pub use clock::{BloomClock, Clock, StampError};
pub use delta::{DeltaDecoder, DeltaEncoder, DeltaError};
pub use encoding::DecodeError;
pub use generation::Generation;
pub use identity::Identity;
pub use parameters::{COUNTERS_MAX, ClockParams, ClockParamsError, HASHES_MAX, TickKey};
pub use stamp::Stamp;
pub use vector::{PROCESSES_MAX, VectorClock, VectorStamp};
