//! Liveness, readiness and metrics.

use axum::extract::{Request, State};
use axum::http::header;
use axum::response::{IntoResponse, Response};
use jeton_cluster::ClusterStatus;
use serde::Serialize;
use utoipa::ToSchema;

use super::problem::{ErrorCode, HttpResult, Problem, ProblemBody};
use super::request_context::authenticate;
use super::state::App;
use super::{json, metrics_text};

#[derive(Serialize, ToSchema)]
#[schema(example = json!({"status": "ready"}))]
pub struct HealthBody {
    /// alive or ready.
    status: &'static str,
}

/// Reports that the server is running.
#[utoipa::path(
    get, path = "/healthz", operation_id = "isAlive", tag = "status",
    responses((status = 200, body = HealthBody, description = "The server is running."))
)]
pub async fn alive() -> Response {
    json::ok(&HealthBody { status: "alive" })
}

/// Reports whether the server accepts writes.
#[utoipa::path(
    get, path = "/readyz", operation_id = "isReady", tag = "status",
    responses(
        (status = 200, body = HealthBody, description = "The server accepts writes."),
        (status = 503, body = ProblemBody, content_type = "application/problem+json",
            description = "The server does not accept writes; the detail has the reason."))
)]
pub async fn ready(State(app): State<App>) -> Response {
    if *app.closing.borrow() {
        return Problem::new(ErrorCode::NotReady, "the server is shutting down").into_response();
    }
    let engine = &app.service.engine;
    let error =
        engine.stats().last_error.or_else(|| engine.cluster_status().and_then(|status| unready(&status)));
    match error {
        None => json::ok(&HealthBody { status: "ready" }),
        Some(error) => Problem::new(ErrorCode::NotReady, error).into_response(),
    }
}

/// Why a node of a cluster should get no requests.
fn unready(status: &ClusterStatus) -> Option<String> {
    let me = status.nodes.iter().find(|node| node.id == status.me);
    match me {
        None => Some("the node has not joined the cluster yet".into()),
        Some(me) if me.leaving => Some("the node is leaving the cluster".into()),
        Some(me) if me.suspected => Some("the node cannot write to the database of the cluster".into()),
        Some(_) => None,
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
pub async fn metrics(State(app): State<App>, request: Request) -> HttpResult {
    let (parts, _) = request.into_parts();
    let client = match authenticate(&app.service, &parts).await {
        Err(problem) if problem.code != ErrorCode::Unauthorized => return Err(problem),
        client => client.ok(),
    };
    let text = metrics_text::encode(&app.service, client)
        .map_err(|error| Problem::new(ErrorCode::Storage, error.to_string()))?;
    let content_type = "application/openmetrics-text; version=1.0.0; charset=utf-8";
    Ok(([(header::CONTENT_TYPE, content_type)], text).into_response())
}
