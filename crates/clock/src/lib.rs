//! Logical clocks: whether one event of a distributed system can have caused another.
//!
//! A [`VectorClock`] knows it exactly and has a number for every process. A [`BloomClock`] has a fixed number of counters for any number of
//! processes: each event increments a few that are drawn from its name, and a message carries all of them. If an event caused another,
//! none of its counters is above those of the other. So *not after* is certain, and *after* is a possibility:
//!
//! ```
//! use bloom_clock::{BloomClock, Causality, Clock, Identity, Shape};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let shape = Shape::new(64)?; // 64 counters, one of them for each event
//! let mut anna = BloomClock::begin(shape, Identity::from_random(*b"random bytes: 01"));
//! let mut berta = BloomClock::begin(shape, Identity::from_random(*b"random bytes: 02"));
//!
//! let sent = anna.tick().clone(); // goes with the message
//! let aside = berta.tick().clone();
//! let received = berta.receive(&sent)?.clone();
//!
//! assert_eq!(received.after(&sent), Causality::Possibly);
//! assert_eq!(sent.after(&aside), Causality::CertainlyNot);
//! # Ok(())
//! # }
//! ```
//!
//! What must hold: **an event that caused another is never told to be certainly not before it**, whatever happens: messages out of order, lost or
//! twice, counters at their limit, processes that come and go. It rests on one promise of whoever uses it: a process that lost its
//! clock takes a new [`Identity`]. One that ends in order keeps it ([`Saved`]).

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
