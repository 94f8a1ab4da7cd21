//! Liveness, readiness and metrics.

use axum::extract::State;
use axum::http::{HeaderMap, header};
use axum::response::{IntoResponse, Response};
use jeton_auth::AuthError;

use super::problem::{ErrorCode, HttpResult, Problem, ProblemBody};
use super::request_context::{authenticate, denied};
use super::state::App;
use super::{json, metrics_text};

/// Reports that the server is running.
#[utoipa::path(
    get, path = "/healthz", operation_id = "isAlive", tag = "status",
    responses((status = 200, body = String, content_type = "application/json", description = "The server is running."))
)]
pub async fn alive() -> Response {
    json::ok(&serde_json::json!({"status": "alive"}))
}

/// Reports whether the server accepts writes.
#[utoipa::path(
    get, path = "/readyz", operation_id = "isReady", tag = "status",
    responses(
        (status = 200, body = String, content_type = "application/json", description = "The server accepts writes."),
        (status = 503, body = ProblemBody, content_type = "application/problem+json",
            description = "The server does not accept writes; the detail has the reason."))
)]
pub async fn ready(State(app): State<App>) -> Response {
    if *app.closing.borrow() {
        return Problem::new(ErrorCode::NotReady, "the server is shutting down").into_response();
    }
    match app.service.engine.stats().last_error {
        None => json::ok(&serde_json::json!({"status": "ready"})),
        Some(error) => Problem::new(ErrorCode::NotReady, error).into_response(),
    }
}

/// Returns the metrics of the server for Prometheus, in the text format of OpenMetrics.
///
/// On a server with tokens, metrics of a table require a token with a right in the table, or the right to
/// administer the server.
#[utoipa::path(
    get, path = "/metrics", operation_id = "metrics", tag = "status",
    responses((status = 200, body = String, content_type = "application/openmetrics-text", description = "The metrics."))
)]
pub async fn metrics(State(app): State<App>, headers: HeaderMap) -> HttpResult {
    let client = match authenticate(&app.service, &headers) {
        Ok(client) => Some(client),
        Err(AuthError::NoToken) => None,
        Err(why) => return Err(denied(&app.service, why)),
    };
    let text = metrics_text::encode(&app.service, client)
        .map_err(|error| Problem::new(ErrorCode::Storage, error.to_string()))?;
    let content_type = "application/openmetrics-text; version=1.0.0; charset=utf-8";
    Ok(([(header::CONTENT_TYPE, content_type)], text).into_response())
}
