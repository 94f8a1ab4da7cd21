//! The tests of the registers in PostgreSQL: the suite that every engine passes, on a server that is well, killed, or behind a network that breaks; and
//! what is special about a database.

#![allow(clippy::unwrap_used, reason = "what a test's helper cannot do fails the test")]

mod open;
mod races;
mod server_failures;
mod suite;
mod support;
mod tables;
