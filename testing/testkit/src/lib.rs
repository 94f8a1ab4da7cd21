//! Helpers of tests, simulations and experiments.

mod rng;

pub use rng::Rng;
