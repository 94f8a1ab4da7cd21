//! The seeded simulator.

pub mod chance;
pub mod checkers;
pub mod client;
pub mod clock;
pub mod event;
pub mod filters;
mod finishing;
mod happening;
pub mod life;
pub mod model;
mod opening;
pub mod profile;
mod recovering;
pub mod registers;
pub mod run;
mod sending;
pub mod stats;
pub mod values;
pub mod violation;
pub mod world;
