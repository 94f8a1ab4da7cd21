//! A body of a stranger, sent to every route that takes one: it is answered, and never by a failure of the server's own.

#![no_main]

use std::sync::{Arc, LazyLock};

use axum::Router;
use axum::body::{Body, to_bytes};
use axum::http::Request;
use jeton_access::Access;
use jeton_engine::Engine;
use jeton_server::{Options, Service, http};
use tower_service::Service as _;

const JSON: &str = "application/json";

/// Method, path and media type.
const ROUTES: &[(&str, &str, &str)] = &[
    ("POST", "/v1/tables/default/counters/a:add", JSON),
    ("POST", "/v1/tables/default/counters/a:set", JSON),
    ("POST", "/v1/tables/default/counters/a:put", JSON),
    ("POST", "/v1/tables/default/counters/a:reset", JSON),
    ("POST", "/v1/tables/default/counters/a:delete", JSON),
    ("POST", "/v1/batch", JSON),
    ("POST", "/v1/tables/default/operations", JSON),
    ("POST", "/v1/tables/default/events", "application/cloudevents+json"),
    ("POST", "/v1/tables/default/events", "application/cloudevents-batch+json"),
    ("POST", "/v1/tables/default/import", "application/x-ndjson"),
    ("PUT", "/v1/tables/default", JSON),
];

struct World {
    runtime: tokio::runtime::Runtime,
    router: Router,
}

static WORLD: LazyLock<World> = LazyLock::new(|| {
    let folder = std::env::temp_dir().join(format!("jeton-fuzz-{}", std::process::id()));
    let engine = Engine::open(&folder, jeton_engine::Options::default()).expect("a store");
    let access = Arc::new(Access::open_to_all());
    let service = Service::new(Arc::new(engine), access, Options::default()).expect("a service");
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    World { runtime, router: http::router(Arc::new(service)) }
});

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    let Some((route, body)) = data.split_first() else { return };
    let (method, path, media_type) = ROUTES[usize::from(*route) % ROUTES.len()];
    let request = Request::builder()
        .method(method)
        .uri(path)
        .header("content-type", media_type)
        .body(Body::from(body.to_vec()))
        .expect("a request");
    let world = &*WORLD;
    world.runtime.block_on(async {
        let response = world.router.clone().call(request).await.expect("an answer");
        let status = response.status().as_u16();
        assert!(status < 500 || status == 503, "{method} {path}: {status}");
        to_bytes(response.into_body(), 1 << 24).await.expect("a body");
    });
});
