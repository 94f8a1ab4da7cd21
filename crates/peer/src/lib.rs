//! Connections between the nodes of a cluster.
//!
//! Both sides prove that they know a secret. Afterwards [`PeerClient`] and [`serve`] send many requests and
//! responses over one connection at a time.
//!
//! Invariants:
//! - Every frame and every queue has a limit. Memory is allocated only for bytes that have arrived.
//! - Before the proof, frames are limited to 256 bytes, and the handshake has a timeout.
//! - A request that was not sent is distinguished from one whose outcome is unknown.

mod client;
mod connection;
mod handshake;
mod server;
mod tls;

pub use client::{CallError, PeerClient};
pub use connection::Endpoint;
pub use handshake::Secret;
pub use server::{Handler, serve};
pub use tls::{Tls, TlsError};
