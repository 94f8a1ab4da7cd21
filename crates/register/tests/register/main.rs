//! Tests of the register engines of this crate, and of the conformance suite.

#![allow(clippy::unwrap_used, reason = "a failed helper fails the test")]

mod broken_engines;
mod crashes;
mod embedded;
mod engines;
mod migrate;
