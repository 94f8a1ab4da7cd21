//! The settings of the nodes that decide whether conditional writes are safe.

use std::collections::HashMap;

use scylla::client::session::Session;

use crate::cluster::node_settings;
use crate::open_error::OpenError;
use crate::options::Options;

const QUERY: &str = "SELECT name, value FROM system_views.settings
    WHERE name IN ('commitlog_sync', 'paxos_variant', 'paxos_state_purging')";

/// What a check of all nodes found.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct NodeReport {
    /// Addresses of nodes with a periodic sync of the commit log, which the options accept.
    pub periodic_sync: Vec<String>,
    /// Addresses of nodes that did not respond.
    pub unreachable: Vec<String>,
}

/// Why a node with these settings is unsafe.
fn unsafe_setting(settings: &HashMap<String, String>, accept_periodic_sync: bool) -> Option<String> {
    let get = |name: &str| settings.get(name).map_or("unknown", String::as_str);
    let is_synced = ["batch", "group"].contains(&get("commitlog_sync"));
    let (name, needed, why) = if get("paxos_variant") != "v2" {
        ("paxos_variant", "v2", "others are not linearizable while nodes join or leave")
    } else if get("paxos_state_purging") != "repaired" {
        ("paxos_state_purging", "repaired", "otherwise a node forgets what it has accepted after a time")
    } else if !is_synced && !accept_periodic_sync {
        (
            "commitlog_sync",
            "batch or group",
            "a power failure loses acknowledged writes and promises of Paxos",
        )
    } else {
        return None;
    };
    Some(format!("{name} is {}, and must be {needed}: {why}", get(name)))
}

/// Checks all nodes that respond; a majority must.
pub async fn check(session: &Session, options: &Options) -> Result<NodeReport, OpenError> {
    let mut report = NodeReport::default();
    let state = session.get_cluster_state();
    let nodes = state.get_nodes_info();
    let mut last = String::new();
    for node in nodes {
        let address = node.address.to_string();
        match node_settings(session, node, QUERY).await {
            Ok(settings) => {
                if let Some(why) = unsafe_setting(&settings, options.accept_periodic_sync) {
                    return Err(OpenError::Unfit(format!("node {address}: {why}")));
                }
                if settings.get("commitlog_sync").is_some_and(|sync| sync == "periodic") {
                    report.periodic_sync.push(address);
                }
            }
            Err(error) => {
                last = error.to_string();
                report.unreachable.push(address);
            }
        }
    }
    if report.unreachable.len() * 2 >= nodes.len().max(1) {
        let (away, all) = (report.unreachable.len(), nodes.len());
        return Err(OpenError::Unreachable(format!("{away} of {all} nodes do not respond: {last}")));
    }
    Ok(report)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unsafe_settings_are_named() {
        let safe =
            [("commitlog_sync", "batch"), ("paxos_variant", "v2"), ("paxos_state_purging", "repaired")];
        let with = |changed: &str, value: &str| -> HashMap<String, String> {
            let choose = |(name, safe): (&str, &str)| {
                (name.to_owned(), if name == changed { value } else { safe }.to_owned())
            };
            safe.into_iter().map(choose).collect()
        };
        assert_eq!(unsafe_setting(&with("", ""), false), None);
        assert_eq!(unsafe_setting(&with("commitlog_sync", "group"), false), None);
        assert_eq!(unsafe_setting(&with("commitlog_sync", "periodic"), true), None);
        for (name, value) in [
            ("commitlog_sync", "periodic"),
            ("paxos_variant", "v1"),
            ("paxos_variant", "v2_without_linearizable_reads"),
            ("paxos_state_purging", "legacy"),
            ("paxos_state_purging", "gc_grace"),
        ] {
            let why = unsafe_setting(&with(name, value), name != "commitlog_sync").unwrap_or_default();
            assert!(why.starts_with(&format!("{name} is {value},")), "{why}");
        }
        assert!(unsafe_setting(&HashMap::new(), true).is_some());
    }
}
