//! Tests of clusters in one process over real sockets: complete, with restarts of members, and with a
//! partitioned network.

#![allow(clippy::unwrap_used, reason = "a failed helper fails the test")]

mod cluster;
mod damage;
mod engines;
mod five_members;
mod memory;
mod no_majority;
mod open;
mod snapshots;
mod unauthenticated;
