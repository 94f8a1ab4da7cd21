//! Write-once registers in Apache Cassandra, by lightweight transactions (conditional writes decided by
//! Paxos).
//!
//! A log is a partition. Its row with slot 0 is the *control row*: a version, the highest slot ever written,
//! and the trim point. Every write and every trim is one conditional batch, which changes the control row, on
//! the condition that it is what the writer knows, and inserts or deletes rows. So a register is written
//! once, a trimmed register stays written, and a dense log has no gaps: a writer that knows too little
//! changes nothing and gets the present control row.
//!
//! Invariants, besides those of the [trait](jeton_register::Registers):
//! - *Every write is conditional.* A request that is executed late, after its caller gave it up, finds its
//!   condition or changes nothing. Exceptions: rows of retired logs are deleted unconditionally, and objects
//!   never change.
//! - *Unknown outcomes are reported.* The driver repeats nothing. A conditional write that ends with a
//!   timeout, a lost connection or an error of the server is [unknown](jeton_register::Error::Unknown), and
//!   the control row is forgotten.
//! - *A retirement is marked before rows are deleted*, and a write to a dated log is reported as fresh or
//!   taken only after a read of the mark that follows it.
//! - *Unsafe nodes are refused*, at the opening and later: with `paxos_variant` other than `v2`, with
//!   `paxos_state_purging` other than `repaired`, or with a periodic sync of the commit log.
//!
//! Order: batches that write the same log become durable in the order of the calls. Logs do not wait for each
//! other.
//!
//! What the engine cannot detect: a node that is replaced or restored with old data, or tables that another
//! program changes. `nodetool repair --paxos-only` must run regularly (`docs/cassandra.md`).

mod address;
mod blobs;
mod cluster;
mod control;
mod failure;
mod lanes;
mod log_writer;
mod node_check;
mod objects;
mod open_error;
mod options;
mod reader;
mod registers;
mod retirement;
mod schema;
mod statements;

pub use node_check::NodeReport;
pub use open_error::OpenError;
pub use options::Options;
pub use registers::{CassandraRegisters, create_schema};
pub use schema::VERSION as SCHEMA_VERSION;
