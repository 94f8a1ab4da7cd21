//! The Redis serialisation protocol (RESP2 and RESP3) for servers and clients, without I/O.
//!
//! A server parses requests with [`request_parser`] and writes replies with [`reply_writer`]. A client writes
//! requests with [`command`] and parses replies with [`reply_parser`].
//!
//! Invariants:
//! - No input makes this crate panic, or allocate more than a small multiple of the bytes received.
//! - Every length, count and depth has a limit. Input above a limit is rejected at the length that announces
//!   it.
//! - Work is linear in the bytes received. Commands, values and errors do not depend on how the input is cut
//!   into chunks.

#![forbid(unsafe_code)]

mod command_writer;
mod inline;
mod number;
pub mod reply_parser;
pub mod reply_writer;
pub mod request_parser;

pub use command_writer::{command, command_argument, command_header};
