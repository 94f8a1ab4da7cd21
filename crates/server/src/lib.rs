//! The service: counters over RESP and HTTP.
//!
//! [`Service`] is what both protocols share: the engine, who may do what, what is counted about the service itself, and who watches.
//! [`resp`] speaks the protocol of Redis, [`http`] HTTP, [`tls`] keeps what is said from others.

mod accept_loop;
mod change_feed;
mod error_code;
pub mod http;
mod latency_histogram;
mod metrics;
mod quota;
pub mod resp;
mod service;
pub mod tls;
mod transactions;

pub use change_feed::{ChangeEvent, ChangeFeed};
pub use metrics::{Metric, Metrics};
pub use service::{Options, Service};
pub use transactions::Transactions;
