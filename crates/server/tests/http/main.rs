//! The HTTP API of a real server with a real store, over real connections.

#![allow(clippy::unwrap_used, reason = "a panic fails the test")]

mod access;
mod backups;
mod bad_requests;
mod batches;
mod branches;
mod client;
mod connections;
mod decisions;
mod events;
mod harness;
mod hosts;
mod imports;
mod listing;
mod memory;
mod openapi;
mod pages;
mod rows;
mod sessions;
mod tables;
mod watch;
