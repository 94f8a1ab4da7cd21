//! The RESP server from outside: comparison with a real Redis, and the commands that only Jeton has.

#![allow(clippy::unwrap_used, reason = "a panic fails the test")]

mod access;
mod atomic;
mod client;
mod expiry;
mod ids;
mod limits;
mod log_bytes;
mod metadata;
mod pipelines;
mod random;
mod redis;
mod redis_parity;
mod scan;
mod server;
mod shutdown;
mod tables;
