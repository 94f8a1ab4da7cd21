//! Pages, health and metrics.

use serde_json::json;

use crate::harness::{TestServer, uuid};

#[test]
fn every_response_has_security_headers() {
    let (_server, mut client) = TestServer::with_client();
    for path in
        ["/", "/problems", "/problems/id-expired", "/v1/tables", "/nowhere", "/metrics", "/openapi.json"]
    {
        let reply = client.get(path);
        assert_eq!(reply.header("x-content-type-options"), Some("nosniff"), "{path}");
        let policy = reply.header("content-security-policy").unwrap();
        assert!(policy.starts_with("default-src 'none'") && !policy.contains("http"), "{policy}");
        assert_eq!(reply.header("cache-control").is_some(), path.starts_with("/v1/"), "{path}");
    }
    let start = client.get("/");
    assert_eq!(start.header("content-type"), Some("text/html; charset=utf-8"));
    assert!(start.text().contains("/v1/tables/default/counters/hello:add"));
    let policy = start.header("content-security-policy").unwrap();
    assert!(policy.contains("script-src 'sha256-") && policy.contains("style-src 'sha256-"), "{policy}");
}

#[test]
fn the_type_of_a_problem_is_the_path_of_its_page() {
    let (_server, mut client) = TestServer::with_client();
    let problem = client.get("/v1/tables/nowhere").problem(404, "unknown-table");
    let page = client.get(problem["type"].as_str().unwrap());
    assert_eq!(page.status, 200);
    for text in ["The table does not exist", "PUT /v1/tables"] {
        assert!(page.text().contains(text), "{text} is not in {}", page.text());
    }
    client.get("/problems/no-such").problem(404, "not-found");
    assert!(client.get("/problems").text().contains("/problems/id-mismatch"));
}

#[test]
fn health_and_metrics_are_reported() {
    let (_server, mut client) = TestServer::with_client();
    assert_eq!(client.get("/healthz").ok(), json!({"status": "alive"}));
    assert_eq!(client.get("/readyz").ok(), json!({"status": "ready"}));
    let (path, id) = ("/v1/tables/default/counters/c:add", uuid());
    for _ in 0..3 {
        client.post(path, json!({"delta": 1, "id": id})).ok();
    }
    client.get("/v1/tables/default/counters/c").ok();
    let reply = client.get("/metrics");
    let content_type = "application/openmetrics-text; version=1.0.0; charset=utf-8";
    assert_eq!(reply.header("content-type"), Some(content_type));
    for line in [
        "jeton_operations_total{outcome=\"applied\"} 1",
        "jeton_operations_total{outcome=\"replayed\"} 2",
        "jeton_reads_total 1",
        "jeton_connections{protocol=\"http\"} 1",
        "jeton_http_requests_total 7",
        "jeton_client_memory_bytes 0",
        "jeton_client_memory_closed_total 0",
        "jeton_storage_error 0",
        "jeton_maintenance_error 0",
        "jeton_operations_total{outcome=\"id-mismatch\"} 0",
        "jeton_filter_ids{table=\"default\",ids=\"dated\"} 1.0",
        "# TYPE jeton_filter_false_positive_rate gauge",
        "# TYPE jeton_log_bytes counter",
        "# TYPE jeton_index_ids gauge",
        "# TYPE jeton_value_bytes gauge",
    ] {
        assert!(reply.text().lines().any(|found| found == line), "{line} is not in\n{}", reply.text());
    }
    let samples: Vec<String> = reply.text().lines().map(str::to_owned).collect();
    for line in &samples {
        assert_eq!(samples.iter().filter(|other| *other == line).count(), 1, "{line} occurs twice");
    }
    assert_eq!(samples.last().map(String::as_str), Some("# EOF"));
}

#[test]
fn http_latencies_are_counted_by_method_and_route() {
    let (_server, mut client) = TestServer::with_client();
    for row in ["a", "b"] {
        client.get(&format!("/v1/tables/default/counters/{row}")).ok();
    }
    client.get("/v1/nowhere").problem(404, "not-found");
    let reply = client.get("/metrics");
    let name = "jeton_http_request_duration_seconds";
    for line in [
        format!("# TYPE {name} histogram"),
        format!("{name}_count{{method=\"GET\",route=\"/v1/tables/{{table}}/counters/{{row}}\"}} 2"),
        format!("{name}_count{{method=\"GET\",route=\"unknown\"}} 1"),
        format!(
            "{name}_bucket{{le=\"+Inf\",method=\"GET\",route=\"/v1/tables/{{table}}/counters/{{row}}\"}} 2"
        ),
    ] {
        assert!(reply.text().lines().any(|found| found == line), "{line} is not in\n{}", reply.text());
    }
}
