#![doc = include_str!("../README.md")]

mod bytes;
mod causality;
mod clock;
pub mod estimate;
#[cfg(feature = "serde")]
mod form;
mod generation;
mod hash;
mod identity;
mod saved;
mod session;
mod shape;
mod stamp;
mod vector;

pub use bytes::Malformed;
pub use causality::{Causality, Relation};
pub use clock::{BloomClock, Clock, Refusal};
pub use generation::Generation;
pub use identity::Identity;
pub use saved::Saved;
pub use session::{OutOfStep, Reading, Writing};
pub use shape::{COUNTERS_MAX, HASHES_MAX, Shape, ShapeError, TickKey};
pub use stamp::Stamp;
pub use vector::{PROCESSES_MAX, VectorClock, VectorStamp};
