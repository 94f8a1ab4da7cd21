//! The routes of the HTTP API.

use std::time::Instant;

use axum::Router;
use axum::body::Body;
use axum::extract::{MatchedPath, Request, State};
use axum::http::{HeaderValue, Method, StatusCode, header};
use axum::middleware::{Next, from_fn_with_state};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post, put};

use super::body::LingeringBody;
use super::problem::{ErrorCode, Problem};
use super::reply_memory::ConnectionMemory;
use super::server::HEAD_BYTES_MAX;
use super::state::App;
use super::{
    backup, batch, branches, cluster, counters, events, health, hosts, import, openapi, operations, pages,
    tables, transactions, watch,
};
use crate::Metric;

/// The default content security policy: a browser may load nothing.
const POLICY: HeaderValue = HeaderValue::from_static("default-src 'none'; frame-ancestors 'none'");

pub fn router(app: App) -> Router {
    Router::new()
        .route("/v1/tables/{table}/counters", get(counters::many))
        .route("/v1/tables/{table}/counters/{row}", get(counters::get).post(counters::post))
        .route("/v1/tables/{table}/operations", post(operations::post))
        .route("/v1/tables/{table}/operations/{id}", get(operations::get))
        .route("/v1/tables/{table}/events", post(events::post))
        .route("/v1/tables/{table}/import", post(import::post))
        .route("/v1/tables/{table}", get(tables::get).put(tables::put).delete(tables::delete))
        .route("/v1/tables", get(tables::list))
        .route("/v1/operations/{id}", get(operations::get_by_query))
        .route("/v1/batch", post(batch::post))
        .route("/v1/watch", get(watch::get))
        .route("/v1/branches", get(branches::list))
        .route("/v1/branches/{branch}", put(branches::put))
        .route("/v1/branches/{branch}/commit", post(branches::commit))
        .route("/v1/branches/{branch}/abort", post(branches::abort))
        .route("/v1/transactions", get(transactions::list))
        .route("/v1/transactions/{name}", get(transactions::get).post(transactions::post))
        .route("/v1/transactions/{name}/resolve", post(transactions::resolve))
        .route("/v1/internal/transactions/{id}/attempts/{number}", get(transactions::attempt))
        .route("/v1/cluster", get(cluster::get))
        .route("/v1/cluster/nodes/{node}", post(cluster::post))
        .route("/v1/admin/backup", post(backup::post))
        .route("/healthz", get(health::alive))
        .route("/readyz", get(health::ready))
        .route("/metrics", get(health::metrics))
        .route("/openapi.json", get(openapi::get))
        .route("/problems", get(pages::problems))
        .route("/problems/{name}", get(pages::problem))
        .route("/", get(pages::start))
        .fallback(not_found)
        .method_not_allowed_fallback(method_not_allowed)
        .layer(from_fn_with_state(app.clone(), observe))
        .with_state(app)
}

async fn not_found(request: Request) -> Problem {
    let detail = format!("the path {} does not exist; /openapi.json lists the paths", request.uri().path());
    Problem::new(ErrorCode::NotFound, detail)
}

async fn method_not_allowed(request: Request) -> Response {
    not_allowed(request.method(), request.uri().path())
}

/// The response to a method that a path does not support.
pub fn not_allowed(method: &Method, path: &str) -> Response {
    let detail = format!("{path} does not support {method}");
    let mut response = Problem::new(ErrorCode::MethodNotAllowed, detail).into_response();
    // Reads and changes of a counter have one route, and each path supports only one of them.
    if let Some((_, row)) = path.split_once("/counters/") {
        let methods = if counters::verb(row).is_some() { "POST" } else { "GET,HEAD" };
        response.headers_mut().insert(header::ALLOW, HeaderValue::from_static(methods));
    }
    response
}

/// Checks the length of the head. The HTTP library checks it only when its buffer is full.
fn check_length(request: &Request) -> Result<(), Problem> {
    // Spaces, the version, the end of the line, and the empty line.
    const LINE_BYTES: usize = 14;
    let headers = request.headers().iter().map(|(name, value)| name.as_str().len() + value.len() + 4);
    let uri = request.uri();
    let target = [uri.path(), uri.query().unwrap_or_default()].map(str::len);
    let length = request.method().as_str().len() + LINE_BYTES + target.iter().sum::<usize>();
    if length + headers.sum::<usize>() <= HEAD_BYTES_MAX {
        return Ok(());
    }
    let detail = format!("request line and headers have more than the maximum of {HEAD_BYTES_MAX} bytes");
    Err(Problem::new(ErrorCode::HeadTooLarge, detail).with("limit", HEAD_BYTES_MAX))
}

/// Counts the limit that a response is about.
fn count_limit(app: &App, method: &Method, status: StatusCode) {
    let limit = match status {
        StatusCode::PAYLOAD_TOO_LARGE if method == Method::GET => Metric::ReplyBytesHit,
        StatusCode::PAYLOAD_TOO_LARGE => Metric::RequestBytesHit,
        StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE => Metric::HeadBytesHit,
        _ => return,
    };
    app.service.metrics.add(limit, 1);
}

/// Checks the host of every request, measures it, and sets the security headers of its response.
async fn observe(
    State(app): State<App>,
    route: Option<MatchedPath>,
    request: Request,
    next: Next,
) -> Response {
    app.service.metrics.add(Metric::HttpRequests, 1);
    let started = Instant::now();
    let method = request.method().clone();
    let memory = request.extensions().get::<ConnectionMemory>().cloned();
    let is_data = request.uri().path().starts_with("/v1/");
    let checked = check_length(&request).and_then(|()| hosts::check(&app.service.options, &request));
    let mut response = match checked {
        Ok(()) => next.run(request.map(|body| Body::new(LingeringBody::new(body)))).await,
        Err(problem) => {
            app.service.metrics.add(Metric::Denied, 1);
            problem.into_response()
        }
    };
    count_limit(&app, &method, response.status());
    if let Some(memory) = memory {
        response = memory.charge_reply(&app.service, &method, response).await;
    }
    let headers = response.headers_mut();
    headers.insert(header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    headers.insert(header::REFERRER_POLICY, HeaderValue::from_static("no-referrer"));
    headers.entry(header::CONTENT_SECURITY_POLICY).or_insert(POLICY);
    if is_data {
        // Values change, and a cache must not store data that requires a token.
        headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    }
    let route = route.as_ref().map(MatchedPath::as_str);
    app.service.metrics.observe_http(method.as_str(), route, started.elapsed());
    response
}
