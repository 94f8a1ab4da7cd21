//! Write-once registers in PostgreSQL: for when one machine is not enough, or a PostgreSQL is there anyway.
//!
//! A register is a row, written by `INSERT ... ON CONFLICT DO NOTHING`. What callers write at the same time goes into one statement, so that one
//! commit serves all of them.
//!
//! What must hold, besides what the [trait](jeton_register::Registers) promises:
//! - *A mark comes before what it lets go.* Rows are deleted only when the trim point or the mark of retired logs that covers them is committed. And a
//!   write is called fresh only after the marks were looked at once more, in a snapshot that is taken after its row was inserted. So no register is
//!   fresh twice, though a statement looks at marks as they were when it began.
//! - *Doubt is told.* When a connection is lost, the outcome of what was on its way is [unknown](jeton_register::Error::Unknown), and
//!   nothing is written again in silence: whoever asked would be told that somebody else was first.
//! - *What was acknowledged is durable*, as far as the server keeps its word: sessions commit synchronously, and a server with `fsync = off` is refused.
//!
//! What it cannot know: a standby that was behind and is promoted has lost what it had not received. Then registers are *empty again* that were
//! written, and everything built on them is at risk. With standbys, name them in `synchronous_standby_names`, and promote only one that was in sync. A
//! wait for a standby that an operator cancels (`pg_cancel_backend`) tells the client of a success that only the primary has. Restoring a
//! backup is the same as promoting an old standby. Connections are not encrypted.

mod admission;
mod connection;
mod error;
mod log_id;
mod open_error;
mod options;
mod pipelined_connection;
mod reader;
mod registers;
mod schema;
mod statements;
mod trim;
mod writer;

pub use open_error::OpenError;
pub use options::Options;
pub use registers::{PostgresRegisters, create_schema};
pub use schema::VERSION as SCHEMA_VERSION;
