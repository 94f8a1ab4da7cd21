//! The OpenAPI description.
//!
//! It is generated from the code and committed as `openapi.json`, so that a review shows changes of the API.
//! A test fails if the two differ.

use std::sync::LazyLock;

use axum::http::header;
use axum::response::{IntoResponse, Response};
use utoipa::OpenApi;
use utoipa::openapi::security::{Http, HttpAuthScheme, SecurityScheme};

use super::{
    backup, batch, branches, counters, events, health, import, operations, tables, transactions, watch,
};

static TEXT: LazyLock<String> =
    LazyLock::new(|| Description::openapi().to_pretty_json().map(|text| text + "\n").unwrap_or_default());

#[derive(OpenApi)]
#[openapi(
    info(
        title = "Jeton",
        description = "A database of counters in which every operation carries an id, and every id counts once.\n\n\
            Create an id before you send an operation, and use the same id for every retry: in the member `id`, or in the header \
            `Idempotency-Key` (a string in quotes, draft-ietf-httpapi-idempotency-key-header-06). A retry gets the first result again, \
            with `Idempotency-Replayed: true`. Problems are `application/problem+json` (RFC 9457); their `type` is the path of a \
            page about them.\n\nRights of a token: `read` for reading and watching; `add` for `:add`, events and imports; `admin` for \
            `:set`, `:reset`, `:delete`, `:put` and for creating and changing tables. No right includes another. The right to administer the server is separate.",
        license(name = "MIT OR Apache-2.0"),
    ),
    paths(
        counters::add, counters::set, counters::reset, counters::delete, counters::put, counters::get, counters::many, batch::post,
        watch::get, operations::post, operations::get, operations::get_by_query, events::post, import::post, tables::list, tables::get,
        tables::put, transactions::post, transactions::get, transactions::list, transactions::resolve, branches::put, branches::commit, branches::abort, branches::list, backup::post, health::alive, health::ready, health::metrics,
    ),
    modifiers(&Tokens),
    security((), ("token" = [])),
    tags(
        (name = "counters", description = "Changes, reads and streams of counters."),
        (name = "operations", description = "Several changes under one id, and the status of an id."),
        (name = "events", description = "Counting of CloudEvents."),
        (name = "import", description = "Import of any number of operations, safe to repeat."),
        (name = "tables", description = "Id formats and windows of tables."),
        (name = "branches", description = "Branches of transactions, for coordinators: prepare, commit, abort, list."),
        (name = "transactions", description = "Atomic changes in several databases, exactly once."),
        (name = "status", description = "Health and metrics."),
        (name = "admin", description = "Administration of the server."),
    )
)]
struct Description;

struct Tokens;

impl utoipa::Modify for Tokens {
    fn modify(&self, description: &mut utoipa::openapi::OpenApi) {
        let components = description.components.get_or_insert_with(Default::default);
        let scheme = SecurityScheme::Http(Http::new(HttpAuthScheme::Bearer));
        components.add_security_scheme("token", scheme);
    }
}

/// `GET /openapi.json`.
pub async fn get() -> Response {
    ([(header::CONTENT_TYPE, "application/json")], TEXT.as_str()).into_response()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Paths that differ only in the names of their parameters are equal.
    #[test]
    fn paths_are_unique() {
        let description: serde_json::Value = serde_json::from_str(&TEXT).unwrap();
        // Without the names between braces.
        let shape = |path: &String| -> String {
            let parts = path.split('}').map(|part| part.split('{').next().unwrap_or_default());
            parts.collect::<Vec<_>>().join("{}")
        };
        let paths = description["paths"].as_object().unwrap();
        let shapes: std::collections::BTreeSet<String> = paths.keys().map(shape).collect();
        assert_eq!(shapes.len(), paths.len(), "{:?}", paths.keys());
    }

    #[test]
    fn openapi_json_is_up_to_date() {
        if std::env::var_os("UPDATE_OPENAPI").is_some() {
            std::fs::write(concat!(env!("CARGO_MANIFEST_DIR"), "/openapi.json"), TEXT.as_str()).unwrap();
            return;
        }
        assert!(
            *TEXT == include_str!("../../openapi.json"),
            "crates/server/openapi.json is out of date; write it with\n    \
             UPDATE_OPENAPI=1 cargo test -p jeton-server openapi"
        );
    }
}
