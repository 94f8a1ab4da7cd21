//! Liveness, readiness and metrics.

use axum::body::Body;
use axum::extract::State;
use axum::http::{HeaderValue, Response, StatusCode, header};
use axum::response::IntoResponse;

use super::problem::{ErrorCode, Problem, ProblemBody};
use super::state::App;
use super::{json, metrics_text};

/// Reports that the server is running.
#[utoipa::path(
    get, path = "/healthz", operation_id = "isAlive", tag = "status",
    responses((status = 200, body = String, content_type = "application/json", description = "The server is running."))
)]
pub async fn alive() -> Response<Body> {
    json::response(StatusCode::OK, &serde_json::json!({"status": "alive"}))
}

/// Reports whether the server accepts writes.
#[utoipa::path(
    get, path = "/readyz", operation_id = "isReady", tag = "status",
    responses(
        (status = 200, body = String, content_type = "application/json", description = "The server accepts writes."),
        (status = 503, body = ProblemBody, content_type = "application/problem+json",
            description = "The server does not accept writes; the detail has the reason."))
)]
pub async fn ready(State(app): State<App>) -> Response<Body> {
    if *app.closing.borrow() {
        return Problem::new(ErrorCode::NotReady, "the server is shutting down").into_response();
    }
    match app.service.engine.stats().trouble {
        None => json::response(StatusCode::OK, &serde_json::json!({"status": "ready"})),
        Some(error) => Problem::new(ErrorCode::NotReady, error).into_response(),
    }
}

/// Returns the metrics of the server for Prometheus, in the text format of OpenMetrics.
#[utoipa::path(
    get, path = "/metrics", operation_id = "metrics", tag = "status",
    responses((status = 200, body = String, content_type = "application/openmetrics-text", description = "The metrics."))
)]
pub async fn metrics(State(app): State<App>) -> Result<Response<Body>, Problem> {
    let text = metrics_text::encode(&app.service)
        .map_err(|error| Problem::new(ErrorCode::Storage, error.to_string()))?;
    let mut response = Response::new(Body::from(text));
    let content_type = HeaderValue::from_static("application/openmetrics-text; version=1.0.0; charset=utf-8");
    response.headers_mut().insert(header::CONTENT_TYPE, content_type);
    Ok(response)
}
