//! HTTP, served: counters, tables, imports, events, and pages for people.
//!
//! | address | what | right |
//! |---|---|---|
//! | `POST /v1/tables/{t}/counters/{row}:add` | adds, once | `add` |
//! | `POST /v1/tables/{t}/counters/{row}:set`, `:reset`, `:delete`, `:put` | changes otherwise, once | `admin` |
//! | `GET /v1/tables/{t}/counters/{row}` | reads one | `read` |
//! | `GET /v1/tables/{t}/counters?row=..` or `?prefix=..` | reads many | `read` |
//!
//! What must hold, of every address: an id comes from the body or from the header `Idempotency-Key` and is read in a format that the
//! table declares; a problem is `application/problem+json` and says what happened, why, and what to do; everything that a client
//! chooses the size of has a limit; no token is logged or repeated.

mod amount;
mod app;
mod asked;
mod counters;
mod date;
mod json;
mod key;
mod kinds;
mod listing;
mod nearest;
mod outcome;
mod percent;
mod problem;
mod query;
mod refusal;
mod routes;
mod server;
mod stream;
mod wanted;

use std::sync::Arc;

pub use server::{Place, Server, serve};

use crate::Service;

/// The addresses of a service, for whoever brings a server of their own. What has no end of its own does not end with it.
pub fn router(service: Arc<Service>) -> axum::Router {
    let (_, closing) = tokio::sync::watch::channel(false);
    routes::router(app::App { service, closing })
}
