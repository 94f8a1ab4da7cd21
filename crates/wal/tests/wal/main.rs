//! Tests of the wal on a disk with injected faults.

#![allow(clippy::unwrap_used, reason = "a failed helper fails the test")]

mod blobs;
mod close;
mod crashes;
mod damage;
mod disk_errors;
mod gate;
mod harness;
mod journal;
mod lock;
mod permissions;
mod threads;
mod versions;
