//! TLS on both protocols.

use std::path::Path;

use crate::program::until;
use crate::server::{Server, folder, has, run_in};

fn certificate(folder: &Path, name: &str) {
    let made = rcgen::generate_simple_self_signed(vec!["127.0.0.1".to_owned()]).expect("a certificate");
    std::fs::write(folder.join(format!("{name}.pem")), made.cert.pem()).expect("it is written");
    let key = folder.join(format!("{name}.key"));
    std::fs::write(&key, made.signing_key.serialize_pem()).expect("it is written");
    std::fs::set_permissions(&key, std::os::unix::fs::PermissionsExt::from_mode(0o600))
        .expect("its mode is set");
}

#[test]
fn both_protocols_use_tls_and_reload_the_certificate() {
    let folder = folder();
    certificate(folder.path(), "server");
    certificate(folder.path(), "other");
    let tls = [
        "--resp-tls",
        "127.0.0.1:0",
        "--http-tls",
        "127.0.0.1:0",
        "--tls-cert",
        "server.pem",
        "--tls-key",
        "server.key",
    ];
    let server = Server::start(folder.path(), &tls);
    let (resp, https) = (server.address("RESP, TLS"), server.address("HTTPS"));
    let ask = |ca: &str, arguments: &[&str]| {
        let variables = [("JETON_RESP", resp.as_str()), ("JETON_HTTP", https.as_str()), ("JETON_TLS_CA", ca)];
        run_in(folder.path(), &variables, arguments)
    };
    std::fs::copy(folder.path().join("server.pem"), folder.path().join("first.pem")).unwrap();
    assert_eq!(ask("first.pem", &["add", "home"]).out, "1 applied\n");
    assert_eq!(server.must(&["get", "home"]), "1", "the addresses without TLS work too");
    has(&ask("first.pem", &["table", "list"]).out, &["default"]);
    // The variable replaces the authorities of the operating system.
    for (file, expected) in [("first.pem", "default"), ("other.pem", "is not trusted")] {
        let variables = [("SSL_CERT_FILE", file), ("JETON_HTTP", https.as_str())];
        let run = run_in(folder.path(), &variables, &["table", "list", "--tls-ca", "system"]);
        has(&(run.out + &run.err), &[expected]);
    }
    for arguments in [["get", "home", "--timeout", "1h"], ["table", "list", "--timeout", "1h"]] {
        // Reported at once, and not retried until the timeout.
        ask("other.pem", &arguments).fails(&["is not trusted", "fix: "]);
    }
    assert_eq!(ask("first.pem", &["get", "home", "--resp", &server.resp(), "--timeout", "2s"]).code, Some(1));

    certificate(folder.path(), "server");
    until("the new certificate is in use", || ask("server.pem", &["get", "home"]).out == "1\n");
    assert_eq!(ask("first.pem", &["get", "home"]).code, Some(1), "the old certificate is not in use");
    assert_eq!(server.stop().code, Some(0));
}

#[test]
fn tls_needs_a_certificate_with_its_key() {
    let folder = folder();
    certificate(folder.path(), "one");
    certificate(folder.path(), "two");
    for (more, words) in [
        (&["--resp-tls", "127.0.0.1:0"][..], "needs a certificate"),
        (&["--tls-cert", "one.pem"], "only one is given"),
        (&["--tls-cert", "one.pem", "--tls-key", "two.key"], "do not match"),
        (&["--tls-cert", "none.pem", "--tls-key", "two.key"], "none.pem: cannot be read"),
    ] {
        let ports = ["serve", "--resp", "127.0.0.1:0", "--http", "127.0.0.1:0"];
        run_in(folder.path(), &[], &[&ports[..], more].concat()).fails(&[words, "fix: "]);
    }
}
