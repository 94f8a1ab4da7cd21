//! What a server says when it is ready: where it is, and at its first start, how to try it.

use std::net::{IpAddr, SocketAddr};
use std::path::Path;

use anyhow::Result;

use super::listeners::ListenProtocol;
use crate::{id, output, version};

/// What is said about a server that is ready.
pub struct Greeting<'a> {
    pub data: &'a Path,
    /// Whether the store was made just now.
    pub is_new: bool,
    pub tokens: Option<&'a Path>,
    /// The table of keys that name none.
    pub table: &'a str,
    /// The certificate, which clients have to trust.
    pub ca: Option<&'a Path>,
    pub addresses: Vec<(ListenProtocol, SocketAddr)>,
}

/// Says it.
pub fn print(greeting: &Greeting<'_>) -> Result<()> {
    lines(greeting, &id::uuid7()?).iter().try_for_each(|line| output::line(line))
}

fn lines(greeting: &Greeting<'_>, id: &str) -> Vec<String> {
    let Greeting { data, is_new, tokens, table, ca, addresses } = greeting;
    let data = std::path::absolute(data).unwrap_or_else(|_| data.to_path_buf());
    let mut lines = vec![format!("Jeton {} is ready.", version::long()), String::new()];
    let made = if *is_new { " (new)" } else { "" };
    lines.push(format!("  data       {}{made}", data.display()));
    for (speaks, address) in addresses {
        lines.push(match speaks {
            ListenProtocol::Resp => format!("  RESP       {address}"),
            ListenProtocol::RespTls => format!("  RESP, TLS  {address}"),
            ListenProtocol::Http => format!("  HTTP       http://{address}"),
            ListenProtocol::HttpTls => format!("  HTTPS      https://{address}"),
        });
    }
    lines.push(match tokens {
        Some(file) => format!("  tokens     {}", file.display()),
        None => "  tokens     none: whoever can connect may do everything".into(),
    });
    if *is_new {
        lines.extend(tries(addresses, tokens.is_some(), *ca, (table, id)));
    }
    lines
}

/// One line to copy for each way in. The id makes each safe to run twice: the second time nothing is counted.
fn tries(
    addresses: &[(ListenProtocol, SocketAddr)],
    has_tokens: bool,
    ca: Option<&Path>,
    (table, id): (&str, &str),
) -> Vec<String> {
    let at = |wanted: [ListenProtocol; 2]| {
        wanted.into_iter().find_map(|wanted| addresses.iter().find(|(speaks, _)| *speaks == wanted))
    };
    let trust = |flag: &str| ca.map_or(String::new(), |ca| format!(" {flag} {}", ca.display()));
    let mut lines = vec![String::new(), "Try it (run a line twice: it counts once):".into(), String::new()];
    if let Some((speaks, address)) = at([ListenProtocol::Resp, ListenProtocol::RespTls]) {
        let address = reachable(*address);
        let login = if has_tokens { "REDISCLI_AUTH=\"$JETON_TOKEN\" " } else { "" };
        let host = if address.ip().is_loopback() && address.is_ipv4() {
            String::new()
        } else {
            format!(" -h {}", address.ip())
        };
        let tls = if *speaks == ListenProtocol::RespTls {
            format!(" --tls{}", trust("--cacert"))
        } else {
            String::new()
        };
        lines.push(format!("  {login}redis-cli{host} -p {}{tls} JADD home 1 ID {id}", address.port()));
    }
    if let Some((speaks, address)) = at([ListenProtocol::Http, ListenProtocol::HttpTls]) {
        let address = reachable(*address);
        let login = if has_tokens { " -H \"Authorization: Bearer $JETON_TOKEN\"" } else { "" };
        let (scheme, tls) = match speaks {
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

/// The address that a client on this machine can use: a server that listens everywhere listens on loopback too.
fn reachable(address: SocketAddr) -> SocketAddr {
    let loopback: IpAddr =
        if address.is_ipv4() { [127, 0, 0, 1].into() } else { std::net::Ipv6Addr::LOCALHOST.into() };
    if address.ip().is_unspecified() { SocketAddr::new(loopback, address.port()) } else { address }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn greeting<'a>(is_new: bool, tokens: Option<&'a Path>) -> Greeting<'a> {
        let addresses = vec![
            (ListenProtocol::Resp, "0.0.0.0:6380".parse().unwrap()),
            (ListenProtocol::Http, "[::1]:6381".parse().unwrap()),
        ];
        Greeting { data: Path::new("/d"), is_new, tokens, table: "mine", ca: None, addresses }
    }

    #[test]
    fn a_new_store_is_greeted_with_lines_to_copy() {
        let text = lines(&greeting(true, None), "ID").join("\n");
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
    fn a_later_start_is_short_and_tokens_are_in_the_lines() {
        assert!(!lines(&greeting(false, None), "ID").join("\n").contains("redis-cli"));
        let text = lines(&greeting(true, Some(Path::new("/t.json"))), "ID").join("\n");
        for words in ["tokens     /t.json", "REDISCLI_AUTH=\"$JETON_TOKEN\" redis-cli", "Bearer $JETON_TOKEN"]
        {
            assert!(text.contains(words), "{words:?} is not in:\n{text}");
        }
    }
}
