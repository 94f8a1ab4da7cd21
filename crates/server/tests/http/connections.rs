//! Connections: slow ones, large ones, too many, and their end.

use std::time::{Duration, Instant};

use jeton_server::Metric;
use serde_json::json;

use crate::harness::{Start, World, uuid};

const ADD: &str = "/v1/tables/default/counters/c:add";

#[test]
fn who_does_not_end_a_head_is_cut() {
    let world =
        Start::default().options(|options| options.request_read_timeout = Duration::from_millis(200)).go();
    let mut silent = world.client();
    let mut slow = world.client();
    slow.write(b"GET /healthz HTTP/1.1\r\nhost: x\r\n");
    let begun = Instant::now();
    // Hyper may say why it ends the connection, or not; it ends it.
    while !slow.is_at_end() && begun.elapsed() < Duration::from_secs(15) {
        slow.line();
    }
    while !silent.is_at_end() && begun.elapsed() < Duration::from_secs(15) {
        silent.line();
    }
    assert!(begun.elapsed() < Duration::from_secs(15), "not cut");
    // A body that does not go on is answered.
    let mut half = world.client();
    half.write(format!("POST {ADD} HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\ncontent-length: 100\r\n\r\n{{").as_bytes());
    let problem = half.receive().problem(400, "bad-request");
    assert!(problem["detail"].as_str().unwrap().contains("no part of the body arrived"), "{problem}");
}

/// Waits until no connection is open.
fn all_ended(world: &World) {
    let begun = Instant::now();
    while world.service.metrics.get(Metric::HttpOpen) > 0 {
        assert!(begun.elapsed() < Duration::from_secs(15), "a client that does not read is not cut");
        std::thread::sleep(Duration::from_millis(2));
    }
}

#[test]
fn who_does_not_take_its_answer_is_cut() {
    const WORD: Duration = Duration::from_millis(300);
    let world = Start::default().options(|options| options.request_read_timeout = WORD).go();
    // A large cell, read so often that no buffer on the way holds all of it.
    let rows = "&row=large".repeat(999);
    let mut client = world.client();
    let path = "/v1/tables/default/counters/large:put";
    client.post(path, json!({"text": "x".repeat(60_000), "id": uuid()})).ok();
    client.send("GET", &format!("/v1/tables/default/counters?row=large{rows}"), &[], b"");
    all_ended(&world);
    assert_eq!(client.head().status, 200, "it was being answered");
}

#[test]
fn who_does_not_take_what_it_watches_is_cut() {
    const WORD: Duration = Duration::from_millis(300);
    let world = Start::default().options(|options| options.request_read_timeout = WORD).go();
    let mut watcher = world.client();
    watcher.send("GET", "/v1/watch", &[], b"");
    watcher.head();
    watcher.piece();
    // Silence is none of its faults,
    std::thread::sleep(2 * WORD);
    assert!(world.service.changes.has_subscribers());
    // but not to read what happens is.
    let row = "x".repeat(1000);
    let begun = Instant::now();
    while world.service.changes.has_subscribers() {
        assert!(begun.elapsed() < Duration::from_secs(15), "a watcher that does not read is not cut");
        let item =
            |at: usize| json!({"table": "default", "row": format!("{row}{at}"), "delta": 1, "id": uuid()});
        let items: Vec<_> = (0..1000).map(item).collect();
        world.client().post("/v1/batch", json!({"operations": items})).ok();
    }
    all_ended(&world);
}

#[test]
fn a_body_beyond_the_limit_is_refused_without_being_read() {
    let world = Start::default().options(|options| options.request_bytes_max = 1000).go();
    // By what it says of itself,
    let mut client = world.client();
    client.write(
        format!(
            "POST {ADD} HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\ncontent-length: 1001\r\n\r\n"
        )
        .as_bytes(),
    );
    let problem = client.receive().problem(413, "too-large");
    assert_eq!(problem["limit"], 1000);
    // and by what it turns out to be.
    let mut client = world.client();
    client.write(format!("POST {ADD} HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\ntransfer-encoding: chunked\r\n\r\n").as_bytes());
    client.write(format!("3e9\r\n{}\r\n", " ".repeat(1001)).as_bytes());
    client.receive().problem(413, "too-large");
    // Up to the limit it is read.
    let body = json!({"delta": 1, "id": uuid()}).to_string();
    let padded = format!("{body}{}", " ".repeat(1000 - body.len()));
    world.client().post(ADD, padded).ok();
}

#[test]
fn more_connections_than_there_are_places_are_turned_away() {
    let world = Start::default().options(|options| options.connections_max = 3).go();
    let mut clients: Vec<_> = (0..3).map(|_| world.client()).collect();
    for client in &mut clients {
        client.get("/healthz").ok();
    }
    let mut fourth = world.client();
    let reply = fourth.receive();
    reply.problem(503, "busy");
    assert_eq!(reply.header("retry-after"), Some("1"));
    assert!(fourth.is_at_end());
    assert_eq!(world.service.metrics.get(Metric::TurnedAway), 1);
    assert_eq!(world.service.metrics.get(Metric::HttpOpen), 3);
    // A place that is given back can be taken.
    drop(clients.pop());
    let begun = Instant::now();
    while world.service.metrics.get(Metric::HttpOpen) > 2 {
        assert!(begun.elapsed() < Duration::from_secs(15));
        std::thread::yield_now();
    }
    world.client().get("/healthz").ok();
}

#[test]
fn at_the_end_what_is_under_way_is_answered() {
    let mut world = World::new();
    let mut watcher = world.client();
    watcher.send("GET", "/v1/watch", &[], b"");
    watcher.head();
    watcher.piece();
    let mut idle = world.client();
    idle.get("/healthz").ok();
    // A request is half sent when the end begins.
    let mut client = world.client();
    let body = json!({"delta": 4, "id": uuid()}).to_string();
    let head = format!(
        "POST {ADD} HTTP/1.1\r\nhost: x\r\nexpect: 100-continue\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n",
        body.len()
    );
    client.write(head.as_bytes());
    // It is being served: the server asks for the body.
    assert_eq!(client.line(), "HTTP/1.1 100 Continue");
    assert_eq!(client.line(), "");
    world.begin_stop();
    // What waits for a request, or has no end of its own, ends at once.
    assert!(idle.is_at_end());
    assert!(watcher.piece().is_empty());
    client.write(body.as_bytes());
    assert_eq!(client.receive().ok()["value"], 4);
    assert!(client.is_at_end());
    world.end();
    assert_eq!(world.service.metrics.get(Metric::HttpOpen), 0);
}
