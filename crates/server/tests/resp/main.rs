//! The protocol of Redis from outside: the same commands to Redis and to us, and what only we have.

#![allow(clippy::unwrap_used, reason = "in a test, a panic is the report")]

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
