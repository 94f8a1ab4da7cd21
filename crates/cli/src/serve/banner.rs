//! The banner of a server that is ready: its addresses and, at the first start, commands to try.

use std::net::{IpAddr, SocketAddr};
use std::path::Path;

use anyhow::Result;
use jeton_server::node::{ClusterStatus, ListenProtocol};

use crate::{id, output, version};

pub struct Banner<'a> {
    pub data: &'a Path,
    /// The node, on a node of a cluster.
    pub cluster: Option<ClusterStatus>,
    /// Whether the store was created by this start.
    pub is_new: bool,
    pub tokens: Option<&'a Path>,
    /// The default table.
    pub table: &'a str,
    /// The certificate that clients must trust.
    pub ca: Option<&'a Path>,
    pub addresses: Vec<(ListenProtocol, SocketAddr)>,
}

pub fn print(banner: &Banner<'_>) -> Result<()> {
    lines(banner, &id::uuid7()?).iter().try_for_each(|line| output::line(line))
}

fn lines(banner: &Banner<'_>, id: &str) -> Vec<String> {
    let Banner { data, cluster, is_new, tokens, table, ca, addresses } = banner;
    let data = std::path::absolute(data).unwrap_or_else(|_| data.to_path_buf());
    let mut lines = vec![format!("Jeton {} is ready.", version::long()), String::new()];
    let created = if *is_new { " (new)" } else { "" };
    lines.push(format!("  data       {}{created}", data.display()));
    if let Some(status) = cluster {
        let others = status.nodes.iter().filter(|node| node.id != status.me && !node.suspected).count();
        let stripes = status.stripes.len();
        lines.push(format!(
            "  cluster    {others} other nodes, {stripes} stripes; this is node {:032x}",
            status.me.0
        ));
    }
    for (protocol, address) in addresses {
        lines.push(match protocol {
            ListenProtocol::Resp => format!("  RESP       {address}"),
            ListenProtocol::RespTls => format!("  RESP, TLS  {address}"),
            ListenProtocol::Http => format!("  HTTP       http://{address}"),
            ListenProtocol::HttpTls => format!("  HTTPS      https://{address}"),
        });
    }
    lines.push(match tokens {
        Some(file) => format!("  tokens     {}", file.display()),
        None => "  tokens     none: every client has all rights".into(),
    });
    if *is_new {
        lines.extend(example_commands(addresses, tokens.is_some(), *ca, (table, id)));
    }
    lines
}

/// One command per protocol. Each has an id, so a second run counts nothing.
fn example_commands(
    addresses: &[(ListenProtocol, SocketAddr)],
    has_tokens: bool,
    ca: Option<&Path>,
    (table, id): (&str, &str),
) -> Vec<String> {
    let at = |wanted: [ListenProtocol; 2]| {
        wanted.into_iter().find_map(|wanted| addresses.iter().find(|(protocol, _)| *protocol == wanted))
    };
    let trust = |flag: &str| ca.map_or(String::new(), |ca| format!(" {flag} {}", ca.display()));
    let mut lines = vec![String::new(), "Try it (run a line twice: it counts once):".into(), String::new()];
    if let Some((protocol, address)) = at([ListenProtocol::Resp, ListenProtocol::RespTls]) {
        let address = reachable(*address);
        let login = if has_tokens { "REDISCLI_AUTH=\"$JETON_TOKEN\" " } else { "" };
        let host = if address.ip().is_loopback() && address.is_ipv4() {
            String::new()
        } else {
            format!(" -h {}", address.ip())
        };
        let tls = if *protocol == ListenProtocol::RespTls {
            format!(" --tls{}", trust("--cacert"))
        } else {
            String::new()
        };
        lines.push(format!("  {login}redis-cli{host} -p {}{tls} JADD home 1 ID {id}", address.port()));
    }
    if let Some((protocol, address)) = at([ListenProtocol::Http, ListenProtocol::HttpTls]) {
        let address = reachable(*address);
        let login = if has_tokens { " -H \"Authorization: Bearer $JETON_TOKEN\"" } else { "" };
        let (scheme, tls) = match protocol {
            ListenProtocol::HttpTls => ("https", trust("--cacert")),
            _ => ("http", String::new()),
        };
        lines.push(format!(
            "  curl -s{tls}{login} -H 'Idempotency-Key: \"{id}\"' --json '{{\"delta\": 1}}' \
             {scheme}://{address}/v1/tables/{table}/counters/home:add"
        ));
        lines.push(format!("  {scheme}://{address}/  in a browser"));
    }
    lines
}

/// The address for a client on this machine: loopback, if the server listens on all addresses.
fn reachable(address: SocketAddr) -> SocketAddr {
    let loopback: IpAddr =
        if address.is_ipv4() { [127, 0, 0, 1].into() } else { std::net::Ipv6Addr::LOCALHOST.into() };
    if address.ip().is_unspecified() { SocketAddr::new(loopback, address.port()) } else { address }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn banner<'a>(is_new: bool, tokens: Option<&'a Path>) -> Banner<'a> {
        let addresses = vec![
            (ListenProtocol::Resp, "0.0.0.0:6380".parse().unwrap()),
            (ListenProtocol::Http, "[::1]:6381".parse().unwrap()),
        ];
        Banner { data: Path::new("/d"), cluster: None, is_new, tokens, table: "mine", ca: None, addresses }
    }

    #[test]
    fn a_new_store_shows_example_commands() {
        let text = lines(&banner(true, None), "ID").join("\n");
        for words in [
            "  data       /d (new)",
            "  RESP       0.0.0.0:6380",
            "  redis-cli -p 6380 JADD home 1 ID ID",
            "http://[::1]:6381/v1/tables/mine/counters/home:add",
            "  http://[::1]:6381/  in a browser",
            "tokens     none",
        ] {
            assert!(text.contains(words), "{words:?} is not in:\n{text}");
        }
    }

    #[test]
    fn later_starts_are_short_and_commands_use_tokens() {
        assert!(!lines(&banner(false, None), "ID").join("\n").contains("redis-cli"));
        let text = lines(&banner(true, Some(Path::new("/t.json"))), "ID").join("\n");
        for words in ["tokens     /t.json", "REDISCLI_AUTH=\"$JETON_TOKEN\" redis-cli", "Bearer $JETON_TOKEN"]
        {
            assert!(text.contains(words), "{words:?} is not in:\n{text}");
        }
    }
}
