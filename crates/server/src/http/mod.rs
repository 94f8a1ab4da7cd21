//! HTTP, served: counters, tables, imports, events, and pages for people.
//!
//! | address | what | right |
//! |---|---|---|
//! | `POST /v1/tables/{t}/counters/{row}:add` | adds, once | `add` |
//! | `POST /v1/tables/{t}/counters/{row}:set`, `:reset`, `:delete`, `:put` | changes otherwise, once | `admin` |
//! | `GET /v1/tables/{t}/counters/{row}` | reads one | `read` |
//! | `GET /v1/tables/{t}/counters?row=..` or `?prefix=..` | reads many | `read` |
//! | `POST /v1/batch` | many operations, each for itself | as each |
//! | `POST /v1/tables/{t}/operations` | several changes under one id, all or none | as each |
//! | `GET /v1/tables/{t}/operations/{id}`, `GET /v1/operations/{id}?table=` | what became of an id | `read` |
//! | `POST /v1/tables/{t}/events` | CloudEvents, counted | `add` |
//! | `POST /v1/tables/{t}/import` | NDJSON of any length | as each line |
//! | `GET /v1/watch` | changes as they are made | `read` |
//! | `GET /v1/tables`, `GET /v1/tables/{t}` | tables | any |
//! | `PUT /v1/tables/{t}` | makes or changes a table | `admin` |
//! | `PUT /v1/branches/{b}` | holds a branch of a transaction | `add`, in each table |
//! | `POST /v1/branches/{b}/commit`, `/abort`, `GET /v1/branches` | settles it, lists those that are held | to administer the server |
//! | `POST /v1/transactions/{procedure}` | a transaction over databases, once | `add` in `transaction.{procedure}` |
//! | `GET /v1/transactions/{id}` | what stands about one | `read` in `transaction.*` |
//! | `GET /v1/transactions`, `POST /v1/transactions/{id}/resolve` | what is in doubt, and the end of it | to administer the server |
//! | `GET /v1/internal/transactions/{id}/attempts/{n}` | whether this server executes an attempt, for the other servers | `read` in `transaction.*` |
//! | `POST /v1/admin/backup` | copies the store | to administer the server |
//! | `/healthz`, `/readyz`, `/metrics`, `/openapi.json`, `/problems/..`, `/` | for machines and people | none |
//!
//! What must hold, of every address: an id comes from the body or from the header `Idempotency-Key` and is read in a format that the
//! table declares; a problem is `application/problem+json` and says what happened, why, and what to do; everything that a client
//! chooses the size of has a limit; no token is logged or repeated.

mod backup;
mod batch;
mod body;
mod branches;
mod change_body;
mod counters;
mod date;
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
mod percent;
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

pub use server::{ConnectionSlot, Server, serve};

use crate::Service;

/// The addresses of a service, for whoever brings a server of their own. What has no end of its own does not end with it.
pub fn router(service: Arc<Service>) -> axum::Router {
    let (_, closing) = tokio::sync::watch::channel(false);
    routes::router(state::App { service, closing })
}
