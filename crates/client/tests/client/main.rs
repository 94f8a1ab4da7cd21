//! The client against a real server in the same process, over TCP.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod basics;
mod chaos;
mod outbox;
mod retries;
mod server;
mod tls;
