//! Tests of clusters in one process, over real sockets: whole, while members come and go, and while the network is cut.

#![allow(clippy::unwrap_used, reason = "what a test's helper cannot do fails the test")]

mod cluster;
mod damage;
mod engines;
mod five_members;
mod memory;
mod no_majority;
mod open;
mod snapshots;
mod unauthenticated;
