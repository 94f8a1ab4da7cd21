//! The HTTP API: counters, tables, imports, events, transactions, and pages for people.
//!
//! `routes.rs` lists the paths, `openapi.rs` describes them, and each handler checks its right.
//!
//! What must hold for every path: the id is in the body or in the header `Idempotency-Key` and is
//! parsed in a format of the table; an error is `application/problem+json` with cause and remedy; every size
//! that a client chooses has a limit; no token is logged or repeated.

mod backup;
mod batch;
mod body;
mod branches;
pub(crate) mod bulk;
mod change_body;
mod cluster;
mod counters;
mod error_mapping;
mod events;
mod health;
mod hosts;
mod idempotency_key;
pub(crate) mod import;
mod json;
mod list_counters;
mod metrics_text;
mod openapi;
mod operations;
mod outcome_body;
mod pages;
mod problem;
mod query;
mod reply_memory;
pub(crate) mod request_context;
mod routes;
mod server;
mod settings;
mod state;
mod tables;
mod transaction_bodies;
mod transactions;
pub(crate) mod watch;
mod write_timeout;

use std::sync::Arc;

#[cfg(test)]
pub(crate) use problem::Problem;
pub use server::{ConnectionSlot, Server};
pub(crate) use transaction_bodies::PeerBody;

use crate::Service;

/// The routes of a service, for an embedding server. Streams then end only with their connection.
pub fn router(service: Arc<Service>) -> axum::Router {
    let (_, closing) = tokio::sync::watch::channel(false);
    routes::router(state::App { service, closing })
}
