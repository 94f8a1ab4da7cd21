//! Checks of settings: consistency, tokens, certificate, addresses.

use std::net::TcpListener;
use std::os::unix::fs::MetadataExt;

use jeton_auth::{Access, may_listen};
use jeton_server::tls::Tls;
use jeton_wal::disk::{Disk, LockError, RealDisk};

use super::Finding;
use crate::config::Settings;

/// Whether the engine accepts its options.
pub fn engine(settings: &Settings) -> Finding {
    match settings.engine_options().check() {
        Ok(()) => Finding::ok("settings", "valid"),
        Err(reason) => {
            Finding::fail("settings", reason, "list them with jeton config, and change the one that is named")
        }
    }
}

/// Tokens, certificates, addresses.
pub fn findings(settings: &Settings) -> Vec<Finding> {
    let mut findings = vec![tokens(settings)];
    findings.extend(certificate(settings));
    findings.extend(addresses(settings));
    findings
}

fn tokens(settings: &Settings) -> Finding {
    let Some(file) = &settings.tokens.0 else {
        return Finding::ok("tokens", "none: every client has all rights");
    };
    match Access::from_file(file) {
        Ok(_) => Finding::ok("tokens", format!("{} is readable by its owner only", file.display())),
        Err(error) => Finding::fail(
            "tokens",
            error.to_string(),
            "create a token with jeton token create, or correct the cause",
        ),
    }
}

fn certificate(settings: &Settings) -> Option<Finding> {
    let needed = settings.resp_tls.0.is_some() || settings.http_tls.0.is_some();
    match (&settings.tls_cert.0, &settings.tls_key.0) {
        (Some(cert), Some(key)) => Some(match Tls::open(cert, key) {
            Err(error) => Finding::fail(
                "certificate",
                error.to_string(),
                "name a certificate and its key in PEM with --tls-cert and --tls-key",
            ),
            Ok(_) => match std::fs::metadata(key).map(|found| found.mode() & 0o077) {
                Ok(0) => Finding::ok("certificate", "matches its key"),
                _ => {
                    let found = format!("{} is readable by other users", key.display());
                    Finding::warn("certificate", found, format!("chmod 600 {}", key.display()))
                }
            },
        }),
        (None, None) if !needed => None,
        _ => Some(Finding::fail(
            "certificate",
            "TLS needs a certificate and its key",
            "give both --tls-cert and --tls-key",
        )),
    }
}

fn addresses(settings: &Settings) -> Vec<Finding> {
    let (has_tokens, insecure) = (settings.tokens.0.is_some(), settings.insecure);
    let running = in_use(settings);
    let configured = [
        ("resp", settings.resp),
        ("http", settings.http),
        ("resp-tls", settings.resp_tls),
        ("http-tls", settings.http_tls),
    ];
    let mut findings = Vec::new();
    for (about, address) in configured.into_iter().filter_map(|(about, listen)| Some((about, listen.0?))) {
        if let Err(reason) = may_listen(address, has_tokens, insecure) {
            findings.push(Finding::fail(
                about,
                reason,
                "create a token (jeton token create --help), then jeton serve --tokens FILE",
            ));
            continue;
        }
        let is_plain_remote =
            !about.ends_with("tls") && has_tokens && !address.ip().to_canonical().is_loopback();
        findings.push(match TcpListener::bind(address) {
            Ok(_) if is_plain_remote => Finding::warn(
                about,
                format!(
                    "{address} is reachable from other machines, and tokens would be sent in plain text"
                ),
                format!("use --{about}-tls with a certificate, and --{about} off"),
            ),
            Ok(_) => Finding::ok(about, format!("{address} is free")),
            Err(_) if running.is_some() => {
                Finding::ok(about, format!("{address} is in use by the running server"))
            }
            Err(error) => {
                let fix = format!(
                    "find the process that listens there: ss -ltnp | grep {}; or choose another with --{about}",
                    address.port()
                );
                Finding::fail(about, format!("{address}: {error}"), fix)
            }
        });
    }
    findings.extend(running.map(|owner| Finding::ok("server", owner)));
    findings
}

/// The process that uses the data directory, if there is one.
fn in_use(settings: &Settings) -> Option<String> {
    if !settings.data.is_dir() {
        return None;
    }
    match RealDisk::new(&settings.data).ok()?.lock("jeton doctor") {
        Err(LockError::Held { by, pid }) => Some(format!("the store is in use by {by} (process {pid})")),
        _ => None,
    }
}
