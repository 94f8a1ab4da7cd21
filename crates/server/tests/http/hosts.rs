//! Requests that a web page of another site could make a browser send.

use jeton_server::Metric;
use serde_json::json;

use crate::client::{Client, Reply};
use crate::harness::{TestServer, uuid};

const ADD: &str = "/v1/tables/default/counters/c:add";

/// Sends these lines as the head of a request without a body.
fn head(client: &mut Client, lines: &[&str]) -> Reply {
    client.write(format!("{}\r\n\r\n", lines.join("\r\n")).as_bytes());
    client.receive()
}

#[test]
fn names_of_other_sites_are_rejected_on_every_route() {
    let server = TestServer::with_options(|options| options.http_hosts = vec!["counters.example".into()]);
    let mut client = server.client();
    for line in
        ["GET / ", "GET /healthz ", "GET /metrics ", "GET /v1/tables ", "POST /v1/admin/backup ", "GET /x "]
    {
        let line = format!("{line}HTTP/1.1");
        let length = "content-length: 0";
        for host in ["evil.example", "evil.example:6381", "localhost.evil.example", ""] {
            let reply = head(&mut client, &[&line, &format!("host: {host}"), length]);
            reply.problem_with(421, "host-not-allowed", "http_hosts");
        }
        for host in [&server.address.to_string(), "localhost:1", "[::1]", "counters.example:80"] {
            let reply = head(&mut client, &[&line, &format!("host: {host}"), length]);
            assert_ne!(reply.status, 421, "{host}: {}", reply.text());
        }
    }
    assert!(server.service.metrics.get(Metric::Denied) >= 24);
    let line = "GET /v1/tables HTTP/1.1";
    head(&mut client, &[line]).problem(400, "bad-request");
    head(&mut client, &[line, "host: localhost", "host: evil.example"]).problem(400, "bad-request");
    let absolute = "GET http://evil.example/v1/tables HTTP/1.1";
    head(&mut client, &[absolute, "host: localhost"]).problem(421, "host-not-allowed");
}

#[test]
fn origins_of_other_sites_are_rejected() {
    let server = TestServer::with_options(|options| options.http_hosts = vec!["app.example".into()]);
    let mut client = server.client();
    let own = format!("http://{}", server.address);
    let host = format!("host: {}", server.address);
    for method in ["GET", "OPTIONS"] {
        let line = format!("{method} /v1/tables HTTP/1.1");
        for origin in ["http://evil.example", "http://localhost:3000", "http://127.0.0.1:1", "null", ""] {
            let reply = head(&mut client, &[&line, &host, &format!("origin: {origin}")]);
            reply.problem_with(403, "forbidden", "http_hosts");
        }
    }
    for origin in [&own, "https://app.example", "https://app.example:8443"] {
        head(&mut client, &["GET /v1/tables HTTP/1.1", &host, &format!("origin: {origin}")]).ok();
    }
}

#[test]
fn writes_without_cors_preflight_are_rejected() {
    let (_server, mut client) = TestServer::with_client();
    let body = json!({"delta": 1, "id": uuid()}).to_string();
    let routes =
        [ADD, "/v1/branches/b/abort", "/v1/batch", "/v1/tables/default/import", "/v1/tables/default/events"];
    for path in routes {
        for kind in [
            "text/plain",
            "text/plain;charset=UTF-8",
            "application/x-www-form-urlencoded",
            "multipart/form-data",
        ] {
            client.call_with("POST", path, kind, &body).problem(415, "media-type");
            client.call_with("POST", path, kind, "").problem(415, "media-type");
        }
        client.call("POST", path, &[], b"").problem(415, "media-type");
    }
    client.post("/v1/branches/b/abort", "").ok();
    // A page cannot send this header without a preflight either.
    let key = [("idempotency-key", "\"01890a5d-ac96-774b-bcce-b302099a8057\"")];
    client.call("POST", "/v1/tables/default/counters/c:reset", &key, b"").problem(410, "id-expired");
}
