//! `jeton bench` and `jeton top`.

use crate::server::{Server, folder, has, run_in};

#[test]
fn bench_counts_are_right_and_top_shows_them() {
    let folder = folder();
    let server = Server::start(folder.path(), &[]);
    let bench = [
        "bench",
        "--connections",
        "2",
        "--pipeline",
        "16",
        "--duration",
        "200ms",
        "--duplicates",
        "30",
        "--json",
    ];
    let json: serde_json::Value = serde_json::from_str(&server.must(&bench)).unwrap();
    assert_eq!(json["wrong"], serde_json::json!([]));
    let number = |name: &str| json[name].as_u64().unwrap();
    assert!(number("applied") > 0 && number("replayed") > 0, "{json}");
    assert_eq!(number("operations"), number("applied") + number("replayed"));
    has(
        &server.must(&["bench", "--duration", "50ms", "--connections", "1"]),
        &["equal the acknowledged operations"],
    );

    let top = server.must(&["top", "--once"]);
    has(
        &top,
        &[
            &format!("jeton at {}", server.http()),
            "operations so far",
            "applied",
            "replayed",
            "TABLE",
            "default",
            "dated",
        ],
    );
    assert!(!top.contains("ERROR  "), "{top}");

    run_in(folder.path(), &[], &["top", "--once", "--http", "127.0.0.1:1"])
        .fails(&["no server responds at 127.0.0.1:1"]);
    has(&server.run(&["bench", "--table", "nowhere"]).err, &["the table does not exist"]);
}
