//! Real databases for tests and benchmarks, from the system's packages and Maven Central: start, kill, pause
//! and restart.
//!
//! Invariants:
//! - No server outlives the process that started it, even if that process is killed. Exception: a PostgreSQL
//!   that is [paused](Database::pause) at that moment.
//! - All processes of a database are dead when `kill` returns, so that nothing disturbs the next start.
//! - `start` returns when the database accepts sessions.

mod cassandra;
mod cassandra_jars;
mod certificate;
mod database;
mod mariadb;
mod postgres;
mod process_tree;
mod proxy;
mod server;
mod spawner;
mod workdir;

pub use cassandra::{Cassandra, Compilation, NODES as CASSANDRA_NODES};
pub use certificate::Certificate;
pub use database::Database;
pub use mariadb::MariaDb;
pub use postgres::{
    Postgres, USER as POSTGRES_USER, program as postgres_program, version as postgres_version,
};
pub use proxy::{ConnectionFaults, Proxy};
pub use rustix::process::Signal;
pub use server::{Server, User, bound_command};
pub use workdir::{folder, free_address};
