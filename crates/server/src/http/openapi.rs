//! The OpenAPI description.
//!
//! It is generated from the handlers. The problems of all operations come from the table of errors.

use std::sync::LazyLock;

use axum::extract::State;
use axum::http::header;
use axum::response::{IntoResponse, Response};
use jeton_core::rfc3339;
use utoipa::OpenApi;
use utoipa::openapi::security::{Http, HttpAuthScheme, SecurityScheme};
use utoipa::openapi::{Content, Ref, ResponseBuilder};

use super::problem::{ErrorCode, ProblemBody};
use super::state::App;
use super::{
    backup, batch, branches, cluster, counters, events, health, import, operations, tables, transactions,
    watch,
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
            `:set`, `:reset`, `:delete`, `:put` and for creating, changing and deleting tables. No right includes another. The right to administer the server is separate.",
        license(name = "MIT OR Apache-2.0"),
    ),
    paths(
        counters::post, counters::get, counters::many, batch::post,
        watch::get, operations::post, operations::get, operations::get_by_query, events::post, import::post, tables::list, tables::get,
        tables::put, tables::delete, transactions::post, transactions::get, transactions::list, transactions::resolve, branches::put, branches::commit, branches::abort, branches::list, cluster::get, cluster::post, backup::post, health::alive, health::ready, health::metrics,
    ),
    components(schemas(ProblemBody)),
    modifiers(&Problems, &Tokens),
    security((), ("token" = [])),
    tags(
        (name = "counters", description = "Changes, reads and streams of counters."),
        (name = "operations", description = "Several changes under one id, and the status of an id."),
        (name = "events", description = "Counting of CloudEvents."),
        (name = "import", description = "Import of any number of operations, safe to repeat."),
        (name = "tables", description = "Id formats and windows of tables."),
        (name = "branches", description = "Branches of transactions, for coordinators: prepare, commit, abort, list."),
        (name = "transactions", description = "Atomic changes in several databases, exactly once."),
        (name = "cluster", description = "Nodes and stripes of a cluster."),
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

/// The response to a failed request, for every operation.
struct Problems;

impl utoipa::Modify for Problems {
    fn modify(&self, description: &mut utoipa::openapi::OpenApi) {
        let mut text = "A problem. The statuses and types:\n".to_owned();
        for error in ErrorCode::all() {
            text += &format!("\n- {} `/problems/{}`: {}", error.http_status(), error.code(), error.title());
        }
        let content = Content::new(Some(Ref::from_schema_name("ProblemBody")));
        let response = ResponseBuilder::new().description(text).content("application/problem+json", content);
        let components = description.components.get_or_insert_with(Default::default);
        components.responses.insert("Problem".into(), response.build().into());
        for (path, item) in &mut description.paths.paths {
            let methods = [&mut item.get, &mut item.put, &mut item.post, &mut item.delete];
            for operation in methods.into_iter().flatten() {
                let is_write = operation.request_body.is_some();
                let is_deletion = operation.operation_id.as_deref() == Some("deleteTable");
                let confirmed = is_deletion.then_some("428");
                for status in statuses(path, is_write).chain(confirmed).chain(["default"]) {
                    let problem = Ref::from_response_name("Problem");
                    operation.responses.responses.entry(status.into()).or_insert(problem.into());
                }
            }
        }
    }
}

/// The statuses of the problems of an operation.
fn statuses(path: &str, has_body: bool) -> impl Iterator<Item = &'static str> {
    let groups: [(bool, &[&str]); 6] = [
        (true, &["400", "403", "421", "431"]),
        (path.starts_with("/v1/"), &["401", "409", "415", "429", "503"]),
        (path.starts_with("/v1/") || path == "/metrics", &["500"]),
        (
            path.contains('{')
                || ["/v1/transactions", "/v1/watch", "/v1/cluster"]
                    .iter()
                    .any(|start| path.starts_with(start)),
            &["404"],
        ),
        (path.ends_with("/counters/{row}"), &["405"]),
        (has_body, &["410", "413", "422"]),
    ];
    groups.into_iter().filter(|(applies, _)| *applies).flat_map(|(_, statuses)| statuses).copied()
}

/// The times of the examples: that of the ids, and the other.
const EXAMPLE_TIMES: [&str; 2] = ["01890a5d-ac96", "2026-11-16T07:40:12"];

/// `GET /openapi.json`. The examples have the present time: an id with another is expired.
pub async fn get(State(app): State<App>) -> Response {
    let millis = app.service.millis();
    let (id, time) = (format!("{:012x}", millis), rfc3339::format(millis));
    let text = TEXT.replace(EXAMPLE_TIMES[0], &format!("{}-{}", &id[..8], &id[8..]));
    let text = text.replace(EXAMPLE_TIMES[1], &time[..EXAMPLE_TIMES[1].len()]);
    ([(header::CONTENT_TYPE, "application/json")], text).into_response()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    /// Routes for people and for the other servers.
    const UNDESCRIBED: [&str; 4] = ["/", "/problems", "/problems/{}", "/openapi.json"];

    /// A path without the names of its parameters.
    fn shape(path: &str) -> String {
        let parts = path.split('}').map(|part| part.split('{').next().unwrap_or_default());
        parts.collect::<Vec<_>>().join("{}")
    }

    #[test]
    fn every_route_is_described_once() {
        let description: serde_json::Value = serde_json::from_str(&TEXT).unwrap();
        let mut described = BTreeSet::new();
        for (path, item) in description["paths"].as_object().unwrap() {
            for (method, operation) in item.as_object().unwrap() {
                assert!(operation["summary"].is_string(), "{path}");
                assert!(described.insert(format!("{method} {}", shape(path))), "{method} {path}");
            }
        }
        // All changes of a counter have one route.
        let described = described.iter().map(|path| path.split(':').next().unwrap_or_default().to_owned());
        let mut routes = BTreeSet::new();
        for line in include_str!("routes.rs").lines().filter(|line| line.contains(".route(")) {
            let (path, handlers) = line.split_once('"').unwrap().1.split_once('"').unwrap();
            let path = shape(path);
            let is_described = !UNDESCRIBED.contains(&&*path) && !path.starts_with("/v1/internal/");
            for method in ["get", "put", "post", "delete"] {
                if is_described && handlers.contains(&format!("{method}(")) {
                    routes.insert(format!("{method} {path}"));
                }
            }
        }
        assert_eq!(described.collect::<BTreeSet<_>>(), routes);
    }
}
