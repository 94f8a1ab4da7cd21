//! What must hold for the response to any body. The fuzz target includes this file.
//!
//! The first byte of the input selects the route. If its highest bit is set, the rest of the line is the
//! header `Idempotency-Key`. What follows is the body.

use std::fs;
use std::path::Path;
use std::sync::{Arc, LazyLock};
use std::time::Duration;

use axum::Router;
use axum::body::{Body, to_bytes};
use axum::http::{HeaderValue, Request, header};
use hyper::service::Service as _;
use hyper_util::service::TowerToHyperService;
use jeton_auth::Access;
use jeton_core::{Format, Formats, MissingIdPolicy, TableSettings};
use jeton_engine::Engine;
use jeton_server::{Options, Service, http};

const JSON: &str = "application/json";

/// The bit of the first byte for an id in the header.
pub const KEYED: u8 = 0x80;

/// Method, path and media type.
pub const ROUTES: [(&str, &str, &str); 13] = [
    ("POST", "/v1/tables/every/counters/a:add", JSON),
    ("POST", "/v1/tables/every/counters/a:set", JSON),
    ("POST", "/v1/tables/every/counters/a:put", JSON),
    ("POST", "/v1/tables/every/counters/a:reset", JSON),
    ("POST", "/v1/tables/every/counters/a:delete", JSON),
    ("POST", "/v1/batch", JSON),
    ("POST", "/v1/tables/every/operations", JSON),
    ("POST", "/v1/tables/every/events", "application/cloudevents+json"),
    ("POST", "/v1/tables/every/events", "application/cloudevents-batch+json"),
    ("POST", "/v1/tables/every/import", "application/x-ndjson"),
    ("PUT", "/v1/tables/made", JSON),
    ("POST", "/v1/tables/default/counters/a:add", JSON),
    ("POST", "/v1/tables/default/operations", JSON),
];

/// The HTTP API on a real store.
pub struct FuzzServer {
    runtime: tokio::runtime::Runtime,
    router: TowerToHyperService<Router>,
}

/// The status, and the lines of the body.
#[allow(dead_code, reason = "the fuzz target reads neither")]
pub struct Checked {
    pub status: u16,
    pub lines: Vec<serde_json::Value>,
}

impl FuzzServer {
    pub fn new(folder: &Path) -> Self {
        let options = jeton_engine::Options {
            shards: 1,
            cache_bytes: 1 << 20,
            dirty_bytes_max: 4 << 20,
            segment_bytes: 4 << 20,
            ..jeton_engine::Options::default()
        };
        let engine = Engine::open(folder, options).expect("a store");
        let settings = TableSettings {
            formats: Format::ALL.into_iter().fold(Formats::NONE, Formats::and),
            // Long enough for the dates of the ids in the corpus.
            dated_window: Duration::from_secs(10 * 365 * 24 * 3600),
            without_id: MissingIdPolicy::AtMostOnce,
            ..TableSettings::default()
        };
        engine.create_table("every", settings).expect("a table");
        let access = Arc::new(Access::open_to_all());
        let service = Service::new(Arc::new(engine), access, Options::default()).expect("a service");
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
        Self { runtime, router: TowerToHyperService::new(http::router(Arc::new(service))) }
    }

    /// Sends a request and checks the status and the media type of the response.
    pub fn respond(&self, data: &[u8]) -> Option<Checked> {
        let (choice, mut body) = data.split_first()?;
        let (method, path, media_type) = ROUTES[usize::from(choice & !KEYED) % ROUTES.len()];
        let mut request = Request::builder()
            .method(method)
            .uri(path)
            .header(header::HOST, "localhost")
            .header(header::CONTENT_TYPE, media_type);
        if choice & KEYED != 0 {
            let end = body.iter().position(|byte| *byte == b'\n')?;
            request = request.header("idempotency-key", HeaderValue::from_bytes(&body[..end]).ok()?);
            body = &body[end + 1..];
        }
        let request = request.body(Body::from(body.to_vec())).expect("a request");
        self.runtime.block_on(async {
            let response = self.router.call(request).await.expect("a response");
            let status = response.status().as_u16();
            assert!(status < 500 || status == 503, "{method} {path}: {status}");
            let is_problem = !response.status().is_success();
            let found = response.headers().get(header::CONTENT_TYPE).cloned().expect("a media type");
            let has_problem_type = found == "application/problem+json";
            assert_eq!(is_problem, has_problem_type, "{method} {path}: {status} {found:?}");
            let text = to_bytes(response.into_body(), 1 << 24).await.expect("a body");
            let lines = text.split(|byte| *byte == b'\n').filter(|line| !line.is_empty());
            let lines = lines.map(|line| serde_json::from_slice(line).expect("lines of JSON")).collect();
            Some(Checked { status, lines })
        })
    }
}

/// The fuzz target.
#[allow(dead_code, reason = "the test has a server of its own")]
pub fn http_body(data: &[u8]) {
    // The fuzzer does not drop the server: the next run removes the store.
    static SERVER: LazyLock<FuzzServer> = LazyLock::new(|| {
        let folder = std::env::temp_dir().join("jeton-fuzz-http_body");
        if folder.exists() {
            fs::remove_dir_all(&folder).expect("the store of the last run");
        }
        FuzzServer::new(&folder)
    });
    SERVER.respond(data);
}
