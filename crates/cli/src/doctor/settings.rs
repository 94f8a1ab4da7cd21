//! Checks of the settings against each other and against the files that they name.

use std::net::TcpListener;
use std::os::unix::fs::MetadataExt;

use jeton_auth::{Access, may_listen};
use jeton_register::disk::{Disk, LockError, RealDisk};
use jeton_server::tls::Tls;

use super::Finding;
use crate::config::Settings;

/// Whether the engine takes its options.
pub fn engine(settings: &Settings) -> Finding {
    match settings.engine_options().check() {
        Ok(()) => Finding::ok("settings", "they can be read, and the engine takes them"),
        Err(why) => {
            Finding::fail("settings", why, "see them with jeton config, and change the one that is named")
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
        return Finding::ok("tokens", "none: whoever can connect may do everything");
    };
    match Access::from_file(file) {
        Ok(_) => Finding::ok("tokens", format!("{} can be read, and only by its owner", file.display())),
        Err(why) => Finding::fail(
            "tokens",
            why.to_string(),
            "make a token with jeton token create, or mend what is named",
        ),
    }
}

fn certificate(settings: &Settings) -> Option<Finding> {
    let wanted = settings.resp_tls.0.is_some() || settings.http_tls.0.is_some();
    match (&settings.tls_cert.0, &settings.tls_key.0) {
        (Some(cert), Some(key)) => Some(match Tls::open(cert, key) {
            Err(why) => Finding::fail(
                "certificate",
                why.to_string(),
                "name PEM files that go together with --tls-cert and --tls-key",
            ),
            Ok(_) => match std::fs::metadata(key).map(|found| found.mode() & 0o077) {
                Ok(0) => Finding::ok("certificate", "it goes with its key"),
                _ => {
                    let found = format!("{} can be read by others", key.display());
                    Finding::warn("certificate", found, format!("chmod 600 {}", key.display()))
                }
            },
        }),
        (None, None) if !wanted => None,
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
    let wanted = [
        ("resp", settings.resp),
        ("http", settings.http),
        ("resp-tls", settings.resp_tls),
        ("http-tls", settings.http_tls),
    ];
    let mut findings = Vec::new();
    for (about, address) in wanted.into_iter().filter_map(|(about, listen)| Some((about, listen.0?))) {
        if let Err(why) = may_listen(address, has_tokens, insecure) {
            findings.push(Finding::fail(
                about,
                why,
                "jeton token create --help; then jeton serve --tokens FILE",
            ));
            continue;
        }
        let plain_outside =
            !about.ends_with("tls") && has_tokens && !address.ip().to_canonical().is_loopback();
        findings.push(match TcpListener::bind(address) {
            Ok(_) if plain_outside => Finding::warn(
                about,
                format!(
                    "{address} can be reached from outside, and tokens would cross the network in plain text"
                ),
                format!("use --{about}-tls with a certificate, and --{about} off"),
            ),
            Ok(_) => Finding::ok(about, format!("{address} is free")),
            Err(_) if running.is_some() => {
                Finding::ok(about, format!("{address} is in use, as by a server that runs"))
            }
            Err(why) => {
                let fix = format!(
                    "see who listens there: ss -ltnp | grep {}; or choose another with --{about}",
                    address.port()
                );
                Finding::fail(about, format!("{address}: {why}"), fix)
            }
        });
    }
    findings.extend(running.map(|who| Finding::ok("server", who)));
    findings
}

/// Who uses the directory, if somebody does.
fn in_use(settings: &Settings) -> Option<String> {
    if !settings.data.is_dir() {
        return None;
    }
    match RealDisk::new(&settings.data).ok()?.lock("jeton doctor") {
        Err(LockError::Held { by, pid }) => Some(format!("the store is in use by {by} (process {pid})")),
        _ => None,
    }
}
