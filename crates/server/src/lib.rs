//! The server: counters over RESP and HTTP.
//!
//! [`Service`] is shared by both protocols: engine, access control, metrics and change feed. [`resp`]
//! implements the Redis protocol, [`http`] the HTTP API, [`tls`] encryption for both.

mod accept_loop;
mod auth_failures;
mod change_feed;
mod client_memory;
mod error_code;
pub mod http;
mod latency_histogram;
#[cfg(test)]
mod limits;
mod log_limit;
mod metrics;
pub mod node;
mod quota;
pub mod resp;
mod service;
mod store;
mod suggestion;
pub mod tls;
mod transactions;

pub use change_feed::{ChangeEvent, ChangeFeed};
pub use client_memory::{Account, ClientMemory, MemoryExceeded};
pub use metrics::{Metric, Metrics};
pub use service::{Options, Service};
pub use store::Store;
pub use suggestion::nearest;
pub use transactions::Transactions;
