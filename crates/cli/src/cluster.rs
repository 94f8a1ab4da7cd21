//! `jeton cluster`: the nodes and stripes of a cluster, and the drain of a node.

use std::time::Duration;

use anyhow::{Result, anyhow};
use clap::{Args, Subcommand};
use serde_json::Value;

use crate::cli_error::CliError;
use crate::output;
use crate::server_client::{Http, ServerArgs, json_of};

/// Time limit of a drain.
const DRAIN_TIMEOUT: Duration = Duration::from_secs(60);

/// Digits of a node id in tables. More are shown if they are equal.
const SHORT: usize = 8;

/// Show the nodes and stripes of a cluster, or drain a node
///
/// Any node responds. On a server with tokens the token needs the right to administer the server.
#[derive(Args)]
#[command(args_conflicts_with_subcommands = true)]
pub struct Cluster {
    #[command(subcommand)]
    action: Option<Action>,

    #[command(flatten)]
    status: Status,
}

#[derive(Subcommand)]
enum Action {
    Status(Status),
    Drain(Drain),
}

/// Show the nodes, and the stripes with their owners
#[derive(Args)]
struct Status {
    /// Print JSON
    #[arg(long)]
    json: bool,

    #[command(flatten)]
    server: ServerArgs,
}

/// Give all stripes of a node to the other nodes
///
/// The node keeps serving its clients, and passes their requests to the owners. It takes stripes again after
/// a restart.
#[derive(Args)]
struct Drain {
    /// Id of the node, or the beginning of it; its addresses are valid too
    node: String,

    #[command(flatten)]
    server: ServerArgs,
}

impl Cluster {
    pub fn run(&self) -> Result<()> {
        match &self.action {
            None => self.status.run(),
            Some(Action::Status(status)) => status.run(),
            Some(Action::Drain(drain)) => drain.run(),
        }
    }
}

fn text<'a>(value: &'a Value, name: &str) -> &'a str {
    value[name].as_str().unwrap_or("-")
}

fn items<'a>(value: &'a Value, name: &str) -> &'a [Value] {
    value[name].as_array().map_or(&[], Vec::as_slice)
}

fn read(server: &ServerArgs) -> Result<Value> {
    let (status, body) = Http(server).ask("GET", "/v1/cluster", None)?;
    json_of(status, &body)
}

/// The cluster with the logs of all stripes: each owner is asked for those of its own.
fn read_all(server: &ServerArgs) -> Result<Value> {
    let mut cluster = read(server)?;
    let me = text(&cluster, "node").to_owned();
    let others: Vec<ServerArgs> = items(&cluster, "nodes")
        .iter()
        .filter(|node| text(node, "id") != me && text(node, "state") != "suspected")
        .filter_map(|node| server.clone().of_node(items(node, "client_addresses")))
        .collect();
    for other in others {
        // A node that does not respond leaves the logs of its stripes out.
        let Ok(status) = read(&other) else { continue };
        let Some(stripes) = cluster["stripes"].as_array_mut() else { continue };
        for (stripe, theirs) in stripes.iter_mut().zip(items(&status, "stripes")) {
            if !theirs["log"].is_null() {
                *stripe = theirs.clone();
            }
        }
    }
    Ok(cluster)
}

impl Status {
    fn run(&self) -> Result<()> {
        let cluster = read_all(&self.server)?;
        if self.json {
            return output::json(&cluster);
        }
        lines(&cluster).iter().try_for_each(|line| output::line(line))
    }
}

impl Drain {
    fn run(&self) -> Result<()> {
        let cluster = read(&self.server)?;
        let node = find(&cluster, &self.node)?;
        let (id, addresses) = (text(node, "id"), items(node, "client_addresses"));
        let server = match id == text(&cluster, "node") {
            true => self.server.clone(),
            false => self.server.clone().of_node(addresses).ok_or_else(|| {
                let cause = anyhow!("node {id} has no HTTP address");
                CliError::of(cause, "the node cannot be drained", "stop it with SIGTERM, which drains it too")
            })?,
        };
        let path = format!("/v1/cluster/nodes/{id}:drain");
        let (status, body) = Http(&server).ask_within("POST", &path, Some("{}"), DRAIN_TIMEOUT)?;
        json_of(status, &body)?;
        output::line(&format!("Node {id} owns no stripe. Stop it, or restart it to give it stripes again."))
    }
}

/// The node with this id, beginning of an id, or address.
fn find<'a>(cluster: &'a Value, name: &str) -> Result<&'a Value> {
    let is_meant = |node: &&Value| {
        let addresses = items(node, "client_addresses").iter().filter_map(Value::as_str);
        let is_address = |address: &str| address.split_once("://").is_some_and(|(_, rest)| rest == name);
        text(node, "id").starts_with(name)
            || text(node, "address") == name
            || addresses.into_iter().any(is_address)
    };
    let found: Vec<&Value> = items(cluster, "nodes").iter().filter(is_meant).collect();
    match found[..] {
        [node] if !name.is_empty() => Ok(node),
        _ => {
            let cause = anyhow!("{} nodes match {name:?}", found.len());
            Err(CliError::of(cause, "which node is not clear", "list the nodes: jeton cluster"))
        }
    }
}

/// The shortest beginnings of ids that differ.
fn short(cluster: &Value) -> usize {
    let ids: Vec<&str> = items(cluster, "nodes").iter().map(|node| text(node, "id")).collect();
    let differ = |digits: &usize| {
        let mut starts: Vec<&str> = ids.iter().map(|id| id.get(..*digits).unwrap_or(id)).collect();
        starts.sort_unstable();
        starts.dedup();
        starts.len() == ids.len()
    };
    (SHORT..32).find(differ).unwrap_or(32)
}

fn lines(cluster: &Value) -> Vec<String> {
    let digits = short(cluster);
    let id = |value: &Value, name: &str| text(value, name).chars().take(digits).collect::<String>();
    let number = |value: &Value| value.as_u64().map_or("-".into(), |number| number.to_string());
    let heading = ["NODE", "STATE", "STRIPES", "HEARTBEAT", "PEERS", "CLIENTS"].map(String::from);
    let nodes: Vec<[String; 6]> = items(cluster, "nodes")
        .iter()
        .map(|node| {
            let clients = items(node, "client_addresses").iter().filter_map(Value::as_str);
            [
                id(node, "id"),
                text(node, "state").to_owned(),
                number(&node["stripes"]),
                format!("{} ms", number(&node["heartbeat_age_ms"])),
                text(node, "address").to_owned(),
                clients.collect::<Vec<_>>().join(" "),
            ]
        })
        .collect();
    let mut lines = output::columns(&heading, &nodes);
    lines.push(String::new());
    let heading =
        ["STRIPE", "OWNER", "TERM", "FOLLOWER", "SLOT", "LOG KIB", "WRITE P50 MS", "P99 MS", "OPS/WRITE"];
    let decimal = |value: &Value| value.as_f64().map_or("-".into(), |number| format!("{number:.1}"));
    let stripes: Vec<[String; 9]> = items(cluster, "stripes")
        .iter()
        .map(|stripe| {
            let log = &stripe["log"];
            [
                number(&stripe["number"]),
                id(stripe, "owner"),
                number(&stripe["term"]),
                id(stripe, "follower"),
                number(&log["next_slot"]),
                log["bytes"].as_u64().map_or("-".into(), |bytes| (bytes >> 10).to_string()),
                decimal(&log["write_p50_ms"]),
                decimal(&log["write_p99_ms"]),
                decimal(&log["operations_per_write"]),
            ]
        })
        .collect();
    lines.extend(output::columns(&heading.map(String::from), &stripes));
    lines.extend(
        items(cluster, "alarms").iter().filter_map(Value::as_str).map(|alarm| format!("ALARM: {alarm}")),
    );
    lines
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn cluster() -> Value {
        let node = |id: &str, http: &str| {
            json!({
                "id": id, "address": "127.0.0.1:1", "state": "alive", "stripes": 1, "heartbeat_age_ms": 20,
                "client_addresses": ["redis://127.0.0.1:2", http]
            })
        };
        json!({
            "node": "aaaaaaaaaa1", "alarms": ["clocks differ"],
            "nodes": [node("aaaaaaaaaa1", "http://127.0.0.1:3"), node("aaaaaaaaaa2", "http://127.0.0.1:4")],
            "stripes": [
                { "number": 0, "owner": "aaaaaaaaaa1", "term": 5, "follower": null, "log": {
                    "next_slot": 9, "bytes": 4096, "writes": 2, "operations_per_write": 2.5,
                    "write_p50_ms": 1.25, "write_p99_ms": 2.0 } },
                { "number": 1, "owner": null, "term": 0, "follower": null, "log": null }
            ]
        })
    }

    #[test]
    fn tables_show_nodes_and_stripes() {
        let text = lines(&cluster()).join("\n");
        for words in ["NODE", "aaaaaaaaaa1  alive  1        20 ms", "ALARM: clocks differ"] {
            assert!(text.contains(words), "{words:?} is not in:\n{text}");
        }
        let rows: Vec<Vec<&str>> = text.lines().map(|line| line.split_whitespace().collect()).collect();
        assert!(rows.contains(&vec!["0", "aaaaaaaaaa1", "5", "-", "9", "4", "1.2", "2.0", "2.5"]), "{text}");
        assert!(rows.contains(&vec!["1", "-", "0", "-", "-", "-", "-", "-", "-"]), "{text}");
    }

    #[test]
    fn a_node_is_found_by_id_and_address() {
        let cluster = cluster();
        for name in ["aaaaaaaaaa2", "127.0.0.1:4"] {
            assert_eq!(find(&cluster, name).unwrap()["id"], "aaaaaaaaaa2", "{name}");
        }
        for name in ["", "aaa", "b", "127.0.0.1:2"] {
            assert!(find(&cluster, name).is_err(), "{name}");
        }
    }
}
