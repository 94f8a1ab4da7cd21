//! What must hold for any body at all. The fuzz target includes this file, so that what it finds fails here in the same way.
//!
//! The first byte of the input chooses the route. With its highest bit set, what follows up to the end of the line is the header
//! `Idempotency-Key`. The rest is the body.

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

/// Set in the first byte: the key is in the header.
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

/// The whole HTTP side on a real store.
pub struct World {
    runtime: tokio::runtime::Runtime,
    router: TowerToHyperService<Router>,
}

/// The status, and the lines of the answer.
#[allow(dead_code, reason = "the target looks at neither")]
pub struct Answer {
    pub status: u16,
    pub lines: Vec<serde_json::Value>,
}

impl World {
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
            // Ids that were minted when this was written are to be young for as long as can be.
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

    /// An answer that is no failure of the server's own, in the form that is promised.
    pub fn ask(&self, data: &[u8]) -> Option<Answer> {
        let (choice, mut body) = data.split_first()?;
        let (method, path, media_type) = ROUTES[usize::from(choice & !KEYED) % ROUTES.len()];
        let mut request =
            Request::builder().method(method).uri(path).header(header::CONTENT_TYPE, media_type);
        if choice & KEYED != 0 {
            let end = body.iter().position(|byte| *byte == b'\n')?;
            request = request.header("idempotency-key", HeaderValue::from_bytes(&body[..end]).ok()?);
            body = &body[end + 1..];
        }
        let request = request.body(Body::from(body.to_vec())).expect("a request");
        self.runtime.block_on(async {
            let response = self.router.call(request).await.expect("an answer");
            let status = response.status().as_u16();
            assert!(status < 500 || status == 503, "{method} {path}: {status}");
            let is_problem = !response.status().is_success();
            let found = response.headers().get(header::CONTENT_TYPE).cloned().expect("a media type");
            assert_eq!(
                is_problem,
                found == "application/problem+json",
                "{method} {path}: {status} {found:?}"
            );
            let answer = to_bytes(response.into_body(), 1 << 24).await.expect("a body");
            let lines = answer.split(|byte| *byte == b'\n').filter(|line| !line.is_empty());
            let lines = lines.map(|line| serde_json::from_slice(line).expect("an answer in JSON")).collect();
            Some(Answer { status, lines })
        })
    }
}

/// A body of a stranger, sent to every route that takes one.
#[allow(dead_code, reason = "the test has a world that ends with it")]
pub fn http_body(data: &[u8]) {
    // The fuzzer ends without telling anybody: the store is removed by the next run.
    static WORLD: LazyLock<World> = LazyLock::new(|| {
        let folder = std::env::temp_dir().join("jeton-fuzz-http_body");
        if folder.exists() {
            fs::remove_dir_all(&folder).expect("the store of the last run");
        }
        World::new(&folder)
    });
    WORLD.ask(data);
}
