//! Tests of the registers in Cassandra, on a real cluster of three nodes: the conformance suite, also while
//! nodes are killed and paused, and what is refused.

#![allow(clippy::unwrap_used, reason = "a failed helper fails the test")]

mod open;
mod outages;
mod races;
mod suite;
mod support;
