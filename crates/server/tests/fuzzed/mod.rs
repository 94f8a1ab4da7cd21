//! What must hold for the response to any request. The fuzz targets include this file.
//!
//! Input of `http_body`: the first byte selects the route. If its highest bit is set, the rest of the line is
//! the header `Idempotency-Key`. What follows is the body. Input of `http_request`: a whole request as text.

#![allow(dead_code, reason = "each test and each target uses a part of this module")]

mod session;

use std::fs;
use std::path::Path;
use std::sync::{Arc, LazyLock};
use std::time::Duration;

use axum::Router;
use axum::body::{Body, to_bytes};
use axum::http::{HeaderValue, Request, Version, header};
use hyper::service::Service as _;
use hyper_util::service::TowerToHyperService;
use jeton_auth::{Access, Grant, RANDOM_BYTES, Right, Rights, TableRule, TokenStore};
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

/// Both protocols on a real store.
pub struct FuzzServer {
    runtime: tokio::runtime::Runtime,
    router: TowerToHyperService<Router>,
    /// Without tokens.
    open: Arc<Service>,
    /// With two tokens, on the same store.
    guarded: Arc<Service>,
    /// Of an administrator, and of a client that may only read and add.
    tokens: [String; 2],
}

/// The status, and the values of a body of JSON.
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
        let engine = Arc::new(engine);
        let mut store = TokenStore::new();
        let tokens = [("admin", Rights::ALL), ("client", Rights::NONE.with(Right::Read).with(Right::Add))]
            .map(|(name, rights)| {
                let tables = vec![TableRule { pattern: "*".parse().expect("a pattern"), rights }];
                let random = [name.len() as u8; RANDOM_BYTES];
                store.add(Grant { tables, ..Grant::new(name) }, &random, 0).expect("a token").reveal()
            });
        let service = |access| {
            let options = Options { allow_flush: true, ..Options::default() };
            Arc::new(Service::new(engine.clone(), Arc::new(access), options).expect("a service"))
        };
        let (open, guarded) = (service(Access::open_to_all()), service(Access::from_store(&store)));
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
        let router = TowerToHyperService::new(http::router(open.clone()));
        Self { runtime, router, open, guarded, tokens }
    }

    /// Sends a body. Returns `None` if the input is none.
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
        let checked = self.send(request.body(Body::from(body.to_vec())).expect("a request"));
        assert!(!checked.lines.is_empty(), "{method} {path}: no JSON");
        Some(checked)
    }

    /// Sends a request: method, path and version, lines of headers, an empty line, and the body. Returns
    /// `None` if the input is none.
    pub fn request(&self, data: &[u8]) -> Option<Checked> {
        let end = data.windows(2).position(|pair| pair == b"\n\n").unwrap_or(data.len());
        let mut lines = data[..end].split(|byte| *byte == b'\n');
        let mut words = lines.next()?.split(|byte| *byte == b' ');
        let mut request = Request::builder().method(words.next()?).uri(words.next()?.to_vec());
        if words.next() == Some(b"HTTP/1.0") {
            request = request.version(Version::HTTP_10);
        }
        for line in lines {
            let colon = line.iter().position(|byte| *byte == b':')?;
            request = request.header(&line[..colon], line[colon + 1..].trim_ascii());
        }
        let body = data.get(end + 2..).unwrap_or_default();
        Some(self.send(request.body(Body::from(body.to_vec())).ok()?))
    }

    /// Sends a request and checks the status and the media type of the response.
    fn send(&self, request: Request<Body>) -> Checked {
        let asked = format!("{} {}", request.method(), request.uri());
        self.runtime.block_on(async {
            let response = self.router.call(request).await.expect("a response");
            let status = response.status().as_u16();
            assert!(status < 500 || status == 503, "{asked}: {status}");
            let is_problem = !response.status().is_success();
            let media_type = response.headers().get(header::CONTENT_TYPE);
            let media_type = media_type.map_or("", |value| value.to_str().expect("a media type")).to_owned();
            assert_eq!(
                is_problem,
                media_type == "application/problem+json",
                "{asked}: {status} {media_type}"
            );
            if media_type == "text/event-stream" {
                return Checked { status, lines: Vec::new() };
            }
            let text = to_bytes(response.into_body(), 1 << 24).await.expect("a body");
            let lines: Vec<&[u8]> = match &media_type[..] {
                "application/x-ndjson" => text.split(|byte| *byte == b'\n').collect(),
                "application/json" | "application/problem+json" => vec![&text],
                _ => Vec::new(),
            };
            // The response to HEAD has no body.
            let lines = lines.into_iter().filter(|line| !line.is_empty());
            let lines = lines.map(|line| serde_json::from_slice(line).expect("JSON")).collect();
            Checked { status, lines }
        })
    }
}

/// The server of a fuzz target. The fuzzer does not drop it: the next run removes the store.
static SERVER: LazyLock<FuzzServer> = LazyLock::new(|| {
    let program = std::env::current_exe().expect("a path");
    let folder = std::env::temp_dir().join("jeton-fuzz").join(program.file_name().expect("a name"));
    if folder.exists() {
        fs::remove_dir_all(&folder).expect("the store of the last run");
    }
    FuzzServer::new(&folder)
});

pub fn http_body(data: &[u8]) {
    SERVER.respond(data);
}

pub fn http_request(data: &[u8]) {
    SERVER.request(data);
}

pub fn resp_session(data: &[u8]) {
    SERVER.session(data);
}
