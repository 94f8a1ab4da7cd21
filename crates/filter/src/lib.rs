//! A Bloom filter that remembers ids for a time window, then forgets them.
mod key;
mod line;
pub mod paper;
mod sync;

pub use key::{Fingerprint, Key};
