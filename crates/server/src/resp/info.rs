//! `INFO`: the fields of Redis that are true of this server, and fields of Jeton.

use jeton_core::ErrorCode;
use jeton_resp::request_parser::Command;

use super::connection_commands::REDIS_VERSION;
use super::session::Session;
use crate::metrics::Metric;
use crate::store::Store;

/// The sections that the arguments name, as text.
pub fn text(command: &Command<'_>, session: &Session) -> String {
    let service = &session.service;
    let stats = service.engine.stats();
    let count = |what| service.metrics.get(what).to_string();
    let errors = |code| service.metrics.errors(code).to_string();
    let (process, uptime) = (&service.process, service.process.started.elapsed().as_secs());
    let resident = resident_bytes().to_string();
    let storage = stats.last_error.as_ref().map_or("ok", |_| "err");
    let fixed = |value: &str| value.to_owned();
    let sections = [
        (
            "Server",
            vec![
                ("redis_version", fixed(REDIS_VERSION)),
                ("redis_mode", fixed("standalone")),
                ("jeton_version", fixed(env!("CARGO_PKG_VERSION"))),
                ("os", format!("{} {}", std::env::consts::OS, std::env::consts::ARCH)),
                ("arch_bits", usize::BITS.to_string()),
                ("process_id", std::process::id().to_string()),
                ("run_id", process.run_id.clone()),
                ("tcp_port", service.resp_port().to_string()),
                ("server_time_usec", (session.millis * 1000).to_string()),
                ("uptime_in_seconds", uptime.to_string()),
                ("uptime_in_days", (uptime / 86_400).to_string()),
            ],
        ),
        (
            "Clients",
            vec![
                ("connected_clients", count(Metric::RespOpen)),
                ("maxclients", service.options.connections_max.to_string()),
                ("blocked_clients", fixed("0")),
            ],
        ),
        (
            "Memory",
            vec![
                ("used_memory", resident.clone()),
                ("used_memory_rss", resident),
                ("maxmemory", fixed("0")),
                ("maxmemory_policy", fixed("noeviction")),
            ],
        ),
        (
            "Persistence",
            vec![
                ("loading", fixed("0")),
                ("async_loading", fixed("0")),
                ("rdb_bgsave_in_progress", fixed("0")),
                ("aof_enabled", fixed("1")),
                ("aof_rewrite_in_progress", fixed("0")),
                ("aof_last_write_status", fixed(storage)),
                ("jeton_storage_error", stats.last_error.unwrap_or_default()),
                ("jeton_log_bytes", stats.logged_bytes.to_string()),
                ("jeton_value_bytes", stats.value_bytes.to_string()),
                ("jeton_id_bytes", stats.ids.bytes.to_string()),
            ],
        ),
        (
            "Stats",
            vec![
                ("total_connections_received", count(Metric::RespConnections)),
                ("total_commands_processed", count(Metric::Commands)),
                ("rejected_connections", count(Metric::TurnedAway)),
                ("evicted_keys", fixed("0")),
                ("pubsub_channels", fixed("0")),
                ("pubsub_patterns", fixed("0")),
                ("jeton_applied", count(Metric::Applied)),
                ("jeton_replayed", count(Metric::Replayed)),
                ("jeton_refused", count(Metric::Refused)),
                ("jeton_expired", errors(ErrorCode::IdExpired)),
                ("jeton_mismatch", errors(ErrorCode::IdMismatch)),
                ("jeton_busy", errors(ErrorCode::Busy)),
            ],
        ),
        ("Replication", vec![("role", fixed("master")), ("connected_slaves", fixed("0"))]),
        // Of Redis Cluster, whose protocol is another: every node takes every key.
        ("Cluster", [vec![("cluster_enabled", fixed("0"))], cluster_fields(&service.engine)].concat()),
    ];
    let is_selected = |section: &str| {
        let names = [section, "all", "everything", "default"];
        let is_named = |name: &[u8]| names.iter().any(|known| name.eq_ignore_ascii_case(known.as_bytes()));
        command.len() == 1 || command.iter().skip(1).any(is_named)
    };
    let mut text = String::new();
    for (section, fields) in sections.iter().filter(|(section, _)| is_selected(section)) {
        text += &format!("# {section}\r\n");
        fields.iter().for_each(|(name, value)| text += &format!("{name}:{value}\r\n"));
        text += "\r\n";
    }
    let mut tables = stats.tables.iter().filter(|table| session.may_see(&table.name)).peekable();
    if is_selected("Tables") && tables.peek().is_some() {
        text += "# Tables\r\n";
        for table in tables {
            let filters = [&table.filters.0, &table.filters.1].into_iter().flatten();
            let bytes: usize = filters.map(|filter| filter.bytes).sum();
            text += &format!("table_{}:filter_bytes={bytes},eras={}\r\n", table.name, table.eras);
        }
        text += "\r\n";
    }
    text
}

/// The fields of a node of a cluster.
fn cluster_fields(store: &Store) -> Vec<(&'static str, String)> {
    let Some(status) = store.cluster_status() else { return Vec::new() };
    let count = |count: usize| count.to_string();
    vec![
        ("jeton_cluster_node", format!("{:032x}", status.me.0)),
        ("jeton_cluster_nodes", count(status.nodes.iter().filter(|node| !node.suspected).count())),
        ("jeton_cluster_stripes", count(status.stripes.len())),
        (
            "jeton_cluster_stripes_owned",
            count(status.stripes.iter().filter(|one| one.local.is_some()).count()),
        ),
        ("jeton_cluster_alarms", status.alarms.join("; ")),
    ]
}

/// Resident memory of the process; 0 where the system does not report it.
fn resident_bytes() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap_or_default();
    line.trim().trim_end_matches(" kB").parse::<u64>().map_or(0, |kib| kib << 10)
}
