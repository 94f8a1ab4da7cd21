//! Real databases for tests and benchmarks, from the system's packages: started in a folder, killed, paused, and started again.
//!
//! What must hold:
//! - Nothing outlives the process that started it, even if that one is killed. (One exception: a PostgreSQL that is [paused](Postgres::pause) at that moment.)
//! - A killed database is dead when `kill` returns, all of its processes: the next start finds nobody in its way.
//! - What answers to `start` is ready by its own answer.

mod mariadb;
mod postgres;
mod process_tree;
mod proxy;
mod server;
mod spawner;
mod workdir;

pub use mariadb::MariaDb;
pub use postgres::{Postgres, USER as POSTGRES_USER, version as postgres_version};
pub use proxy::Proxy;
pub use rustix::process::Signal;
pub use server::{Server, User, bound_command};
pub use workdir::{folder, free_address};
