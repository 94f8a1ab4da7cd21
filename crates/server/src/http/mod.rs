//! The HTTP API: counters, tables, imports, events, transactions, and pages for people.
//!
//! | path | effect | right |
//! |---|---|---|
//! | `POST /v1/tables/{t}/counters/{row}:add` | adds, once | `add` |
//! | `POST /v1/tables/{t}/counters/{row}:set`, `:reset`, `:delete`, `:put` | changes a cell, once | `admin` |
//! | `GET /v1/tables/{t}/counters/{row}` | reads one | `read` |
//! | `GET /v1/tables/{t}/counters?row=..` or `?prefix=..` | reads many | `read` |
//! | `POST /v1/batch` | many independent operations | as each |
//! | `POST /v1/tables/{t}/operations` | several changes under one id, atomically | as each |
//! | `GET /v1/tables/{t}/operations/{id}`, `GET /v1/operations/{id}?table=` | status of an id | `read` |
//! | `POST /v1/tables/{t}/events` | CloudEvents, counted | `add` |
//! | `POST /v1/tables/{t}/import` | NDJSON of any length | as each line |
//! | `GET /v1/watch` | stream of changes | `read` |
//! | `GET /v1/tables`, `GET /v1/tables/{t}` | tables | any |
//! | `PUT /v1/tables/{t}` | creates or changes a table | `admin` |
//! | `PUT /v1/branches/{b}` | prepares a branch of a transaction | `add`, in each table |
//! | `POST /v1/branches/{b}/commit`, `/abort`, `GET /v1/branches` | finishes it, lists the prepared ones | to administer the server |
//! | `POST /v1/transactions/{procedure}` | a transaction over databases, once | `add` in `transaction.{procedure}` |
//! | `GET /v1/transactions/{id}` | status of one | `read` in `transaction.*` |
//! | `GET /v1/transactions`, `POST /v1/transactions/{id}/resolve` | lists those in doubt, resolves one | to administer the server |
//! | `GET /v1/internal/transactions/{id}/attempts/{n}` | whether this server executes an attempt, for the other servers | `read` in `transaction.*` |
//! | `POST /v1/admin/backup` | copies the store | to administer the server |
//! | `/healthz`, `/readyz`, `/metrics`, `/openapi.json`, `/problems/..`, `/` | for machines and people | none |
//!
//! What must hold for every path: the id is in the body or in the header `Idempotency-Key` and is
//! parsed in a format of the table; an error is `application/problem+json` with cause and remedy; every size
//! that a client chooses has a limit; no token is logged or repeated.

mod backup;
mod batch;
mod body;
mod branches;
mod change_body;
mod counters;
mod error_mapping;
mod events;
mod health;
mod idempotency_key;
mod import;
mod json;
mod list_counters;
mod metrics_text;
mod openapi;
mod operations;
mod outcome_body;
mod pages;
mod problem;
mod query;
mod request_context;
mod routes;
mod server;
mod settings;
mod state;
mod suggestion;
mod tables;
mod transaction_bodies;
mod transactions;
mod watch;
mod write_timeout;

use std::sync::Arc;

#[cfg(test)]
pub(crate) use problem::Problem;
pub use server::{ConnectionSlot, Server, serve};

use crate::Service;

/// The routes of a service, for an embedding server. Streams then end only with their connection.
pub fn router(service: Arc<Service>) -> axum::Router {
    let (_, closing) = tokio::sync::watch::channel(false);
    routes::router(state::App { service, closing })
}
