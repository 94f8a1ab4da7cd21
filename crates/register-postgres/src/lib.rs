//! Write-once registers in PostgreSQL, for a cluster of servers.
//!
//! A register is a row, written by `INSERT ... ON CONFLICT DO NOTHING`. Concurrent writes go into one
//! statement, so that one commit serves all of them.
//!
//! Invariants, besides those of the [trait](jeton_register::Registers):
//! - *A mark is committed before the rows that it covers are deleted.* A mark is a trim point or a
//!   retirement. A write is fresh only if the marks allow it in a second snapshot, taken after its row was
//!   inserted: a statement sees the marks as of its start. So no register is fresh twice.
//! - *Unknown outcomes are reported.* When a connection is lost, the outcome of its writes is
//!   [unknown](jeton_register::Error::Unknown). They are not repeated here: the caller would find its own
//!   value and take it for another's.
//! - *Acknowledged writes are durable* if the server guarantees it: sessions commit synchronously, and a
//!   server with `fsync = off` is refused.
//!
//! What the engine cannot detect: a standby that is promoted without the latest transactions has *empty
//! registers* that were written before, which breaks every guarantee built on them. Name the standbys in
//! `synchronous_standby_names`, and promote only one that is in sync. An operator who cancels a wait for a
//! standby (`pg_cancel_backend`) acknowledges a transaction that only the primary has. A restore of a backup
//! is like a promotion of an old standby.
//!
//! [`Connector`] is the connection to PostgreSQL for participants of transactions too.

mod connection;
mod connector;
mod error;
mod log_id;
mod objects;
mod open_error;
mod options;
mod pipelined_connection;
mod reader;
mod registers;
mod schema;
mod statements;
mod trim;
mod writer;

pub use connector::{Connector, is_tls_refusal, take_parameters};
pub use open_error::OpenError;
pub use options::Options;
pub use registers::{PostgresRegisters, create_schema};
pub use schema::VERSION as SCHEMA_VERSION;
