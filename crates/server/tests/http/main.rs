//! The service over HTTP, against a real server with a real store, through real connections.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod access;
mod backups;
mod bad_requests;
mod batches;
mod branches;
mod client;
mod connections;
mod counting;
mod decisions;
mod events;
mod harness;
mod imports;
mod listing;
mod pages;
mod rows;
mod sessions;
mod tables;
mod watch;
