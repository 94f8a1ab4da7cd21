//! The Redis serialisation protocol, both ends of it, without I/O.
//!
//! The server's side is [`request`] (bytes of a client become commands) and [`reply`] (results become bytes); the
//! client's side is [`command`] (commands become bytes) and [`value`] (bytes of a server become values).
//!
//! What always holds here:
//! - No bytes from the other end make this crate panic, or take memory that they have not paid for with their length.
//! - Every length, count and depth has a limit, and what is beyond it is refused as soon as it is announced.
//! - Work is linear in the bytes that came, however they were cut into chunks; and the same bytes give the same
//!   commands, values and errors in one chunk or in many.

#![forbid(unsafe_code)]

mod command_writer;
mod inline;
mod number;
pub mod reply_parser;
pub mod reply_writer;
pub mod request_parser;

pub use command_writer::{command, command_argument, command_header};
