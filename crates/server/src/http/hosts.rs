//! The names under which clients may address the server.
//!
//! A web page can point a name of its own domain to this server (DNS rebinding). The browser then regards the
//! server as part of the page's site, but it sends that name in `Host`. So what must hold: `Host` is an IP
//! address, which no DNS record can redirect, `localhost`, the host name of the machine, or a name that the
//! operator configured; and `Origin`, if present, is this server or a configured name.

use std::net::{Ipv4Addr, Ipv6Addr};
use std::sync::LazyLock;

use axum::extract::Request;
use axum::http::uri::Authority;
use axum::http::{Version, header};

use super::problem::{ErrorCode, Problem};
use crate::Options;

/// The host name of the machine, where the system has one.
static MACHINE: LazyLock<String> = LazyLock::new(|| {
    let name = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    name.trim().to_owned()
});

/// Checks the headers `Host` and `Origin` and the authority in the request line.
pub fn check(options: &Options, request: &Request) -> Result<(), Problem> {
    let mut hosts = request.headers().get_all(header::HOST).iter();
    let host = match (hosts.next(), hosts.next()) {
        (Some(host), None) => Some(host.to_str().unwrap_or_default()),
        (Some(_), Some(_)) => return Err(Problem::bad_request("the header Host occurs more than once")),
        (None, _) if request.version() == Version::HTTP_11 => {
            return Err(Problem::bad_request("the header Host is missing"));
        }
        (None, _) => None,
    };
    let in_line = request.uri().authority().map(Authority::as_str);
    for host in [host, in_line].into_iter().flatten() {
        if !is_own(host) && !is_configured(host, &options.http_hosts) {
            let detail = format!(
                "the server is not known as {host:?}: use its IP address or localhost, or add the name to the \
                 setting http_hosts (--http-hosts)"
            );
            return Err(Problem::new(ErrorCode::HostNotAllowed, detail));
        }
    }
    for origin in request.headers().get_all(header::ORIGIN) {
        let site = origin.to_str().ok().and_then(|origin| Some(origin.split_once("://")?.1));
        let is_allowed = site.is_some_and(|site| {
            host.is_some_and(|host| host.eq_ignore_ascii_case(site))
                || is_configured(site, &options.http_hosts)
        });
        if !is_allowed {
            let detail = format!(
                "web pages of {origin:?} may not use this server: add the host of the page to the setting \
                 http_hosts (--http-hosts)"
            );
            return Err(Problem::new(ErrorCode::Forbidden, detail));
        }
    }
    Ok(())
}

fn is_own(host: &str) -> bool {
    let Some((name, _)) = split(host) else { return false };
    name.eq_ignore_ascii_case("localhost")
        || (!MACHINE.is_empty() && name.eq_ignore_ascii_case(&MACHINE))
        || name.parse::<Ipv4Addr>().is_ok()
        || name.strip_prefix('[').and_then(|name| name.strip_suffix(']')?.parse::<Ipv6Addr>().ok()).is_some()
}

/// Whether a configured entry is this name, with this port or without a port.
fn is_configured(host: &str, entries: &[String]) -> bool {
    let Some((name, _)) = split(host) else { return false };
    entries.iter().any(|entry| entry.eq_ignore_ascii_case(name) || entry.eq_ignore_ascii_case(host))
}

/// Name and port of `name`, `name:port` or `[address]:port`. The final dot of a name is dropped.
fn split(host: &str) -> Option<(&str, &str)> {
    let end = if host.starts_with('[') { host.find(']')? + 1 } else { host.find(':').unwrap_or(host.len()) };
    let (name, rest) = host.split_at(end);
    let port = if rest.is_empty() { "" } else { rest.strip_prefix(':')? };
    let is_name = !name.is_empty() && !name.contains('@') && port.bytes().all(|byte| byte.is_ascii_digit());
    is_name.then_some((name.strip_suffix('.').unwrap_or(name), port))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_localhost_and_configured_names_are_allowed() {
        let entries = ["Counters.example".to_owned(), "two.example:8080".to_owned()];
        let is_allowed = |host: &str| is_own(host) || is_configured(host, &entries);
        for host in [
            "127.0.0.1:6381",
            "10.1.2.3",
            "[::1]:6381",
            "[2001:db8::1]",
            "localhost",
            "LocalHost.:1",
            "counters.example",
            "counters.EXAMPLE:6381",
            "two.example:8080",
        ] {
            assert!(is_allowed(host), "{host}");
        }
        for host in [
            "",
            ":6381",
            "evil.example",
            "evil.example:6381",
            "localhost.evil.example",
            "127.0.0.1.evil.example",
            "127.0.0.1@evil.example",
            "localhost:6381@evil.example",
            "localhost:x",
            "[::1",
            "[::1]x",
            "[evil.example]",
            "::1",
            "0x7f.1",
            "two.example",
            "two.example:80",
            "counters.example.evil",
        ] {
            assert!(!is_allowed(host), "{host}");
        }
    }
}
