#![doc = include_str!("../README.md")]

mod bytes;
mod causality;
mod clock;
mod generation;
mod hash;
mod identity;
mod saved;
#[cfg(feature = "serde")]
mod serde_impl;
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
