//! The service over HTTP, against a real server with a real store, through real connections.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod access;
mod backups;
mod batches;
mod branches;
mod client;
mod connections;
mod counting;
mod decisions;
mod events;
mod imports;
mod listing;
mod mistakes;
mod pages;
mod rows;
mod sessions;
mod tables;
mod watching;
mod world;
