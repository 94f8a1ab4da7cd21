//! Warnings about connections over a network that are not encrypted.

use std::net::IpAddr;

use super::config::{TransactionsConfig, value_or_variable};

/// Logs one line for every server but `own`, database and registers that may be reached without encryption.
/// No line contains a URL: it may have a password.
pub fn warn(config: &TransactionsConfig, own: u16) {
    let cluster = &config.transactions;
    let others = cluster.servers.iter().zip(1..).filter(|(_, number)| *number != own);
    let servers = others.map(|(url, number)| (format!("server {number}"), url.clone()));
    let url = |url: &Option<String>, variable: &Option<String>| {
        value_or_variable(url.as_ref(), variable.as_ref()).unwrap_or_default()
    };
    let databases = config
        .databases
        .iter()
        .map(|(name, database)| (format!("database {name}"), url(&database.url, &database.url_variable)));
    let registers =
        ("the registers".to_owned(), url(&cluster.registers_url, &cluster.registers_url_variable));
    for (peer, url) in servers.chain(databases).chain([registers]) {
        if is_plain(&url) {
            tracing::warn!("the connection to {peer} is not or not always encrypted; see docs/security.md");
        }
    }
}

/// Whether connections by this URL may leave the machine unencrypted.
fn is_plain(url: &str) -> bool {
    let encrypted = ["require_ssl=true", "sslmode=require", "sslmode=verify-"];
    let Some((scheme, rest)) = url.split_once("://") else { return false };
    let hosts = rest.split(['/', '?']).next().unwrap_or_default();
    let hosts = hosts.rsplit_once('@').map_or(hosts, |(_, hosts)| hosts);
    scheme != "https"
        && !encrypted.iter().any(|parameter| rest.contains(parameter))
        && !hosts.split(',').all(is_local)
}

/// Whether a host, which a port may follow, is this machine. A directory of Unix sockets is.
fn is_local(host: &str) -> bool {
    let host = match host.strip_prefix('[').and_then(|host| host.split_once(']')) {
        Some((host, _)) => host,
        None => host.split(':').next().unwrap_or_default(),
    };
    let is_loopback = |address: IpAddr| address.to_canonical().is_loopback();
    matches!(host, "" | "localhost") || host.starts_with("%2F") || host.parse().is_ok_and(is_loopback)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unencrypted_connections_to_other_machines_are_found() {
        for url in [
            "http://10.0.0.1:6381",
            "http://[2001:db8::1]:6381",
            "postgresql://app:secret@db/bank",
            "postgresql://app@127.0.0.1,db/bank?sslmode=prefer",
            "mysql://app@10.0.0.6/bank?require_ssl=false",
        ] {
            assert!(is_plain(url), "{url}");
        }
        for url in [
            "",
            "https://10.0.0.1:6382",
            "http://127.0.0.1:6381",
            "http://[::1]:6381",
            "http://localhost:6381",
            "postgresql:///bank?host=/run/postgresql",
            "postgresql://%2Frun%2Fpostgresql/bank",
            "postgresql://app@db/bank?sslmode=verify-full&sslrootcert=ca.pem",
            "postgresql://app@db/bank?sslmode=require",
            "mysql://app@db/bank?require_ssl=true",
        ] {
            assert!(!is_plain(url), "{url}");
        }
    }
}
