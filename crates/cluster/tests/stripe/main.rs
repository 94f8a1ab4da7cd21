//! Engines on stripes: takeover, retries at the next owner, caches.

#![allow(clippy::unwrap_used, reason = "a failed helper fails the test")]

mod caches;
mod engines;
mod followers;
mod node;
mod postgres;
mod tables;
