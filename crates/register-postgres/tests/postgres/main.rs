//! Tests of the registers in PostgreSQL: the conformance suite with server crashes and network failures, and
//! the properties of the tables and statements.

#![allow(clippy::unwrap_used, reason = "a failed helper fails the test")]

mod open;
mod races;
mod server_failures;
mod suite;
mod support;
mod tables;
mod tls;
