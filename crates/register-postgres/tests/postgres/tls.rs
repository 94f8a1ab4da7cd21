//! Encrypted connections, and servers that are not trusted.

use futures_executor::block_on;
use jeton_register::{LogId, WriteResult};
use jeton_register_postgres::{Connector, OpenError, Options, PostgresRegisters, create_schema};
use jeton_testbed::{Certificate, Postgres};
use tokio::runtime::Runtime;

use super::support::{Server, write};

/// The number of encrypted and of all sessions of registers.
fn sessions(url: &str) -> (i64, i64) {
    Runtime::new().unwrap().block_on(async {
        let (client, connection) = Connector::parse(url).unwrap().connect().await.unwrap();
        tokio::spawn(connection);
        let sessions = "SELECT count(*) FILTER (WHERE ssl), count(*) FROM pg_stat_ssl
             JOIN pg_stat_activity USING (pid) WHERE application_name = 'jeton'";
        let row = client.query_one(sessions, &[]).await.unwrap();
        (row.get(0), row.get(1))
    })
}

/// Connects with a password that is bound to the certificate of the server.
fn connect_with_password(server: &Postgres) {
    let url = server.url().replace("tester@", "guarded:secret@") + "?sslmode=require&channel_binding=require";
    Runtime::new().unwrap().block_on(async {
        let (client, connection) = Connector::parse(&server.url()).unwrap().connect().await.unwrap();
        tokio::spawn(connection);
        client.batch_execute("CREATE ROLE guarded LOGIN PASSWORD 'secret'").await.unwrap();
        let (client, connection) = Connector::parse(&url).unwrap().connect().await.unwrap();
        tokio::spawn(connection);
        client.batch_execute("SELECT 1").await.unwrap();
    });
}

fn error_of(url: &str) -> OpenError {
    block_on(PostgresRegisters::open(url, Options::default())).err().unwrap()
}

#[test]
fn a_server_that_insists_on_encryption_is_used() {
    let folder = jeton_testbed::folder().unwrap();
    let certificate = Certificate::of("127.0.0.1").unwrap();
    let [file, _] = certificate.write(folder.path()).unwrap();
    let server = Postgres::start_encrypted(folder.path(), &certificate).unwrap();
    let (url, file) = (server.url(), file.display());
    let by_name = url.replace("127.0.0.1", "localhost");
    block_on(create_schema(&url)).unwrap();
    let log = LogId::partition(1);
    for (slot, url) in [
        url.clone(),
        format!("{url}?sslmode=require"),
        format!("{url}?sslmode=require&sslrootcert={file}"),
        format!("{by_name}?sslmode=verify-ca&sslrootcert={file}"),
        format!("{url}?sslmode=verify-full&sslrootcert={file}"),
    ]
    .into_iter()
    .enumerate()
    {
        let engine = block_on(PostgresRegisters::open(&url, Options::default())).unwrap();
        let written = block_on(write(&engine, &[(log, slot as u64 + 1, b"x")]));
        assert_eq!(written, Ok(vec![WriteResult::Fresh]), "{url}");
        let (encrypted, all) = sessions(&server.url());
        assert!(all > 0 && encrypted == all, "{url}: {encrypted} of {all}");
    }
    connect_with_password(&server);

    let other = jeton_testbed::folder().unwrap();
    let [wrong, _] = Certificate::of("127.0.0.1").unwrap().write(other.path()).unwrap();
    for (url, reason) in [
        (format!("{url}?sslmode=verify-full&sslrootcert={}", wrong.display()), "BadSignature"),
        (format!("{url}?sslmode=verify-ca&sslrootcert={}", wrong.display()), "BadSignature"),
        (format!("{by_name}?sslmode=verify-full&sslrootcert={file}"), "not valid for name"),
    ] {
        let error = error_of(&url);
        assert!(matches!(&error, OpenError::Tls(why) if why.contains(reason)), "{url}: {error}");
    }
    // The operating system does not trust it, or trusts none at all.
    let error = error_of(&format!("{url}?sslmode=verify-full"));
    assert!(matches!(error, OpenError::Tls(_) | OpenError::Url(_)), "{error}");
    let error = error_of(&format!("{url}?sslmode=disable"));
    assert!(matches!(&error, OpenError::Unreachable(why) if why.contains("no encryption")), "{error}");
}

#[test]
fn a_server_without_tls_is_refused_if_tls_is_required() {
    let server = Server::new();
    let url = server.postgres.url();
    let file = concat!(env!("CARGO_MANIFEST_DIR"), "/Cargo.toml");
    drop(block_on(PostgresRegisters::open(&format!("{url}?sslmode=prefer"), Options::default())).unwrap());
    for mode in ["require", "verify-full"] {
        let error = error_of(&format!("{url}?sslmode={mode}"));
        assert!(
            matches!(&error, OpenError::Tls(why) if why.contains("server does not support TLS")),
            "{error}"
        );
    }
    assert!(matches!(error_of(&format!("{url}?sslmode=verify-full&sslrootcert={file}")), OpenError::Url(_)));
}
