//! What tests, simulations and experiments share.

mod rng;

pub use rng::Rng;
