//! `jeton cluster`.

use serde_json::Value;

use crate::nodes::{Cluster, STRIPES, ask};
use crate::until;

#[test]
fn cluster_shows_and_drains_nodes() {
    let cluster = Cluster::start(2);
    cluster.await_spread();
    for row in 0..20 {
        assert_eq!(cluster.run(0, &["add", &format!("row{row}")]).code, Some(0));
    }
    let (first, second) = (cluster.nodes[0].id(), cluster.nodes[1].id());

    let run = cluster.run(0, &["cluster"]);
    assert_eq!(run.code, Some(0), "{}", run.err);
    let lines: Vec<Vec<&str>> = run.out.lines().map(|line| line.split_whitespace().collect()).collect();
    let node = lines
        .iter()
        .find(|line| line.first() == Some(&&second[..8]))
        .unwrap_or_else(|| panic!("{}", run.out));
    assert_eq!(node[1], "alive", "{}", run.out);
    assert!(node.contains(&format!("redis://{}", cluster.nodes[1].resp).as_str()), "{}", run.out);
    // Every owner reports its log.
    let stripes: Vec<_> =
        lines.iter().filter(|line| line.first().is_some_and(|it| it.parse::<u16>().is_ok())).collect();
    assert_eq!(stripes.len(), STRIPES, "{}", run.out);
    assert!(stripes.iter().all(|line| line[4] != "-"), "{}", run.out);

    let run = cluster.run(1, &["cluster", "status", "--json"]);
    let status: Value = serde_json::from_str(&run.out).unwrap();
    assert_eq!(status["node"], second);
    let writes = |stripe: &Value| stripe["log"]["writes"].as_u64().unwrap();
    let writes: u64 = status["stripes"].as_array().unwrap().iter().map(writes).sum();
    assert!(writes > 0, "{status}");

    let run = cluster.run(1, &["cluster", "drain", &first[..12]]);
    assert_eq!(run.code, Some(0), "{}", run.err);
    cluster.await_owners(&[1]);
    let (status, body) = ask(&cluster.nodes[0].http, "GET", "/readyz", "").unwrap();
    assert!(status == 503 && body.contains("leaving"), "{status} {body}");
    // It still takes requests.
    let run = cluster.run(0, &["add", "row0"]);
    assert!(run.code == Some(0) && run.out == "2 applied\n", "{}{}", run.out, run.err);
    cluster.run(1, &["cluster", "drain", "nobody"]).fails(&["0 nodes match"]);
}

#[test]
fn metrics_and_info_show_the_cluster() {
    let cluster = Cluster::start(1);
    cluster.await_owners(&[0]);
    assert_eq!(cluster.run(0, &["add", "clicks"]).code, Some(0));
    let value = |name: &str| -> f64 {
        let (_, text) = ask(&cluster.nodes[0].http, "GET", "/metrics", "").unwrap();
        let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
        line.unwrap_or_else(|| panic!("{name} is not in:\n{text}")).parse().unwrap()
    };
    until("the node is alive", || value("jeton_cluster_nodes") == 1.0);
    assert_eq!(value("jeton_cluster_stripes_owned"), STRIPES as f64);
    assert_eq!(value("jeton_cluster_stripes_unowned"), 0.0);
    assert!(value("jeton_cluster_stripe_operations") >= 1.0);
    assert!(value("jeton_cluster_write_seconds{quantile=\"0.99\"}") > 0.0);
    assert!(value("jeton_cluster_stripe_term{stripe=\"7\"}") >= 1.0);
}
