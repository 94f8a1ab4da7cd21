//! How the server is doing: for whoever restarts it, sends it work, or draws its curves.

use std::fmt::Write;

use axum::body::Body;
use axum::extract::State;
use axum::http::{HeaderValue, Response, StatusCode, header};
use axum::response::IntoResponse;
use jeton_core::Status;

use super::json;
use super::problem::{Kind, Problem, ProblemBody};
use super::state::App;

/// Whether the server is alive.
#[utoipa::path(get, path = "/healthz", operation_id = "isAlive", tag = "status", responses((status = 200, body = String, content_type = "application/json", description = "It is.")))]
pub async fn alive() -> Response<Body> {
    json::response(StatusCode::OK, &serde_json::json!({"status": "alive"}))
}

/// Whether writes are possible.
#[utoipa::path(get, path = "/readyz", operation_id = "isReady", tag = "status", responses(
    (status = 200, body = String, content_type = "application/json", description = "They are."),
    (status = 503, body = ProblemBody, content_type = "application/problem+json", description = "They are not; the detail says why.")))]
pub async fn ready(State(app): State<App>) -> Response<Body> {
    if *app.closing.borrow() {
        return Problem::new(Kind::NotReady, "the server is closing").into_response();
    }
    match app.service.engine.stats().trouble {
        None => json::response(StatusCode::OK, &serde_json::json!({"status": "ready"})),
        Some(trouble) => Problem::new(Kind::NotReady, trouble).into_response(),
    }
}

/// What is counted about the server, as Prometheus reads it.
#[utoipa::path(get, path = "/metrics", operation_id = "metrics", tag = "status", responses((status = 200, body = String, content_type = "text/plain", description = "The metrics.")))]
pub async fn metrics(State(app): State<App>) -> Response<Body> {
    let mut text = String::new();
    app.service.metrics.render(&mut text);
    store(&app, &mut text);
    if let Some(leader) = app.service.transactions.leader() {
        let help = "number of the server that leads the registers of transactions, 0 if none is known";
        line(&mut text, "jeton_registers_leader", "gauge", help, leader.unwrap_or(0));
    }
    let mut response = Response::new(Body::from(text));
    let kind = HeaderValue::from_static("text/plain; version=0.0.4; charset=utf-8");
    response.headers_mut().insert(header::CONTENT_TYPE, kind);
    response
}

fn line(out: &mut String, name: &str, kind: &str, help: &str, value: impl std::fmt::Display) {
    let _in_memory = write!(out, "# HELP {name} {help}\n# TYPE {name} {kind}\n{name} {value}\n");
}

fn store(app: &App, out: &mut String) {
    let stats = app.service.engine.stats();
    line(
        out,
        "jeton_log_bytes_total",
        "counter",
        "bytes given to the log since the start",
        stats.logged_bytes,
    );
    line(
        out,
        "jeton_replayed_entries",
        "gauge",
        "entries of the log replayed at the start",
        stats.replayed_entries,
    );
    line(out, "jeton_value_bytes", "gauge", "bytes of the value store on disk", stats.value_bytes);
    line(out, "jeton_index_ids", "gauge", "ids in the index on disk", stats.ids.ids);
    line(out, "jeton_index_bytes", "gauge", "bytes of the id index on disk", stats.ids.bytes);
    line(out, "jeton_index_runs", "gauge", "runs of the id index", stats.ids.runs);
    line(
        out,
        "jeton_index_damaged",
        "gauge",
        "runs of the id index in which damage was met",
        stats.ids.damaged,
    );
    line(
        out,
        "jeton_trouble",
        "gauge",
        "1 if nothing can be stored at present",
        u8::from(stats.trouble.is_some()),
    );
    let upkeep = u8::from(stats.upkeep_trouble.is_some());
    line(out, "jeton_upkeep_trouble", "gauge", "1 if nothing can be tidied up at present", upkeep);
    let filters: Vec<(&str, &str, Status)> = stats
        .tables
        .iter()
        .flat_map(|table| {
            let (dated, opaque) = table.filters;
            [("dated", dated), ("opaque", opaque)]
                .map(|(kind, status)| Some((table.name.as_str(), kind, status?)))
        })
        .flatten()
        .collect();
    let mut of_filters = |name: &str, help: &str, value: fn(&Status) -> f64| {
        let _in_memory = write!(out, "# HELP {name} {help}\n# TYPE {name} gauge\n");
        for (table, kind, status) in &filters {
            let _in_memory = writeln!(out, "{name}{{table=\"{table}\",ids=\"{kind}\"}} {}", value(status));
        }
    };
    of_filters("jeton_filter_bytes", "memory of a filter", |status| status.bytes as f64);
    of_filters("jeton_filter_bytes_max", "the most memory of a filter", |status| status.memory_cap as f64);
    of_filters("jeton_filter_fill", "memory of a filter as a part of the most", |status| {
        status.bytes as f64 / status.memory_cap.max(1) as f64
    });
    of_filters("jeton_filter_ids", "ids a filter remembers", |status| status.ids as f64);
    of_filters("jeton_filter_error", "probability that a new id is taken for a known one", |status| {
        status.false_positive_rate
    });
    of_filters("jeton_filter_error_target", "what that should stay below", |status| status.target);
    of_filters("jeton_filter_pressure", "1 if a filter cannot keep its target", |status| {
        f64::from(u8::from(status.pressure.is_some()))
    });
}
